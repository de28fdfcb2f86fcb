package trainer

import (
	"context"
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
	Spans    [][2]int  // stretches of Tokens that the model sampled, one a turn
	LogProbs []float32 // of the sampled tokens, in order
	Reward   float32
	Reason   string     // the grader's
	Stop     string     // why the last turn ended
	End      env.End    // what ended the episode; "" where the environment does not say
	Calls    []env.Call // of tools, in order
	Cached   int        // tokens that did not have to be computed
	Age      int        // steps since it was sampled
	Imported bool       // sampled by another program
	Process  []float32  // rewards along the way, per sampled token, a NaN for none; may be short or nil
}

// Sampled is the number of tokens that the model wrote.
func (r *Rollout) Sampled() int { return len(r.LogProbs) }

// Truncated says that a limit of tokens ended it.
func (r *Rollout) Truncated() bool {
	return r.End == env.Truncated || r.End == "" && r.Stop == string(engine.StopLength)
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
func (p *Player) play(ctx context.Context, problems []env.Problem, samples int, how Sampling, seed func(prompt, member int) uint64, done func(*Rollout)) ([][]*Rollout, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	out := make([][]*Rollout, len(problems))
	var all sync.WaitGroup
	var finished sync.Mutex
	for i, of := range problems {
		out[i] = make([]*Rollout, samples)
		for g := range samples {
			// Opened here, in order, so that the members of a group meet in the engine's queue.
			e, err := p.Open(of, how, seed(i, g))
			if err != nil {
				cancel(fmt.Errorf("problem %d: %w", of.ID, err))
				break
			}
			all.Go(func() {
				r, err := e.Play(ctx)
				if err != nil {
					cancel(fmt.Errorf("problem %d, sample %d: %w", of.ID, g, err))
					return
				}
				out[i][g] = r
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
