package trainer

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"tandem/kernels"
)

// TestGradientMatchesDifferences compares the gradient of a supervised step, parameter by parameter, with central
// differences of the loss, in float32.
func TestGradientMatchesDifferences(t *testing.T) {
	r := testRecipe()
	r.Model.DType = "float32"
	tr := newTestTrainer(t, r, nil)
	samples, err := tr.demonstrations()
	if err != nil {
		t.Fatal(err)
	}
	l := tr.learner
	batch, factor, err := weigh(Supervised(), [][]*Rollout{samples}, rewards([][]*Rollout{samples}), LossToken, 4)
	if err != nil {
		t.Fatal(err)
	}
	loss := func() float64 {
		var sum float64
		l.zero()
		if err := l.accumulate(context.Background(), Supervised(), batch, 1, func(s *sample) {
			for _, lp := range s.new {
				sum -= float64(lp)
			}
		}); err != nil {
			t.Fatal(err)
		}
		return sum * float64(factor)
	}
	loss()
	n := l.w.Arena.Len()
	g, w := make([]float32, n), make([]float32, n)
	read := func(to []float32, from kernels.Tensor) {
		if err := l.host.Get(to, from, 0); err != nil {
			t.Fatal(err)
		}
	}
	if l.g.Config.Tied {
		kernels.Add(l.pass.q, l.g.Embed, l.g.Scatter)
	}
	read(g, l.g.Arena)
	read(w, l.w.Arena)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, s := range l.opt.runs {
		for range 4 {
			i := s.lo + rng.IntN(s.hi-s.lo)
			const h = 2e-3
			at := func(v float32) float64 {
				if err := l.host.Put(l.w.Arena, i, []float32{v}); err != nil {
					t.Fatal(err)
				}
				return loss()
			}
			want := (at(w[i]+h) - at(w[i]-h)) / (2 * h)
			at(w[i])
			if got := float64(g[i]) * float64(factor); math.Abs(got-want) > 3e-4+0.03*math.Abs(want) {
				t.Errorf("element %d (decay %v): gradient %g, differences %g", i, s.decay, got, want)
			}
		}
	}
}
