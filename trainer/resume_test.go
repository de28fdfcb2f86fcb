package trainer

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/kernels"
	"tandem/trainer/env"
	"tandem/trainer/run"
)

// shortRecipe is a whole run of a few steps.
func shortRecipe() Recipe {
	r := testRecipe()
	r.Warmup.Steps, r.Train.Steps = 5, 6
	r.Checkpoint.Every, r.Checkpoint.Keep = 4, 2
	r.Algorithm.Updates = 2
	return r
}

// weightsOf is every bit of the state that training goes on from, in words of 32.
func weightsOf(t *testing.T, tr *Trainer) [][]float32 {
	t.Helper()
	o := tr.learner.opt
	var out [][]float32
	for _, from := range []kernels.Tensor{tr.learner.w.Arena, o.master, o.m.Mean, o.m.Exponent, o.v.Mean, o.v.Exponent} {
		if from.Ptr != 0 {
			v := make([]float32, from.Bytes()/4)
			if err := tr.learner.host.Get(v, kernels.NewTensor(from.Ptr, kernels.F32, len(v)), 0); err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
	}
	return out
}

func sameState(t *testing.T, got, want [][]float32, what string) {
	t.Helper()
	for k := range want {
		for i := range want[k] {
			if math.Float32bits(got[k][i]) != math.Float32bits(want[k][i]) {
				t.Fatalf("%s: element %d of tensor %d is %v, want %v", what, i, k, got[k][i], want[k][i])
			}
		}
	}
}

// timeless is a step's figures without those of the clock, of the hardware and of where the replies came from.
func timeless(m Metrics) Metrics {
	m.Seconds, m.RolloutSeconds, m.UpdateSeconds, m.Replayed, m.Spent, m.Hardware = 0, 0, 0, false, Spent{}, Hardware{}
	m.Cached, m.Preempted, m.PeakPages, m.EngineRows = 0, 0, 0, 0
	return m
}

func steps(t *testing.T, tr *Trainer, n int) []Metrics {
	t.Helper()
	var out []Metrics
	for range n {
		m, err := tr.Step(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, timeless(m))
	}
	return out
}

// TestResumeEqualsUninterrupted stops after every number of steps and goes on in a new trainer.
func TestResumeEqualsUninterrupted(t *testing.T) {
	t.Run("grpo", func(t *testing.T) { resumeEqualsUninterrupted(t, shortRecipe(), 1, 4, 5, 6, 9, 10) })
	r := shortRecipe()
	r.Rollout.Dynamic, r.Rollout.OverSampling, r.Rollout.Waves, r.Rollout.Samples = true, 11, 2, 3
	r.Algorithm.KL = 0.1
	t.Run("dynamic sampling and a reference", func(t *testing.T) { resumeEqualsUninterrupted(t, r, 5, 7, 10) })
	r.Warmup.Steps, r.Rollout.Prompts, r.Rollout.Samples, r.Checkpoint.Every = 20, 2, 6, 2
	r.Rollout.Carry, r.Rollout.EarlyStop, r.Rollout.Rest = "groups", 3, 3
	t.Run("groups carried over", func(t *testing.T) {
		carried, rested, stopped := 0, 0, 0
		for _, m := range resumeEqualsUninterrupted(t, r, 22, 23, 25) {
			carried, rested, stopped = carried+m.Carried, rested+m.Rested, stopped+m.StoppedEarly
		}
		if carried == 0 || rested == 0 || stopped == 0 {
			t.Errorf("%d groups were carried over, %d problems passed over, %d groups stopped early: want some of each", carried, rested, stopped)
		}
	})
}

func resumeEqualsUninterrupted(t *testing.T, r Recipe, stops ...int) (want []Metrics) {
	t.Helper()
	whole := newTestTrainer(t, r, nil)
	want = steps(t, whole, r.Steps())
	state := weightsOf(t, whole)
	for _, stop := range stops {
		path := filepath.Join(t.TempDir(), "run")
		dir, err := run.Create(path, r.TOML())
		if err != nil {
			t.Fatal(err)
		}
		first := newTestTrainer(t, r, dir)
		got := steps(t, first, stop)
		if err := dir.Close(); err != nil {
			t.Fatal(err)
		}
		if dir, _, err = run.Open(path); err != nil {
			t.Fatal(err)
		}
		second := newTestTrainer(t, r, dir)
		if err := second.Resume(); err != nil {
			t.Fatal(err)
		}
		back := second.Done()
		got = append(got[:back], steps(t, second, r.Steps()-back)...)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Metrics{})); diff != "" {
			t.Errorf("stopped after %d: %s", stop, diff)
		}
		sameState(t, weightsOf(t, second), state, fmt.Sprintf("stopped after %d", stop))
		dir.Close()
	}
	return want
}

