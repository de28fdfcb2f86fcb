package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// A Request is a prompt and how to go on from it.
type Request struct {
	Tokens []int32
	Params Params
	Seed   uint64

	// Until, if set, sees the turn's tokens after each new one, on the engine's goroutine, and ends the turn by true:
	// for stop strings, which only who knows text can find, and for watching a reply grow.
	Until func(turn []int32) bool

	// Deadline, if set, ends whatever turn is in progress then, with the tokens that are there. It is looked at between
	// steps, and decides nothing else: what a sample has by then is the beginning of what it would have become.
	Deadline time.Time
}

// StopReason is why a turn ended.
type StopReason string

const (
	StopToken     StopReason = "stop"      // a stop token, the last of the sample
	StopUntil     StopReason = "until"     // Until said so
	StopLength    StopReason = "length"    // MaxTokens, or no room left in the context
	StopDeadline  StopReason = "deadline"  // the request's Deadline; there may be no tokens
	StopCancelled StopReason = "cancelled" // Session.Stop; there may be no tokens
)

// A Sample is one turn: its tokens and the log-prob of each.
type Sample struct {
	Tokens   []int32
	LogProbs []float32
	Top      [][]TokenLogProb // of each token's place, Params.Top at most, the most probable first; nil unless asked for
	Stop     StopReason
	Cached   int // tokens before the turn that did not have to be computed
}

// A TokenLogProb is a token that might have been drawn.
type TokenLogProb struct {
	Token   int32
	LogProb float32
}

// A Session is one sequence, from its prompt over any number of turns. Its pages stay between turns unless others need
// them. A session is used by one goroutine; only Stop may be called from others.
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

// Open begins to sample. It fails on parameters that make no sense, on a prompt that leaves no room for a token, and on
// lists that are longer than the engine was made for.
func (e *Engine) Open(r Request) (*Session, error) {
	s, err := e.open(r)
	if err != nil {
		return nil, fmt.Errorf("engine: open a session: %w", err)
	}
	if err := e.submit(s.seq); err != nil {
		return nil, err
	}
	return s, nil
}

// OpenGroup begins to sample all requests, or none. They arrive together, in this order: the members of a group compute
// their common prompt once and share its pages, whatever the engine is doing.
func (e *Engine) OpenGroup(requests []Request) ([]*Session, error) {
	sessions := make([]*Session, len(requests))
	seqs := make([]*seq, len(requests))
	for i, r := range requests {
		s, err := e.open(r)
		if err != nil {
			return nil, fmt.Errorf("engine: open session %d of %d: %w", i, len(requests), err)
		}
		sessions[i], seqs[i] = s, s.seq
	}
	if err := e.submit(seqs...); err != nil {
		return nil, err
	}
	return sessions, nil
}

// open checks a request and makes its session.
func (e *Engine) open(r Request) (*Session, error) {
	if err := e.checkRequest(r); err != nil {
		return nil, err
	}
	s := &Session{e: e, turns: make(chan turn, 1), active: true}
	r.Params.Stop = slices.Clone(r.Params.Stop)
	s.seq = &seq{
		request: r, tokens: slices.Clone(r.Tokens), turn: len(r.Tokens), maxTokens: r.Params.MaxTokens,
		bias: r.Params.bias(), allowed: r.Params.allowed(), deliver: s.turns,
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
	if err := r.Params.Check(); err != nil {
		return err
	}
	return e.checkLists(&r.Params, len(r.Tokens), r.Params.MaxTokens)
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
	if err := s.e.checkLists(&s.seq.request.Params, s.Len()+len(tokens), maxTokens); err != nil {
		return fmt.Errorf("engine: append to a session: %w", err)
	}
	if err := s.e.resume(s.seq, tokens, maxTokens); err != nil {
		return err
	}
	s.active = true
	return nil
}

// Stop ends the turn in progress, if there is one, with the tokens that are there. What Append continues it with may be
// nothing.
func (s *Session) Stop() { s.e.stop(s.seq) }

// Len is the number of tokens so far, prompt and appended ones included, at the end of a turn.
func (s *Session) Len() int { return s.e.length(s.seq) }

// Close gives up the session's pages; a turn in progress ends unseen.
func (s *Session) Close() {
	if !s.closed {
		s.closed = true
		s.e.cancel(s.seq)
	}
}
