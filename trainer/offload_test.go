package trainer

import (
	"context"
	"fmt"
	"math"
	"path/filepath"
	"testing"

	"tandem/kernels"
	"tandem/kernels/cuda"
	"tandem/kernels/kerneltest"
	"tandem/model"
	"tandem/trainer/run"
)

// emulated is a card that nobody waits for after each launch: what is not waited for where it has to be is late.
func emulated(t testing.TB) *cuda.Device {
	t.Helper()
	file := kerneltest.Emulator()
	if file == "" {
		t.Skip("the emulated card is not built: offloading is not tested")
	}
	dev, err := cuda.Open(cuda.Config{Driver: file})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	})
	return dev
}

// offloadedRecipe is a short run whose states are kept in one of the ways there are.
func offloadedRecipe(master, moments string) Recipe {
	r := testRecipe()
	r.Warmup.Steps, r.Warmup.Samples = 2, 8
	r.Rollout.Prompts, r.Rollout.Samples, r.Rollout.Waves = 3, 4, 1
	r.Train.Steps = 2
	r.Evaluation = EvaluationConfig{}
	r.Warmup.Optimizer.Beta2 = 0.95
	r.States = StatesConfig{Master: master, FirstMoment: moments, SecondMoment: moments, Offload: true}
	return r
}

var offloaded = []struct{ master, moments string }{{"float32", "float32"}, {splitMaster, "float16"}, {splitMaster, "bf16"}}

// trainerOn is a trainer whose steps are offloaded in several pieces, of which the last is short.
func trainerOn(t testing.TB, dev kernels.Device, r Recipe, dir *run.Dir) *Trainer {
	t.Helper()
	tr := closed(t, newTestTrainerOn(t, dev, r, dir))
	if f := tr.learner.opt.off; f == nil {
		t.Fatal("the states are not offloaded")
	} else if f.piece = kernels.NormLeaf + 17*kernels.MomentBlock; tr.learner.w.Arena.Len()%f.piece == 0 || tr.learner.w.Arena.Len() < 3*f.piece {
		t.Fatalf("%d parameters are no test of pieces of %d", tr.learner.w.Arena.Len(), f.piece)
	}
	return tr
}

// closed is a trainer that is closed when the test ends, before its device.
func closed(t testing.TB, tr *Trainer) *Trainer {
	t.Cleanup(func() {
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
	})
	return tr
}

// floats are the elements of a tensor.
func floats(t testing.TB, x *kernels.Transfer, from kernels.Tensor) []float32 {
	t.Helper()
	out := make([]float32, from.Len())
	if err := x.Get(out, from, 0); err != nil {
		t.Fatal(err)
	}
	return out
}

// A stateAfter is what a step leaves behind.
type stateAfter struct{ weights, masters, m, v []float32 }

func stateOf(t testing.TB, tr *Trainer) stateAfter {
	t.Helper()
	l := tr.learner
	s := stateAfter{weights: floats(t, l.host, l.w.Arena)}
	if err := l.opt.readMasters(func(x []float32) error { s.masters = append(s.masters, x...); return nil }); err != nil {
		t.Fatal(err)
	}
	s.m, s.v = momentOf(t, l.opt.memory, l.opt.m), momentOf(t, l.opt.memory, l.opt.v)
	return s
}

