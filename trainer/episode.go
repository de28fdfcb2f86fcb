package trainer

import (
	"context"
	"errors"
	"fmt"

	"tandem/engine"
	"tandem/trainer/env"
)

// Sampling is how replies are drawn.
type Sampling struct {
	Params engine.Params // MaxTokens is of one turn
	Total  int           // tokens that the model may write in an episode
	After  int           // tokens that may follow the prompt, whoever writes them; 0 is what the engine's context leaves
}

// A Player plays episodes: an engine samples the model's turns, an environment answers them until it ends the episode.
// Several are played at a time, and what one becomes does not depend on the others. While the environment thinks or runs a
// tool, the others have the engine.
type Player struct {
	engine *engine.Engine
	env    env.Env

	// The journal gets every turn; what it has of an episode is not sampled again. Nil keeps nothing.
	journal *journal

	clock envClock
}

// NewPlayer plays on an engine.
func NewPlayer(e *engine.Engine, of env.Env) *Player {
	return &Player{engine: e, env: of, clock: envClock{engine: e}}
}

// A turn is one turn of an episode with the answer to it. An episode is made of its turns.
type turn struct {
	env.Exchange
	LogProbs []float32
	Stop     engine.StopReason
	Cached   int
}

// An Episode is being played.
type Episode struct {
	player  *Player
	how     Sampling
	seed    uint64
	limit   int // tokens in all
	at      *env.Episode
	rollout *Rollout
	over    bool
	session *engine.Session // nil where it was over when it was opened
}

// Open begins an episode. Its next turn is in the engine's queue when Open returns.
func (p *Player) Open(of env.Problem, how Sampling, seed uint64) (*Episode, error) {
	at, err := p.env.Start(of)
	if err != nil {
		return nil, err
	}
	e := &Episode{player: p, how: how, seed: seed, at: at, limit: p.engine.Config().Context}
	if how.After > 0 {
		e.limit = min(e.limit, len(at.Tokens)+how.After)
	}
	e.rollout = &Rollout{Problem: of.ID, Tokens: append([]int32(nil), at.Tokens...)}
	for _, t := range p.journal.past(seed) {
		e.add(t)
	}
	if e.over {
		return e, nil
	}
	params := how.Params
	params.MaxTokens = e.turnTokens()
	e.session, err = p.engine.Open(engine.Request{Tokens: e.rollout.Tokens, Params: params, Seed: seed})
	return e, err
}

// turnTokens is the length of the next turn at most.
func (e *Episode) turnTokens() int {
	return min(e.how.Params.MaxTokens, e.how.Total-e.rollout.Sampled(), e.limit-len(e.rollout.Tokens))
}

// room is how many tokens can be put after a reply of n so that the model can still write one.
func (e *Episode) room(n int) int {
	if e.how.Total <= e.rollout.Sampled()+n {
		return 0
	}
	return max(0, e.limit-len(e.rollout.Tokens)-n-1)
}

// add takes a turn to the books.
func (e *Episode) add(t turn) {
	r := e.rollout
	at := len(r.Tokens)
	r.Tokens = append(r.Tokens, t.Reply.Tokens...)
	r.Spans = append(r.Spans, span{at, len(r.Tokens)})
	r.LogProbs = append(r.LogProbs, t.LogProbs...)
	if len(t.Turn.Process) > 0 {
		r.reward(t.Turn.Process, len(t.Reply.Tokens))
	}
	r.Tokens = append(r.Tokens, t.Turn.Append...)
	r.Calls = append(r.Calls, t.Turn.Calls...)
	r.Stop = string(t.Stop)
	r.Cached += t.Cached
	r.Reward, r.Reason, r.End = t.Turn.Reward, t.Turn.Reason, t.Turn.End
	e.at.Past = append(e.at.Past, t.Exchange)
	e.over = t.Turn.Done
}

// Play plays to the end, and closes the episode.
func (e *Episode) Play(ctx context.Context) (*Rollout, error) {
	defer e.Close()
	for !e.over {
		t, err := e.turn(ctx)
		if err == nil {
			err = e.player.journal.add(e.seed, t)
		}
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
				err = cause
			}
			return nil, err
		}
		e.add(t)
		if e.over {
			break
		}
		if err := e.session.Append(t.Turn.Append, e.turnTokens()); err != nil {
			return nil, err
		}
	}
	return e.rollout, nil
}

// turn waits for the model's turn, and for the answer to it.
func (e *Episode) turn(ctx context.Context) (t turn, err error) {
	sample, err := e.session.Next(ctx)
	if err != nil {
		return t, err
	}
	t.LogProbs, t.Stop, t.Cached = sample.LogProbs, sample.Stop, sample.Cached
	t.Reply = env.Reply{Tokens: sample.Tokens, Truncated: sample.Stop == engine.StopLength, Room: e.room(len(sample.Tokens))}
	leave := e.player.clock.enter()
	t.Turn, err = e.player.env.Step(ctx, e.at, t.Reply)
	leave()
	if err != nil {
		return t, err
	}
	if n := len(t.Turn.Process); n > 1 && n != len(t.Reply.Tokens) {
		return t, fmt.Errorf("the environment gives %d process rewards to a turn of %d tokens", n, len(t.Reply.Tokens))
	}
	if n, room := len(t.Turn.Append), t.Reply.Room; !t.Turn.Done && (room < 1 || n > room) {
		return t, fmt.Errorf("the environment goes on with %d tokens where there is room for %d", n, room)
	}
	return t, nil
}

// Close gives up an episode that was not played to its end.
func (e *Episode) Close() {
	if e.session != nil {
		e.session.Close()
	}
}
