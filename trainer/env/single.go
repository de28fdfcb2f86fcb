package env

import (
	"context"

	"tandem/tokenizer"
	"tandem/trainer/reward"
)

// Single asks a problem once and grades the reply's final answer.
type Single struct {
	tok       *tokenizer.Tokenizer
	prompting Prompting
	grader    reward.Grader
}

// NewSingle is the task of answering in one turn.
func NewSingle(tok *tokenizer.Tokenizer, p Prompting, g reward.Grader) *Single {
	return &Single{tok, p, g}
}

// Start gives the rendered problem.
func (s *Single) Start(p Problem) (*Episode, error) {
	return s.prompting.start(s.tok, p)
}

// Step grades the reply.
func (s *Single) Step(_ context.Context, e *Episode, r Reply) (Turn, error) {
	return graded(s.grader.Grade(s.tok.Decode(r.Tokens, false), e.Problem.Answer), r.Truncated), nil
}

// graded ends an episode with what its last turn was worth.
func graded(res reward.Result, truncated bool) Turn {
	t := Turn{Done: true, Reward: float32(res.Score), Reason: res.Reason, End: Answered}
	switch {
	case truncated:
		t.End = Truncated
	case res.Extracted == "":
		t.End = NoAnswer
	}
	return t
}

// Signed grades +1 or -1.
type Signed struct{ reward.Grader }

// Grade is 1 where the grader's score is above 0.
func (s Signed) Grade(response, label string) reward.Result {
	r := s.Grader.Grade(response, label)
	if r.Score > 0 {
		r.Score = 1
	} else {
		r.Score = -1
	}
	return r
}