// TestGradientDoesNotDependOnMicroBatches cuts one step in different ways, and gives the device other workers.
func TestGradientDoesNotDependOnMicroBatches(t *testing.T) {
	for _, dtype := range []string{"bf16", "float32"} {
		var want []float32
		for _, rows := range []int{2048, 256, 32, 16} {
			r := testRecipe()
			r.Model.DType, r.Train.Rows, r.Warmup.Samples = dtype, rows, 40
			tr := newTestTrainer(t, r, nil)
			demos, err := tr.demonstrations()
			if err != nil {
				t.Fatal(err)
			}
			samples, _, err := weigh(Supervised(), [][]*Rollout{demos}, rewards([][]*Rollout{demos}), LossSample, 4)
			if err != nil {
				t.Fatal(err)
			}
			l := tr.learner
			l.zero()
			if err := l.accumulate(context.Background(), Supervised(), samples, 1, func(*sample) {}); err != nil {
				t.Fatal(err)
			}
			got := make([]float32, l.g.Arena.Len())
			if _, err := l.step(1, 1e-3); err != nil { // adds what is collected apart
				t.Fatal(err)
			}
			if err := l.host.Get(got, l.g.Arena, 0); err != nil {
				t.Fatal(err)
			}
			if want == nil {
				want = got
			}
			for i := range want {
				if got[i] != want[i] {
					t.Fatalf("%s: micro-batches of %d rows: gradient %d is %v, in one piece %v", dtype, rows, i, got[i], want[i])
				}
			}
		}
	}
}

// TestInertSamplesAddNothing trains a step with and without samples whose advantage is 0.
func TestInertSamplesAddNothing(t *testing.T) {
	r := testRecipe()
	zero := Algorithm{Advantages: func(rewards [][]float32) [][]float32 {
		out := Supervised().Advantages(rewards)
		for i := range out[0] {
			if i%3 == 0 {
				out[0][i] = 0
			}
		}
		return out
	}, Grad: Supervised().Grad}
	var states [][][]float32
	for _, skip := range []bool{true, false} {
		tr := newTestTrainer(t, r, nil)
		demos, err := tr.demonstrations()
		if err != nil {
			t.Fatal(err)
		}
		samples, factor, err := weigh(zero, [][]*Rollout{demos}, rewards([][]*Rollout{demos}), LossToken, 4)
		if err != nil {
			t.Fatal(err)
		}
		if !skip {
			for _, s := range samples {
				if s.inert() {
					s.adv = append([]float32(nil), s.adv...)
					s.adv[0] = math.SmallestNonzeroFloat32 // not 0, and nothing in the sum
				}
			}
		}
		tr.learner.zero()
		if err := tr.learner.accumulate(context.Background(), zero, samples, 1, func(*sample) {}); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.learner.step(factor, 1e-3); err != nil {
			t.Fatal(err)
		}
		states = append(states, weightsOf(t, tr))
	}
	sameState(t, states[0], states[1], "left out")
}

// TestCancelledStepChangesNothing cancels a step at random moments, then runs it.
func TestCancelledStepChangesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	r := shortRecipe()
	r.Warmup.Steps = 1
	whole := newTestTrainer(t, r, nil)
	want := steps(t, whole, 4)
	tr := newTestTrainer(t, r, nil)
	for n := range want {
		for range 3 {
			ctx, cancel := context.WithCancel(context.Background())
			seen, limit := 0, rng.IntN(100)
			tr.notify = func(Progress) {
				if seen++; seen == limit {
					cancel()
				}
			}
			m, err := tr.Step(ctx)
			cancel()
			if err == nil { // it was over before the limit
				if diff := cmp.Diff(want[n], timeless(m), cmp.AllowUnexported(Metrics{})); diff != "" {
					t.Errorf("step %d: %s", n, diff)
				}
				break
			}
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("step %d: %v, want one about cancellation", n, err)
			}
		}
		tr.notify = func(Progress) {}
		if tr.Done() == n {
			if diff := cmp.Diff(want[n:n+1], steps(t, tr, 1), cmp.AllowUnexported(Metrics{})); diff != "" {
				t.Errorf("step %d after cancelled tries: %s", n, diff)
			}
		}
	}
	sameState(t, weightsOf(t, tr), weightsOf(t, whole), "cancelled and repeated")
}

