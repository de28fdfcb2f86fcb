package trainer

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"

	"tandem/trainer/env"
)

func TestPassBuckets(t *testing.T) {
	for _, tt := range []struct{ passed, n, want int }{
		{0, 1, 0}, {1, 1, 5}, {0, 8, 0}, {1, 8, 1}, {2, 8, 2}, {3, 8, 2}, {4, 8, 3}, {5, 8, 3}, {6, 8, 4}, {7, 8, 4}, {8, 8, 5}, {1, 3, 2}, {2, 3, 3}, {99, 100, 4}, {1, 100, 1},
	} {
		if got := passBucket(tt.passed, tt.n); got != tt.want {
			t.Errorf("%d of %d: bucket %d, want %d", tt.passed, tt.n, got, tt.want)
		}
	}
}

// firstSeven is worth 1 from the first 7 on; what it has seen is kept.
type firstSeven struct {
	successor
	seen *[][]int32
}

func (f firstSeven) Cut(e *env.Episode, last []int32) float32 {
	var all []int32
	for _, x := range e.Past {
		all = append(append(all, x.Reply.Tokens...), x.Turn.Append...)
	}
	all = append(all, last...)
	*f.seen = append(*f.seen, all)
	if slices.Contains(all, 7) {
		return 1
	}
	return -1
}

func TestRewardByBudget(t *testing.T) {
	two := &Rollout{Tokens: []int32{1, 2, 0, 0, 7, 9, 9, 0, 7}, Spans: [][2]int{{2, 4}, {7, 9}}, LogProbs: make([]float32, 4), Reward: 1} // 7, 9, 9 by a tool
	short := &Rollout{Tokens: []int32{1, 7, 0}, Spans: [][2]int{{1, 3}}, LogProbs: make([]float32, 2), Reward: 0.5}
	log := &StepLog{Groups: []Group{{Rollouts: []*Rollout{two, short}}}}
	for _, tt := range []struct {
		name          string
		max           int
		quarter, half float64
		cuts          [][]int32
	}{
		{"enough for both", 16, 0.75, 0.75, nil},
		{"a cut in the second turn", 12, 0.75, 0.75, [][]int32{{0, 0, 7, 9, 9, 0}}},
		{"a cut at the end of a turn", 8, -0.25, 0.75, [][]int32{{0, 0}}},
		{"both are cut", 4, 0, -0.25, [][]int32{{0}, {0, 0}, {7}}},
	} {
		var m Metrics
		var seen [][]int32
		m.budgets(firstSeven{seen: &seen}, log, tt.max)
		if m.RewardQuarter != tt.quarter || m.RewardHalf != tt.half || len(seen) != len(tt.cuts) {
			t.Errorf("%s: %v at a quarter, %v at half, want %v and %v; graded %v", tt.name, m.RewardQuarter, m.RewardHalf, tt.quarter, tt.half, seen)
			continue
		}
		for i, want := range tt.cuts {
			if !slices.Equal(seen[i], want) {
				t.Errorf("%s: graded %v, want %v", tt.name, seen, tt.cuts)
			}
		}
	}
	// An environment that can't tell: 0, or what is lowest.
	var m Metrics
	m.budgets(successor{}, log, 4)
	if m.RewardQuarter != 0 || m.RewardHalf != 0.25 {
		t.Errorf("%v at a quarter, %v at half, want 0 and 0.25", m.RewardQuarter, m.RewardHalf)
	}
	short.Reward = -1
	m = Metrics{}
	m.budgets(successor{}, log, 4)
	if m.RewardQuarter != -1 || m.RewardHalf != -1 {
		t.Errorf("%v at a quarter, %v at half, want the lowest reward", m.RewardQuarter, m.RewardHalf)
	}
}

func TestAdvantageFigures(t *testing.T) {
	var m Metrics
	m.advantages([]*sample{{Rollout: &Rollout{}, adv: []float32{1, 1}}, {Rollout: &Rollout{}, adv: []float32{-3}}})
	m.finish()
	for name, v := range map[string][2]float64{
		"mean": {m.AdvantageMean, -1.0 / 3}, "deviation": {m.AdvantageStd, math.Sqrt(32.0 / 9)}, "least": {m.AdvantageMin, -3}, "largest": {m.AdvantageMax, 1}, "magnitude": {m.Advantage, 2},
	} {
		if math.Abs(v[0]-v[1]) > 1e-12 {
			t.Errorf("%s: %v, want %v", name, v[0], v[1])
		}
	}
}

// TestStepsHaveTheFigures sees that what a run writes adds up.
func TestStepsHaveTheFigures(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps, r.Algorithm.Updates, r.Optimizer.LR = 60, 2, 1e-3
	tr := newTestTrainer(t, r, nil)
	steps(t, tr, r.Warmup.Steps)
	m, err := tr.Step(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	groups := 0
	for _, n := range m.PassHistogram {
		groups += n
	}
	if groups != r.Rollout.Prompts || m.RewardDrawn != m.Reward || float64(m.WastedTokens) != math.Round(m.Wasted*float64(m.Sampled)) {
		t.Errorf("%d groups, reward %v, of all drawn %v, wasted %d of %d (%v)", groups, m.Reward, m.RewardDrawn, m.WastedTokens, m.Sampled, m.Wasted)
	}
	if !(m.RatioMin < 1 && m.RatioMin <= m.Ratio && m.Ratio <= m.RatioMax && m.RatioMax > 1) || m.MismatchMean != 0 {
		t.Errorf("ratio %v to %v, mean %v, mismatch %v", m.RatioMin, m.RatioMax, m.Ratio, m.MismatchMean)
	}
	if !(m.RewardQuarter <= m.RewardHalf && m.RewardHalf <= m.Reward) {
		t.Errorf("reward at a quarter of the budget %v, at half %v, at all %v", m.RewardQuarter, m.RewardHalf, m.Reward)
	}
	m.TeacherKL = math.NaN()
	b, err := json.Marshal(m)
	if err != nil || !strings.Contains(string(b), `"pass_histogram":[`) || !strings.Contains(string(b), `"teacher_kl":null`) || !strings.Contains(string(b), `"ratio_max":1.`) {
		t.Errorf("%s, %v", b, err)
	}
}
