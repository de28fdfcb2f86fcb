package trainer

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestGroupAdvantages(t *testing.T) {
	nan := float32(math.NaN())
	for _, tt := range []struct {
		name    string
		rewards []float32
		std     bool
		want    []float32
		tol     float64
	}{
		{"n-1 in the denominator", []float32{1, 0, 0, 1}, true, []float32{0.866024, -0.866024, -0.866024, 0.866024}, 2e-6},
		{"mean only", []float32{1, 0, 0, 1}, false, []float32{0.5, -0.5, -0.5, 0.5}, 1e-7},
		{"equal rewards that no float holds", []float32{0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1}, true, make([]float32, 8), 0},
		{"a group of one", []float32{1}, true, []float32{0}, 0},
		{"a missing reward", []float32{1, nan, 0}, true, []float32{0.707106, 0, -0.707106}, 2e-6},
		{"all missing", []float32{nan, nan}, true, []float32{0, 0}, 0},
		{"one there", []float32{nan, 3}, true, []float32{0, 0}, 0},
		{"large and close", []float32{1e6, 1e6 + 1}, true, []float32{-0.707106, 0.707106}, 2e-6},
	} {
		got := GroupAdvantages([][]float32{tt.rewards}, tt.std)[0]
		for i, want := range tt.want {
			if d := math.Abs(float64(got[i]) - float64(want)); !(d <= tt.tol) {
				t.Errorf("%s: advantage %d is %v, want %v", tt.name, i, got[i], want)
			}
		}
	}
}

func TestClippedSurrogate(t *testing.T) {
	for _, tt := range []struct {
		name          string
		ratio, adv    float64
		loss, dlogp   float64
		clippedTokens int
	}{
		{"upper clip", 1.5, 1, -1.28, 0, 1},
		{"small ratio, positive advantage: not clipped", 0.5, 1, -0.5, -0.5, 0},
		{"lower clip", 0.5, -1, 0.8, 0, 1},
		{"large ratio, negative advantage: not clipped", 10, -1, 10, 10, 0},
		{"on policy", 1, 0.866, -0.866, -0.866, 0},
		{"on policy, negative", 1, -0.866, 0.866, 0.866, 0},
		{"no advantage", 1.7, 0, 0, 0, 0},
	} {
		new, old, adv, dlogp := []float32{float32(math.Log(tt.ratio))}, []float32{0}, []float32{float32(tt.adv)}, []float32{float32(math.NaN())}
		loss, clipped := GRPO(GRPOConfig{Std: true, ClipLow: 0.2, ClipHigh: 0.28}).Grad(Terms{New: new, Old: old, Adv: adv}, dlogp)
		if math.Abs(float64(loss)-tt.loss) > 2e-6 || math.Abs(float64(dlogp[0])-tt.dlogp) > 2e-6 || clipped != tt.clippedTokens {
			t.Errorf("%s: loss %v, gradient %v, clipped %d, want %v, %v, %d", tt.name, loss, dlogp[0], clipped, tt.loss, tt.dlogp, tt.clippedTokens)
		}
	}
}

// TestClippedSurrogateGradient compares with central differences in float64, away from the edges of the clip.
func TestClippedSurrogateGradient(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	alg := GRPO(GRPOConfig{ClipLow: 0.2, ClipHigh: 0.28})
	value := func(new, old, adv float64) float64 {
		ratio := math.Exp(new - old)
		return math.Max(-ratio*adv, -math.Min(math.Max(ratio, 0.8), 1.28)*adv)
	}
	for range 2000 {
		new, old, adv := r.NormFloat64(), r.NormFloat64()*0.3, r.NormFloat64()
		old += new
		const h = 1e-6
		want := (value(new+h, old, adv) - value(new-h, old, adv)) / (2 * h)
		if e := math.Exp(new - old); math.Abs(e-0.8) < 1e-4 || math.Abs(e-1.28) < 1e-4 {
			continue
		}
		d := []float32{0}
		alg.Grad(Terms{New: []float32{float32(new)}, Old: []float32{float32(old)}, Adv: []float32{float32(adv)}}, d)
		if math.Abs(float64(d[0])-want) > 1e-5*(1+math.Abs(want)) {
			t.Fatalf("new %v old %v advantage %v: gradient %v, want %v", new, old, adv, d[0], want)
		}
	}
}

func TestWildRatiosStayFinite(t *testing.T) {
	for _, old := range []float32{-200, 200, float32(math.Inf(-1))} {
		for _, adv := range []float32{1, -1} {
			d := []float32{0}
			loss, _ := clippedSurrogate(Terms{New: []float32{0}, Old: []float32{old}, Adv: []float32{adv}}, d, GRPOConfig{ClipLow: 0.2, ClipHigh: 0.28})
			for _, v := range []float32{loss, d[0]} {
				if v-v != 0 {
					t.Errorf("old %v, advantage %v: loss %v, gradient %v", old, adv, loss, d[0])
				}
			}
		}
	}
}

func TestLossWeigh(t *testing.T) {
	losses := [][]float32{{1}, {0.5, 0.5, 0.5}} // of two samples
	for _, tt := range []struct {
		loss Loss
		want float64
	}{
		{LossSample, 0.75},
		{LossToken, 0.625},
		{LossConstant, 0.3125}, // over 2 samples of at most 4 tokens
		{LossPrompt, 0.625},    // one prompt
	} {
		tokens := [][]int{{1, 3}}
		weights, step, err := tt.loss.Weigh(tokens, 4)
		if err != nil {
			t.Fatal(err)
		}
		var got float64
		for i, sample := range losses {
			for _, l := range sample {
				got += float64(l) * float64(weights[0][i]) * float64(step)
			}
		}
		if math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: %v, want %v", tt.loss, got, tt.want)
		}
	}
	weights, step, err := LossPrompt.Weigh([][]int{{1, 3}, {2, 2}}, 4)
	if err != nil || step != 0.5 || weights[0][0] != 0.25 || weights[1][1] != 0.25 {
		t.Errorf("two prompts: weights %v, step %v, %v", weights, step, err)
	}
	for _, l := range []Loss{LossSample, LossToken, LossPrompt, LossConstant} {
		if weights, step, err := l.Weigh([][]int{{0, 0}}, 4); err != nil || step != 0 || weights[0][0] != 0 && l != LossToken && l != LossConstant {
			t.Errorf("%s of no tokens: weights %v, step %v, %v: want 0 and no division by it", l, weights, step, err)
		}
	}
	if _, _, err := Loss("mean").Weigh([][]int{{1}}, 4); err == nil {
		t.Error(`loss "mean" was accepted`)
	}
}

func TestRates(t *testing.T) {
	o := OptimizerConfig{LR: 1, WarmupSteps: 4}
	for _, tt := range []struct {
		schedule string
		want     []float32 // steps 0, 1, 3, 4, 7, 9 of 10
	}{
		{"constant", []float32{0.25, 0.5, 1, 1, 1, 1}},
		{"linear", []float32{0.25, 0.5, 1, 1, 0.5, 1.0 / 6}},
		{"cosine", []float32{0.25, 0.5, 1, 1, 0.5, 0.0669873}},
	} {
		o.Schedule = tt.schedule
		for i, step := range []int{0, 1, 3, 4, 7, 9} {
			if got := o.rate(step, 10); math.Abs(float64(got-tt.want[i])) > 1e-6 {
				t.Errorf("%s: step %d: %v, want %v", tt.schedule, step, got, tt.want[i])
			}
		}
	}
}
