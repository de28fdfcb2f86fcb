package trainer

import (
	"context"
	"testing"
)

// TestDynamicSamplingKeepsTheFirstThatDiffer compares what a step keeps with all that it drew.
func TestDynamicSamplingKeepsTheFirstThatDiffer(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps = 60
	r.Rollout.Prompts, r.Rollout.Samples, r.Rollout.OverSampling, r.Algorithm.Updates = 4, 3, 6, 1
	r.Rollout.Dynamic = true
	for _, waves := range []int{1, 2, 5} {
		r.Rollout.Waves = waves
		tr := newTestTrainer(t, r, nil)
		steps(t, tr, r.Warmup.Steps)
		for range 3 {
			log := &StepLog{}
			if err := tr.fill(context.Background(), log); err != nil {
				t.Fatal(err)
			}
			drawn := log.Drawn - tr.drawn
			if len(log.Groups) != 4 || drawn%6 != 0 || drawn > 6*waves || len(log.Groups)+log.Discarded != drawn {
				t.Fatalf("%d waves: %d groups are kept and %d thrown away of %d drawn", waves, len(log.Groups), log.Discarded, drawn)
			}
			// The same problems again, all kept: seeds depend on the place alone.
			all, err := tr.roller.play(context.Background(), tr.problems(tr.drawn, drawn), 3, tr.sampling(), func(p, g int) uint64 {
				return memberSeed(r.Seed, tr.step, p, g, drawReplies)
			}, func(*Rollout) {})
			if err != nil {
				t.Fatal(err)
			}
			var mixed, others []*Rollout
			for _, g := range all {
				if (Group{Rollouts: g}).mixed() {
					mixed = append(mixed, g[0])
				} else {
					others = append(others, g[0])
				}
			}
			want := append(mixed[:min(4, len(mixed)):len(mixed)], others...)
			for p, g := range log.Groups {
				if g.Rollouts[0].Problem != want[p].Problem {
					t.Errorf("%d waves: group %d is of problem %d, want %d", waves, p, g.Rollouts[0].Problem, want[p].Problem)
				}
			}
			if len(mixed) < 4 && drawn < 6*waves {
				t.Errorf("%d waves: stopped after %d prompts with %d groups that differ", waves, drawn, len(mixed))
			}
			tr.drawn = log.Drawn
			tr.step++
		}
	}
}

func TestDiscardedTokensAreWasted(t *testing.T) {
	equal := Group{Rollouts: []*Rollout{{LogProbs: make([]float32, 5), Reward: 1}, {LogProbs: make([]float32, 5), Reward: 1}}}
	var m Metrics
	m.sampled(&StepLog{Groups: []Group{equal}, Discarded: 2, DiscardedTokens: 30})
	samples, _, err := weigh(GRPO(GRPOConfig{Std: true}), [][]*Rollout{equal.Rollouts}, [][]float32{{1, 1}}, LossSample, 5)
	if err != nil {
		t.Fatal(err)
	}
	m.advantages(samples)
	m.finish()
	if m.Sampled != 40 || m.Wasted != 1 || m.Discarded != 2 || m.Reward != 1 {
		t.Errorf("%+v", m)
	}
}
