package env

import (
	"context"
	"errors"
	"fmt"

	"tandem/tokenizer"
	"tandem/trainer/reward"
)

// Prompting says how a problem becomes a prompt.
type Prompting struct {
	Template string // default, thinking, no-thinking, or none: the text as it is
	System   string // a message before every problem; "" is none
	Suffix   string // text after every problem
}

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
	tokens, err := s.prompting.tokens(s.tok, p.Text)
	if err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	}
	if len(tokens) == 0 {
		return nil, errors.New("prompt: it has no tokens")
	}
	return &Episode{Problem: p, Tokens: tokens}, nil
}

func (p Prompting) tokens(tok *tokenizer.Tokenizer, text string) ([]int32, error) {
	text += p.Suffix
	if p.Template == "none" {
		return tok.Encode(text, tokenizer.SpecialAsText), nil
	}
	var messages []tokenizer.Message
	if p.System != "" {
		messages = append(messages, tokenizer.Message{Role: "system", Content: p.System})
	}
	messages = append(messages, tokenizer.Message{Role: "user", Content: text})
	o := tokenizer.ChatOptions{AddGenerationPrompt: true}
	if p.Template != "default" {
		thinks := p.Template == "thinking"
		o.EnableThinking = &thinks
	}
	return tok.EncodeChat(messages, o)
}

// Step grades the reply.
func (s *Single) Step(_ context.Context, e *Episode, r Reply) (Turn, error) {
	res := s.grader.Grade(s.tok.Decode(r.Tokens, false), e.Problem.Answer)
	return Turn{Done: true, Reward: float32(res.Score), Reason: res.Reason}, nil
}

// Cut grades what there is of a reply.
func (s *Single) Cut(p Problem, reply []int32) float32 {
	return float32(s.grader.Grade(s.tok.Decode(reply, false), p.Answer).Score)
}
