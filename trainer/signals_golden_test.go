package trainer

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"testing"
)

// signalGoldens are what testdata/gen_signals.py writes.
type signalGoldens struct {
	Low, High, Cap, Task, Coef float32
	Importance                 []struct {
		New, Ours, Theirs, Adv, Weights, Grad []float32
		Truncated                             int
		Loss                                  float64
	}
	Process []struct {
		Gamma     float32
		Rewards   []Floats
		Std, Mean [][]float32
	}
	Distill []struct {
		New, Old, Teacher, Task, Adv, Grad []float32
		Loss                               float64
	}
	Expected []struct{ Student, Teacher, Grad []float32 }
}

func readSignalGoldens(t *testing.T) (g signalGoldens) {
	t.Helper()
	b, err := os.ReadFile("testdata/signals.json")
	if err == nil {
		err = json.Unmarshal(b, &g)
	}
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// near compares with a golden value in float32, of at most scale.
func near(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: %d values, want %d", what, len(got), len(want))
	}
	if d, _, i := worst([][]float32{got}, [][]float32{want}); d > tolerance {
		t.Errorf("%s: %.3g: value %d is %v, want %v", what, d, i, got[i], want[i])
	}
}

func poisoned(n int) []float32 {
	out := make([]float32, n)
	for i := range out {
		out[i] = missing
	}
	return out
}

// checkLoss runs the surrogate and compares with autograd.
func checkLoss(t *testing.T, what string, alg Algorithm, terms Terms, loss float64, grad []float32) {
	t.Helper()
	dlogp := poisoned(len(grad))
	got, _ := alg.Grad(terms, dlogp)
	if math.Abs(float64(got)-loss) > 1e-5*(1+math.Abs(loss)) {
		t.Errorf("%s: loss %v, want %v", what, got, loss)
	}
	near(t, what+": gradient", dlogp, grad, 2e-5)
}

func TestTruncatedWeightsEqualTorch(t *testing.T) {
	g := readSignalGoldens(t)
	alg := GRPO(GRPOConfig{ClipLow: g.Low, ClipHigh: g.High})
	for n, x := range g.Importance {
		w, truncated := TruncatedWeights(x.Ours, x.Theirs, g.Cap)
		near(t, fmt.Sprintf("case %d: weights", n), w, x.Weights, 2e-6)
		if truncated != x.Truncated {
			t.Errorf("case %d: %d truncated, want %d", n, truncated, x.Truncated)
		}
		adv := make([]float32, len(w))
		for i := range adv {
			adv[i] = w[i] * x.Adv[i]
		}
		checkLoss(t, fmt.Sprintf("case %d", n), alg, Terms{New: x.New, Old: x.Ours, Adv: adv}, x.Loss, x.Grad)
	}
}

func TestTruncatedWeights(t *testing.T) {
	inf := float32(math.Inf(-1))
	for _, tt := range []struct {
		name         string
		ours, theirs float32
		limit, want  float32
		truncated    int
	}{
		{"case d26: min(e^1.5, 2)", -1, -2.5, 2, 2, 1},
		{"equal bits", -0.1, -0.1, 2, 1, 0},
		{"at most 1", -0.1, -0.1, 1, 1, 0},
		{"a small one stays", -5, -1, 2, float32(math.Exp(-4)), 0},
		{"theirs is impossible", -1, inf, 3, 3, 1},
		{"wild", -300, -1, 2, float32(math.Exp(-20)), 0},
	} {
		w, truncated := TruncatedWeights([]float32{tt.ours}, []float32{tt.theirs}, tt.limit)
		if math.Abs(float64(w[0]-tt.want)) > 1e-6*float64(tt.want) || truncated != tt.truncated {
			t.Errorf("%s: %v, %d truncated, want %v, %d", tt.name, w[0], truncated, tt.want, tt.truncated)
		}
	}
}

func TestProcessAdvantagesEqualTorch(t *testing.T) {
	for n, x := range readSignalGoldens(t).Process {
		rewards := make([][]float32, len(x.Rewards))
		for g, r := range x.Rewards {
			rewards[g] = r
		}
		for _, std := range []bool{true, false} {
			want := x.Mean
			if std {
				want = x.Std
			}
			for g, got := range ProcessAdvantages(rewards, std, x.Gamma) {
				near(t, fmt.Sprintf("case %d, std %v, sample %d", n, std, g), got, want[g], 1e-5)
			}
		}
	}
}

func TestProcessAdvantages(t *testing.T) {
	nan := missing
	for _, tt := range []struct {
		name    string
		rewards [][]float32
		gamma   float32
		want    [][]float32
	}{
		{"a turn's reward reaches back to its beginning and before", [][]float32{{nan, 1, nan, 0}, {nan, 0}}, 1, [][]float32{{1.0 / 3, 1.0 / 3, -1.0 / 3, -1.0 / 3}, {-1.0 / 3, -1.0 / 3}}},
		{"equal ones are nothing, exactly", [][]float32{{0.1, 0.1, 0.1}, {0.1}}, 1, [][]float32{{0, 0, 0}, {0}}},
		{"one alone", [][]float32{{nan, 5}, {nan}}, 1, [][]float32{{0, 0}, {0}}},
		{"none", [][]float32{{nan}, {}}, 1, [][]float32{{0}, {}}},
		{"no discount reaches back", [][]float32{{1, 0}}, 0, [][]float32{{0.5, -0.5}}},
		{"half", [][]float32{{nan, nan, 1}, {-1}}, 0.5, [][]float32{{0.25, 0.5, 1}, {-1}}},
	} {
		for g, got := range ProcessAdvantages(tt.rewards, false, tt.gamma) {
			near(t, tt.name, got, tt.want[g], 1e-6)
		}
	}
}

func TestDistillAdvantagesEqualTorch(t *testing.T) {
	g := readSignalGoldens(t)
	alg := GRPO(GRPOConfig{ClipLow: g.Low, ClipHigh: g.High})
	for n, x := range g.Distill {
		adv := mixAdvantages(x.Task, DistillAdvantages(x.Old, x.Teacher), TeacherConfig{Task: g.Task, KL: g.Coef})
		near(t, fmt.Sprintf("case %d: advantages", n), adv, x.Adv, 2e-6)
		checkLoss(t, fmt.Sprintf("case %d", n), alg, Terms{New: x.New, Old: x.Old, Adv: adv}, x.Loss, x.Grad)
	}
}

// TestDistillGradientIsTheReverseDivergences sums over all that could be sampled: the gradient by the logits, which is
// dlogp times (1 where sampled) - p, must be that of the divergence.
func TestDistillGradientIsTheReverseDivergences(t *testing.T) {
	alg := GRPO(GRPOConfig{ClipLow: 0.2, ClipHigh: 0.28})
	for n, x := range readSignalGoldens(t).Expected {
		sum := make([]float64, len(x.Student))
		for v, lp := range x.Student {
			old, dlogp := []float32{lp}, []float32{missing}
			alg.Grad(Terms{New: old, Old: old, Adv: DistillAdvantages(old, []float32{x.Teacher[v]})}, dlogp)
			p := math.Exp(float64(lp))
			for u, lq := range x.Student {
				slope := -math.Exp(float64(lq))
				if u == v {
					slope++
				}
				sum[u] += p * float64(dlogp[0]) * slope
			}
		}
		for u := range sum {
			if math.Abs(sum[u]-float64(x.Grad[u])) > 1e-6 {
				t.Errorf("case %d: by logit %d: %v, want %v", n, u, sum[u], x.Grad[u])
			}
		}
	}
}
