package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// Params say how tokens are drawn. Filters apply in the order temperature, top-k, top-p, min-p; the log-probs that come
// back are always those of the full distribution at the temperature.
type Params struct {
	MaxTokens   int     // of one turn
	Temperature float32 // 0 is greedy, with log-probs at temperature 1
	TopK        int     // 0 is off
	TopP        float32 // 1 (or 0) is off
	MinP        float32 // 0 is off
	Stop        []int32 // tokens that end the turn; they are part of the sample
}

func (p Params) check() error {
	switch {
	case p.MaxTokens < 1:
		return fmt.Errorf("max tokens is %d, want at least 1", p.MaxTokens)
	case !(p.Temperature >= 0) || p.Temperature > 1e9:
		return fmt.Errorf("temperature is %v, want 0 (greedy) or more", p.Temperature)
	case !(p.TopP >= 0 && p.TopP <= 1):
		return fmt.Errorf("top-p is %v, want 0 to 1", p.TopP)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return fmt.Errorf("min-p is %v, want 0 to 1", p.MinP)
	case p.TopK < 0:
		return fmt.Errorf("top-k is %d, want 0 (off) or more", p.TopK)
	}
	return nil
}

// A Request is a prompt and how to go on from it.
type Request struct {
	Tokens []int32
	Params Params
	Seed   uint64

	// Until, if set, sees the turn's tokens after each new one, on the engine's goroutine, and ends the turn by true:
	// for stop strings, which only who knows text can find, and for watching a reply grow.
	Until func(turn []int32) bool
}

// StopReason is why a turn ended.
type StopReason string

const (
	StopToken  StopReason = "stop"   // a stop token, the last of the sample
	StopUntil  StopReason = "until"  // Until said so
	StopLength StopReason = "length" // MaxTokens, or no room left in the context
)

// A Sample is one turn: its tokens and the log-prob of each.
type Sample struct {
	Tokens   []int32
	LogProbs []float32
	Stop     StopReason
	Cached   int // tokens before the turn that did not have to be computed
}

// A Session is one sequence, from its prompt over any number of turns. Its pages stay between turns unless others need
// them. A session is used by one goroutine.
type Session struct {
	e      *Engine
	seq    *seq
	turns  chan turn // holds the one turn in progress
	active bool      // a turn is in progress or its sample not yet fetched
	closed bool
}

type turn struct {
	sample Sample
	err    error
}

var errClosed = errors.New("engine: session is closed")

// Open begins to sample. It fails on parameters that make no sense and on a prompt that leaves no room for a token.
func (e *Engine) Open(r Request) (*Session, error) {
	if err := e.checkRequest(r); err != nil {
		return nil, fmt.Errorf("engine: open a session: %w", err)
	}
	s := &Session{e: e, turns: make(chan turn, 1), active: true}
	s.seq = &seq{request: r, tokens: slices.Clone(r.Tokens), turn: len(r.Tokens), maxTokens: r.Params.MaxTokens, deliver: s.turns}
	if err := e.submit(s.seq); err != nil {
		return nil, err
	}
	return s, nil
}

func (e *Engine) checkRequest(r Request) error {
	if len(r.Tokens) == 0 {
		return errors.New("the prompt has no tokens")
	}
	if err := e.checkTokens(r.Tokens, 0); err != nil {
		return err
	}
	return r.Params.check()
}

// checkTokens checks tokens that follow before others.
func (e *Engine) checkTokens(tokens []int32, before int) error {
	if n := before + len(tokens); n >= e.cfg.Context {
		return fmt.Errorf("%d tokens leave no room for a new one in a context of %d", n, e.cfg.Context)
	}
	V := e.w.Config.Vocab
	for i, t := range tokens {
		if t < 0 || int(t) >= V {
			return fmt.Errorf("token %d of the prompt is %d, want 0 to %d", before+i, t, V-1)
		}
	}
	return nil
}

// Next waits for the end of the turn. When ctx ends first, the session is closed.
func (s *Session) Next(ctx context.Context) (Sample, error) {
	if s.closed {
		return Sample{}, errClosed
	}
	if !s.active {
		return Sample{}, errors.New("engine: next turn of a session: nothing was appended since the last one")
	}
	select {
	case t := <-s.turns:
		s.active = false
		return t.sample, t.err
	case <-ctx.Done():
		s.Close()
		return Sample{}, fmt.Errorf("engine: wait for a sample: %w", ctx.Err())
	}
}

// Append adds tokens that were not sampled, such as a tool's reply, and begins the next turn of at most maxTokens.
func (s *Session) Append(tokens []int32, maxTokens int) error {
	if s.closed {
		return errClosed
	}
	if s.active {
		return errors.New("engine: append to a session: its turn has not been fetched")
	}
	if err := s.e.checkTokens(tokens, s.Len()); err != nil {
		return fmt.Errorf("engine: append to a session: %w", err)
	}
	if maxTokens < 1 {
		return fmt.Errorf("engine: append to a session: max tokens is %d, want at least 1", maxTokens)
	}
	if err := s.e.resume(s.seq, tokens, maxTokens); err != nil {
		return err
	}
	s.active = true
	return nil
}

// Len is the number of tokens so far, prompt and appended ones included, at the end of a turn.
func (s *Session) Len() int { return s.e.length(s.seq) }

// Close gives up the session's pages; a turn in progress ends unseen.
func (s *Session) Close() {
	if !s.closed {
		s.closed = true
		s.e.cancel(s.seq)
	}
}