// momentOf is the numbers in memory, of float16 the bits of means and exponents.
func momentOf(t testing.TB, x *kernels.Transfer, m kernels.Moment) []float32 {
	t.Helper()
	if m.Mean.DType != kernels.F16 {
		return floats(t, x, m.Mean)
	}
	var out []float32
	for _, p := range []kernels.Tensor{m.Mean, m.Exponent} {
		if err := x.Down(p.Ptr, p.Bytes(), func(b []byte) error {
			for _, c := range b {
				out = append(out, float32(c))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out
}

func sameAfter(t testing.TB, what string, got, want stateAfter) {
	t.Helper()
	kerneltest.Same(t, what+": weights", got.weights, want.weights)
	kerneltest.Same(t, what+": masters", got.masters, want.masters)
	kerneltest.Same(t, what+": first moments", got.m, want.m)
	kerneltest.Same(t, what+": second moments", got.v, want.v)
}

// TestOffloadedStepIsTheHosts takes steps by random gradients on a card, and the same ones with an optimizer of the CPU's
// own whose gradients are those rounded; of the gradients that are no numbers, nothing must change.
func TestOffloadedStepIsTheHosts(t *testing.T) {
	for _, c := range offloaded {
		t.Run(c.master+" "+c.moments, func(t *testing.T) {
			r := offloadedRecipe(c.master, c.moments)
			card := trainerOn(t, emulated(t), r, nil)
			host := closed(t, newTestTrainerOn(t, cpu(t), r, nil)) // which has one memory for all
			random := kerneltest.Rand(t)
			n := card.learner.w.Arena.Len()
			for step, last := range []float32{0, 0, float32(math.NaN()), 0} {
				g := kerneltest.Normal(random, n, 0.01)
				g[n-1] += last
				factor := float32(0.25)
				if err := card.learner.host.Put(card.learner.g.Arena, 0, g); err != nil {
					t.Fatal(err)
				}
				before := stateOf(t, card)
				norm, err := card.learner.opt.step(card.learner.pass.q, card.learner.w, card.learner.g, factor, 1e-3)
				if err != nil {
					t.Fatal(err)
				}
				if last != 0 {
					sameAfter(t, "skipped", stateOf(t, card), before)
					continue
				}
				o := host.learner.opt
				scale := factor * clipFactor(norm, o.maxNorm)
				for i, v := range g {
					g[i] = kernels.F32Of(kernels.BF16Of(v * scale))
				}
				if err := host.learner.host.Put(host.learner.g.Arena, 0, g); err != nil {
					t.Fatal(err)
				}
				o.maxNorm = math.Inf(1) // they have been clipped
				if _, err := o.step(host.learner.pass.q, host.learner.w, host.learner.g, 1, 1e-3); err != nil {
					t.Fatal(err)
				}
				o.maxNorm = card.learner.opt.maxNorm
				sameAfter(t, fmt.Sprint("step ", step), stateOf(t, card), stateOf(t, host))
			}
			if o := card.learner.opt; o.steps != 3 || o.skipped != 0 {
				t.Errorf("%d steps were taken, %d skipped in a row at the end", o.steps, o.skipped)
			}
		})
	}
}

// TestOffloadedRuns: two runs are equal, in one piece and in several, and so is one that is resumed.
func TestOffloadedRuns(t *testing.T) {
	for _, c := range offloaded {
		t.Run(c.master+" "+c.moments, func(t *testing.T) {
			r := offloadedRecipe(c.master, c.moments)
			r.Checkpoint.Every = 1
			whole := closed(t, newTestTrainerOn(t, emulated(t), r, nil)) // all parameters are one piece
			train(t, whole, r.Steps())
			path := filepath.Join(t.TempDir(), "run")
			dir, err := run.Create(path, r.TOML())
			if err != nil {
				t.Fatal(err)
			}
			first := trainerOn(t, emulated(t), r, dir)
			train(t, first, 3)
			dir.Close()
			if dir, _, err = run.Open(path); err != nil {
				t.Fatal(err)
			}
			defer dir.Close()
			again := trainerOn(t, emulated(t), r, dir)
			if err := again.Resume(); err != nil {
				t.Fatal(err)
			}
			sameAfter(t, "resumed", stateOf(t, again), stateOf(t, first))
			train(t, again, r.Steps())
			sameAfter(t, "at the end", stateOf(t, again), stateOf(t, whole))
			weights, masters := stateOf(t, again).weights, stateOf(t, again).masters
			for i, m := range masters {
				if w, _ := kernels.SplitMaster(m); kernels.F32Of(w) != weights[i] {
					t.Fatalf("weight %d is %v, its master %v", i, weights[i], m)
				}
			}
			exported := filepath.Join(t.TempDir(), "model")
			if err := Export(dir, r.Steps(), again.learner.w.Config, exported, model.Card{}); err != nil {
				t.Error(err)
			}
		})
	}
}

// train takes steps until n are done.
func train(t testing.TB, tr *Trainer, n int) {
	t.Helper()
	for tr.Done() < n {
		if _, err := tr.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
}

// countedCard is a card that adds up what is taken of it.
type countedCard struct {
	*cuda.Device
	bytes, pinned int
}

func (c *countedCard) Alloc(n int) (kernels.Ptr, error) {
	c.bytes += n
	return c.Device.Alloc(n)
}

func (c *countedCard) Pinned(n int) (kernels.Ptr, []byte, error) {
	c.pinned += n
	return c.Device.Pinned(n)
}

// TestOffloadedPlanIsTaken compares the plan's rows with what a run on a card takes, of the card and of the host.
func TestOffloadedPlanIsTaken(t *testing.T) {
	for _, c := range offloaded {
		for _, offload := range []bool{true, false} {
			r := offloadedRecipe(c.master, c.moments)
			r.States.Offload = offload
			dev := &countedCard{Device: emulated(t)}
			tr := closed(t, newTestTrainerOn(t, dev, r, nil))
			plan := NewPlan(r, tr.learner.w.Config, kernels.BF16, MachineOf(dev))
			host := dev.pinned
			if off := tr.learner.opt.off; off != nil {
				host += off.host.Taken()
			}
			if dev.bytes != plan.Taken() {
				t.Errorf("%v: %d bytes of the card are taken, the plan says %d\n%v", r.States, dev.bytes, plan.Taken(), plan)
			}
			if host != plan.HostTotal() {
				t.Errorf("%v: %d bytes of the host are taken, the plan says %d\n%v", r.States, host, plan.HostTotal(), plan)
			}
		}
	}
}
