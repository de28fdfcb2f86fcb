package trainer

import (
	"context"
	"math"
	"testing"

	"tandem/trainer/env"
)

// stepwise is successor's task with rewards along the way: one a turn that is half right, or one a token. The whole is
// worth nothing.
type stepwise struct {
	successor
	perToken bool
}

func (s stepwise) Step(_ context.Context, e *env.Episode, r env.Reply) (env.Turn, error) {
	t := env.Turn{Done: true, Reason: "along the way"}
	right := func(i int, want int32) float32 {
		if i < len(r.Tokens) && r.Tokens[i] == want {
			return 1
		}
		return 0
	}
	next, end := right(0, int32((e.Problem.ID+1)%s.n)), right(1, int32(s.n+1))
	if !s.perToken {
		t.Process = []float32{next + end}
		return t, nil
	}
	t.Process = make([]float32, len(r.Tokens))
	for i := range t.Process {
		t.Process[i] = missing
	}
	t.Process[0] = next
	if len(r.Tokens) > 1 {
		t.Process[1] = end
	}
	return t, nil
}

// TestProcessRewardsTeach trains on nothing but rewards along the way.
func TestProcessRewardsTeach(t *testing.T) {
	if testing.Short() {
		t.Skip("whole runs")
	}
	for name, perToken := range map[string]bool{"per turn": false, "per token": true} {
		t.Run(name, func(t *testing.T) {
			r := testRecipe()
			r.Warmup.Steps, r.Train.Steps, r.Rollout.Samples = 40, 30, 6
			tr := newTestTrainer(t, r, nil)
			tr.roller.env = stepwise{successor{8}, perToken}
			steps(t, tr, r.Warmup.Steps)
			var first, last float64
			for n, m := range steps(t, tr, r.Train.Steps) {
				if m.Reward != 0 {
					t.Fatalf("reward of the whole %v", m.Reward)
				}
				if n < 5 {
					first += m.ProcessReward / 5
				} else if n >= r.Train.Steps-5 {
					last += m.ProcessReward / 5
				}
			}
			if !(last > first+0.15) {
				t.Errorf("process rewards go from %.3f to %.3f", first, last)
			}
		})
	}
}

func TestProcessRewardsStandAtTheirTokens(t *testing.T) {
	r := &Rollout{LogProbs: make([]float32, 2)}
	r.LogProbs = append(r.LogProbs, 0, 0, 0)
	r.reward([]float32{7}, 3) // the second turn; the first had none
	r.LogProbs = append(r.LogProbs, 0, 0)
	r.reward([]float32{1, missing}, 2)
	r.LogProbs = append(r.LogProbs, 0) // a turn without
	want := []float32{missing, missing, missing, missing, 7, 1, missing, missing}
	for i, got := range r.process() {
		if math.Float32bits(got) != math.Float32bits(want[i]) {
			t.Errorf("token %d has %v, want %v", i, got, want[i])
		}
	}
	if (&Rollout{LogProbs: r.LogProbs}).process() != nil {
		t.Error("a rollout without process rewards has some")
	}
}

func TestWrongNumbersOfProcessRewardsAreRefused(t *testing.T) {
	tr := newTestTrainer(t, testRecipe(), nil)
	tr.roller.env = tooMany{successor{8}}
	_, err := tr.roller.play(context.Background(), tr.task.Problems[:1], 1, tr.sampling(), func(int, int) uint64 { return 1 }, func(*Rollout) {})
	if err == nil {
		t.Error("99 process rewards of a short turn were accepted")
	}
}

type tooMany struct{ successor }

func (tooMany) Step(context.Context, *env.Episode, env.Reply) (env.Turn, error) {
	return env.Turn{Done: true, Process: make([]float32, 99)}, nil
}

// TestProcessAdvantagesAreAdded sees what a sample's tokens get: of the whole and of the way, and nothing where the reward
// is left out.
func TestProcessAdvantagesAreAdded(t *testing.T) {
	tr := newTestTrainer(t, testRecipe(), nil)
	tr.step = tr.recipe.Warmup.Steps
	tr.recipe.Algorithm.Std, tr.recipe.Algorithm.OverlongFilter, tr.recipe.Algorithm.Process = false, true, 0.5
	tr.algorithm = tr.recipe.algorithm()
	two := func(reward float32, stop string, process ...float32) *Rollout {
		return &Rollout{Tokens: []int32{8, 0, 1, 9}, Spans: [][2]int{{2, 4}}, LogProbs: make([]float32, 2), Reward: reward, Stop: stop, Process: process}
	}
	group := []*Rollout{two(1, "stop", missing, 2), two(0, "stop", missing, 0), two(5, "length", 100, 100)}
	var m Metrics
	samples, _, err := tr.samples(context.Background(), tr.algorithm, [][]*Rollout{group}, LossToken, &m)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][]float32{{1, 1}, {-1, -1}, {0, 0}} {
		near(t, "advantages", samples[i].adv, want, 1e-6)
	}
}
