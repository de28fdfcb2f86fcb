package trainer

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"tandem/engine"
	"tandem/kernels"
	"tandem/trainer/env"
)

// A Rollout is one episode as training sees it: tokens, which of them were sampled, and with what log-probs.
type Rollout struct {
	Problem  int // its row in the data
	Tokens   []int32
	Spans    [][2]int  // stretches of Tokens that the model sampled
	LogProbs []float32 // of the sampled tokens, in order
	Reward   float32
	Reason   string // the grader's
	Stop     string // why the last turn ended
	Cached   int    // prompt tokens that did not have to be computed
}

// Sampled is the number of tokens that the model wrote.
func (r *Rollout) Sampled() int { return len(r.LogProbs) }

// sampling is how replies are drawn.
type sampling struct {
	params engine.Params
	total  int // sampled tokens of an episode at most
}

// roller plays episodes on the engine.
type roller struct {
	engine *engine.Engine
	env    env.Env
	clock  envClock
}

// purposes tell the random streams of one seed apart.
const (
	drawReplies uint32 = iota
	drawProblems
	drawDemonstrations
	drawEvaluation
)

// memberSeed is the seed of one episode's draws: the first 64 bits of Philox4x32-10 of the run's seed.
func memberSeed(seed uint64, step, prompt, member int, purpose uint32) uint64 {
	return kernels.Seed(seed, uint32(step), uint32(prompt), uint32(member), purpose)
}

// play samples G episodes of each problem: [P][G]. What an episode becomes does not depend on the others.
func (ro *roller) play(ctx context.Context, problems []env.Problem, samples int, s sampling, seed func(prompt, member int) uint64, done func(*Rollout)) ([][]*Rollout, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([][]*Rollout, len(problems))
	var all sync.WaitGroup
	var finished sync.Mutex
	for p := range problems {
		out[p] = make([]*Rollout, samples)
		for g := range samples {
			// Opened here, in order, so that the members of a group meet in the engine's queue.
			ep, session, err := ro.open(problems[p], s, seed(p, g))
			if err != nil {
				cancel(fmt.Errorf("problem %d: %w", problems[p].ID, err))
				break
			}
			all.Go(func() {
				defer session.Close()
				r, err := ro.episode(ctx, ep, session, s)
				if err != nil {
					cancel(fmt.Errorf("problem %d, sample %d: %w", problems[p].ID, g, err))
					return
				}
				out[p][g] = r
				finished.Lock()
				defer finished.Unlock()
				done(r)
			})
		}
	}
	all.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, fmt.Errorf("rollout: %w", err)
	}
	return out, nil
}

func (ro *roller) open(p env.Problem, s sampling, seed uint64) (*env.Episode, *engine.Session, error) {
	ep, err := ro.env.Start(p)
	if err != nil {
		return nil, nil, err
	}
	session, err := ro.engine.Open(engine.Request{Tokens: ep.Tokens, Params: s.params, Seed: seed})
	return ep, session, err
}

// episode plays turns until the environment ends it or no token is left to spend.
func (ro *roller) episode(ctx context.Context, ep *env.Episode, session *engine.Session, s sampling) (*Rollout, error) {
	r := &Rollout{Problem: ep.Problem.ID, Tokens: append([]int32(nil), ep.Tokens...)}
	for {
		sample, err := session.Next(ctx)
		if err != nil {
			if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, ctx.Err()) {
				err = cause
			}
			return nil, err
		}
		at := len(r.Tokens)
		r.Tokens = append(r.Tokens, sample.Tokens...)
		r.Spans = append(r.Spans, span{at, len(r.Tokens)})
		r.LogProbs = append(r.LogProbs, sample.LogProbs...)
		r.Stop = string(sample.Stop)
		r.Cached += sample.Cached
		ep.Turns++
		leave := ro.clock.enter()
		turn, err := ro.env.Step(ctx, ep, env.Reply{Tokens: sample.Tokens, Truncated: sample.Stop == engine.StopLength})
		leave()
		if err != nil {
			return nil, err
		}
		left := s.total - r.Sampled()
		if turn.Done {
			r.Reward, r.Reason = turn.Reward, turn.Reason
			return r, nil
		}
		if left < 1 {
			return nil, errors.New("the environment goes on after the last token") // Step saw Truncated
		}
		r.Tokens = append(r.Tokens, turn.Append...)
		if err := session.Append(turn.Append, min(left, s.params.MaxTokens)); err != nil {
			return nil, err
		}
	}
}