// TestStepWithSeveralUpdatesIsNotCutBetweenThem cancels in the second of two: the first has changed the weights.
func TestStepWithSeveralUpdatesIsNotCutBetweenThem(t *testing.T) {
	r := shortRecipe()
	r.Warmup.Steps = 0
	whole, tr := newTestTrainer(t, r, nil), newTestTrainer(t, r, nil)
	want := steps(t, whole, 1)
	ctx, cancel := context.WithCancel(context.Background())
	updates := 0
	tr.notify = func(p Progress) {
		if p.Phase == "update" && p.Done == 1 {
			if updates++; updates == r.Algorithm.Updates {
				cancel()
			}
		}
	}
	m, err := tr.Step(ctx)
	if err != nil || ctx.Err() == nil {
		t.Fatalf("cancelled in update %d of %d: %v, want a whole step", updates, r.Algorithm.Updates, err)
	}
	if diff := cmp.Diff(want[0], timeless(m), cmp.AllowUnexported(Metrics{})); diff != "" {
		t.Error(diff)
	}
	sameState(t, weightsOf(t, tr), weightsOf(t, whole), "cancelled")
}

func TestNonFiniteGradientsAreSkippedAndStopTheRun(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps, r.Train.Steps = 20, 0
	r.Warmup.Optimizer.MaxSkips = 3
	tr := newTestTrainer(t, r, nil)
	steps(t, tr, 2)
	before := weightsOf(t, tr)
	bad := Supervised()
	good := bad.Grad
	bad.Grad = func(t Terms, dlogp []float32) (float32, int) {
		loss, n := good(t, dlogp)
		dlogp[0] = float32(math.NaN())
		return loss, n
	}
	demos, err := tr.demonstrations()
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		var m Metrics
		err := tr.update(context.Background(), bad, [][]*Rollout{demos}, LossToken, 1e-3, &m)
		sameState(t, weightsOf(t, tr), before, "a gradient that is no number")
		if (err != nil) != (n == 2) {
			t.Errorf("update %d: error %v", n, err)
		}
		if m.Skipped != n+1 {
			t.Errorf("update %d: %d skipped, want %d", n, m.Skipped, n+1)
		}
	}
	if tr.learner.opt.steps != 2 {
		t.Errorf("%d optimizer steps are counted, want 2", tr.learner.opt.steps)
	}
}

func TestDamagedCheckpointsAreRefused(t *testing.T) {
	r := shortRecipe()
	r.Algorithm.Updates = 1
	path := filepath.Join(t.TempDir(), "run")
	dir, err := run.Create(path, r.TOML())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	steps(t, newTestTrainer(t, r, dir), 6)
	at := func(names ...string) string { return filepath.Join(append([]string{path}, names...)...) }
	for _, tt := range []struct {
		name, file string
		spoil      func(b []byte) []byte
	}{
		{"tensors cut off", at("ckpt", "000004", tensorsFile), func(b []byte) []byte { return b[:len(b)/2] }},
		{"tensors empty", at("ckpt", "000004", tensorsFile), func([]byte) []byte { return nil }},
		{"state empty", at("ckpt", "000004", stateFile), func([]byte) []byte { return nil }},
		{"state of another run", at("ckpt", "000004", stateFile), func([]byte) []byte { return []byte(`{"step": 99}`) }},
		{"step log damaged", at("steps", "000005"), func(b []byte) []byte { b[len(b)/2] ^= 4; return b }},
		{"step log cut off", at("steps", "000005"), func(b []byte) []byte { return b[:3] }},
	} {
		whole, err := os.ReadFile(tt.file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(tt.file, tt.spoil(append([]byte(nil), whole...)), 0o644); err != nil {
			t.Fatal(err)
		}
		tr := newTestTrainer(t, r, dir)
		err = tr.Resume()
		for err == nil && tr.Done() < 6 {
			_, err = tr.Step(context.Background())
		}
		if err == nil {
			t.Errorf("%s: accepted", tt.name)
		} else {
			t.Logf("%s: %v", tt.name, err)
		}
		if err := os.WriteFile(tt.file, whole, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestNewRefusesATaskThatCannotRun(t *testing.T) {
	r := testRecipe()
	tr := newTestTrainer(t, r, nil)
	if _, err := New(nil, tr.w, &env.Task{}, r, nil, nil); err == nil {
		t.Error("a task without problems was accepted")
	}
	if _, err := New(nil, tr.w, &env.Task{Problems: tr.task.Problems}, r, nil, nil); err == nil {
		t.Error("a warm-up without demonstrations was accepted")
	}
}
