package env

import "tandem/tokenizer"

// Cut grades what there is of a reply.
func (s *Single) Cut(e *Episode, last []int32) float32 {
	return float32(s.grader.Grade(s.tok.Decode(last, false), e.Problem.Answer).Score)
}

// Cut is what Step gives a cut turn that has no room for the answer to a call.
func (t *Tools) Cut(e *Episode, last []int32) float32 {
	past := e.Past
	e = &Episode{Problem: e.Problem, Tokens: e.Tokens}
	for _, x := range past {
		x.Turn.Calls = made(t.calls(e, x.Reply))
		e.Past = append(e.Past, x)
	}
	r := Reply{Tokens: last, Truncated: true}
	if calls := t.calls(e, r); len(calls) > 0 {
		return t.end(e, Truncated, calls).Reward
	}
	return t.grade(e, r, t.tok.Decode(last, false)).Reward
}

// calls are those of a turn.
func (t *Tools) calls(e *Episode, r Reply) []*pending {
	parse := tokenizer.ParseReply
	if t.thinking(e) {
		parse = tokenizer.ParseThinking
	}
	return t.read(parse(t.tok.Decode(r.Tokens, false)), r.Truncated, len(e.Past))
}
