package trainer

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestAlgorithmsEqualTorch compares losses and gradients with autograd's; testdata/gen_algorithms.py makes them.
func TestAlgorithmsEqualTorch(t *testing.T) {
	b, err := os.ReadFile("testdata/algorithms.json")
	if err != nil {
		t.Fatal(err)
	}
	var g struct {
		Low, High, Dual, Coef float32
		Cases                 []struct {
			Name                     string
			New, Old, Ref, Adv, Grad []float32
			Loss                     float64
		}
		Groups []map[string][][]float32
	}
	if err := json.Unmarshal(b, &g); err != nil {
		t.Fatal(err)
	}
	c := GRPOConfig{Std: true, ClipLow: g.Low, ClipHigh: g.High}
	dual := c
	dual.DualClip = g.Dual
	algorithms := map[string]Algorithm{"grpo": GRPO(c), "dual": GRPO(dual), "gspo": GSPO(c), "cispo": CISPO(c)}
	for _, k := range []string{"k1", "k2", "k3"} {
		algorithms[k] = KL{g.Coef, k}.InLoss(GRPO(c))
	}
	for n, x := range g.Cases {
		dlogp := make([]float32, len(x.New))
		for i := range dlogp {
			dlogp[i] = float32(math.NaN())
		}
		loss, _ := algorithms[x.Name].Grad(Terms{New: x.New, Old: x.Old, Adv: x.Adv, Ref: x.Ref}, dlogp)
		if math.Abs(float64(loss)-x.Loss) > 1e-5*(1+math.Abs(x.Loss)) {
			t.Errorf("%s, case %d: loss %v, want %v", x.Name, n, loss, x.Loss)
		}
		if d, _, i := worst([][]float32{dlogp}, [][]float32{x.Grad}); d > 2e-5 {
			t.Errorf("%s, case %d: %.3g: gradient %d is %v, want %v", x.Name, n, d, i, dlogp[i], x.Grad[i])
		}
	}
	for _, x := range g.Groups {
		for name, advantages := range map[string]func([][]float32) [][]float32{
			"grpo": GRPO(c).Advantages, "dr_grpo": GRPO(GRPOConfig{}).Advantages, "rloo": RLOO(c).Advantages, "reinforce++": ReinforcePlus(c).Advantages,
		} {
			if d, p, i := worst(advantages(x["rewards"]), x[name]); d > 2e-6 {
				t.Errorf("%s: %.3g: advantage of sample %d of prompt %d, want %v", name, d, i, p, x[name][p][i])
			}
		}
	}
}

func TestKLStaysFinite(t *testing.T) {
	for _, k := range []string{"k1", "k2", "k3"} {
		for _, ref := range []float32{-400, 400} {
			v, slope := KL{1, k}.value(-200, ref)
			if v-v != 0 || slope-slope != 0 {
				t.Errorf("%s, reference %v: %v, slope %v", k, ref, v, slope)
			}
		}
	}
	// An on-policy estimate of k1 and k3 agrees with the divergence of two Bernoulli distributions.
	p, q := 0.3, 0.6
	want := p*math.Log(p/q) + (1-p)*math.Log((1-p)/(1-q))
	for _, k := range []string{"k1", "k3"} {
		a, _ := KL{1, k}.value(float32(math.Log(p)), float32(math.Log(q)))
		b, _ := KL{1, k}.value(float32(math.Log(1-p)), float32(math.Log(1-q)))
		if got := p*a + (1-p)*b; math.Abs(got-want) > 1e-6 {
			t.Errorf("%s: mean %v, the divergence is %v", k, got, want)
		}
	}
}

func TestOverlongPenalty(t *testing.T) {
	for length, want := range map[int]float32{79: 0, 80: 0, 90: -0.5, 100: -1, 101: -1} {
		if got := OverlongPenalty(length, 100, 20); math.Abs(float64(got-want)) > 1e-6 {
			t.Errorf("%d tokens: %v, want %v", length, got, want)
		}
		if got := OverlongPenalty(length, 100, 0); got != 0 {
			t.Errorf("off: %v", got)
		}
	}
}

// TestEveryAlgorithmLearns trains by each on the toy task, with its own normalisation.
func TestEveryAlgorithmLearns(t *testing.T) {
	if testing.Short() {
		t.Skip("nine runs of 90 steps")
	}
	for name, change := range map[string]func(*AlgorithmConfig){
		"dr-grpo":      func(a *AlgorithmConfig) { a.Std, a.Loss = false, LossConstant },
		"dapo":         func(a *AlgorithmConfig) { a.Loss, a.OverlongCache, a.OverlongFilter = LossToken, 2, true },
		"gspo":         func(a *AlgorithmConfig) { a.Name, a.Updates = "gspo", 2 },
		"cispo":        func(a *AlgorithmConfig) { a.Name, a.Updates = "cispo", 2 },
		"rloo":         func(a *AlgorithmConfig) { a.Name = "rloo" },
		"reinforce++":  func(a *AlgorithmConfig) { a.Name, a.DualClip = "reinforce++", 3 },
		"kl in loss":   func(a *AlgorithmConfig) { a.KL = 0.01 },
		"kl in reward": func(a *AlgorithmConfig) { a.KL, a.KLIn, a.KLEstimator = 0.01, "reward", "k1" },
		"prompt means": func(a *AlgorithmConfig) { a.Loss = LossPrompt },
	} {
		t.Run(name, func(t *testing.T) {
			r := testRecipe()
			r.Train.Steps = 30
			change(&r.Algorithm)
			tr := newTestTrainer(t, r, nil)
			var first, last float64
			for n, m := range steps(t, tr, r.Steps()) {
				if n -= r.Warmup.Steps; n >= 0 && n < 5 {
					first += m.Reward / 5
				} else if n >= r.Train.Steps-5 {
					last += m.Reward / 5
				}
			}
			if !(last > first+0.05) {
				t.Errorf("mean reward of the first five steps %.3f, of the last five %.3f", first, last)
			}
		})
	}
}
