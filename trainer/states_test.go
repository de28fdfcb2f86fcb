package trainer

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/kernels"
	"tandem/model/safetensors"
	"tandem/trainer/run"
)

// mastersOf are the masters as float32, however they are kept.
func mastersOf(t *testing.T, tr *Trainer) []float32 {
	t.Helper()
	var out []float32
	if err := tr.learner.opt.readMasters(func(x []float32) error { out = append(out, x...); return nil }); err != nil {
		t.Fatal(err)
	}
	return out
}

// quickRecipe is a run of few and small steps.
func quickRecipe() Recipe {
	r := shortRecipe()
	r.Warmup.Steps, r.Train.Steps, r.Checkpoint.Every = 3, 3, 2
	r.Rollout.Prompts, r.Rollout.Samples, r.Warmup.Samples = 4, 4, 8
	return r
}

// TestLowHalvesTrainAsMastersDo runs the same recipe with masters of both kinds, and offloaded.
func TestLowHalvesTrainAsMastersDo(t *testing.T) {
	r := shortRecipe()
	whole := newTestTrainer(t, r, nil)
	want := steps(t, whole, r.Steps())
	for _, offload := range []bool{false, true} {
		r.States.Master, r.States.Offload = splitMaster, offload
		split := newTestTrainer(t, r, nil)
		if diff := cmp.Diff(want, steps(t, split, r.Steps()), cmp.AllowUnexported(Metrics{})); diff != "" {
			t.Error(diff)
		}
		sameState(t, [][]float32{mastersOf(t, split)}, [][]float32{mastersOf(t, whole)}, "masters")
		for k, from := range []kernels.Tensor{split.learner.w.Arena, split.learner.opt.m.Mean, split.learner.opt.v.Mean} {
			to := []kernels.Tensor{whole.learner.w.Arena, whole.learner.opt.m.Mean, whole.learner.opt.v.Mean}[k]
			a, b := make([]float32, from.Len()), make([]float32, to.Len())
			if err := split.learner.host.Get(a, from, 0); err != nil {
				t.Fatal(err)
			}
			if err := whole.learner.host.Get(b, to, 0); err != nil {
				t.Fatal(err)
			}
			sameState(t, [][]float32{a}, [][]float32{b}, fmt.Sprint("tensor ", k))
		}
	}
}

// TestWeightsAreMastersRounded holds the weights of a run in every layout to its masters: case h02 of the optimizer's cases.
func TestWeightsAreMastersRounded(t *testing.T) {
	for _, sc := range []StatesConfig{
		{"float32", "float32", "float32", false},
		{splitMaster, "bf16", "bf16", false},
		{splitMaster, "float16", "float16", true},
	} {
		r := quickRecipe()
		r.States = sc
		r.Optimizer.Beta2, r.Warmup.Optimizer.Beta2 = 0.95, 0.95
		tr := newTestTrainer(t, r, nil)
		steps(t, tr, r.Steps())
		weights := make([]float32, tr.learner.w.Arena.Len())
		if err := tr.learner.host.Get(weights, tr.learner.w.Arena, 0); err != nil {
			t.Fatal(err)
		}
		for i, m := range mastersOf(t, tr) {
			if w, _ := kernels.SplitMaster(m); kernels.F32Of(w) != weights[i] {
				t.Fatalf("%v: weight %d is %v, its master %v", sc, i, weights[i], m)
			}
		}
	}
}

func TestResumeWithEveryLayoutOfStates(t *testing.T) {
	for _, sc := range []StatesConfig{
		{splitMaster, "float32", "float32", false},
		{splitMaster, "bf16", "float16", true},
		{"float32", "float16", "bf16", false},
	} {
		t.Run(sc.String(), func(t *testing.T) {
			r := quickRecipe()
			r.States = sc
			r.Optimizer.Beta2, r.Warmup.Optimizer.Beta2 = 0.95, 0.95
			resumeEqualsUninterrupted(t, r, 2, 5)
		})
	}
	r := quickRecipe()
	r.Model.DType = "float32" // the weights are the masters
	t.Run("float32 weights", func(t *testing.T) { resumeEqualsUninterrupted(t, r, 5) })
}

// TestMastersAreFloat32InFiles, so that what reads a full state need not know how the run kept them.
func TestMastersAreFloat32InFiles(t *testing.T) {
	r := shortRecipe()
	r.States.Master = splitMaster
	path := filepath.Join(t.TempDir(), "run")
	dir, err := run.Create(path, r.TOML())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	tr := newTestTrainer(t, r, dir)
	steps(t, tr, 4)
	f, err := safetensors.Open(filepath.Join(path, "ckpt", "000004", tensorsFile))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, x := range f.Tensors {
		if x.Name == masterTensor {
			got := make([]float32, x.Elems())
			for i := range got {
				got[i] = math.Float32frombits(binary.LittleEndian.Uint32(x.Data[4*i:]))
			}
			sameState(t, [][]float32{got}, [][]float32{mastersOf(t, tr)}, "masters")
			return
		}
	}
	t.Errorf("%v has no masters", f.Tensors)
}

// TestClippingIsReported compares the norm after clipping with the bound.
func TestClippingIsReported(t *testing.T) {
	for _, c := range []struct{ clip string }{{"0.001"}, {"1e6"}, {"off"}} {
		r := shortRecipe()
		r.Warmup.Optimizer.ClipNorm = c.clip
		m, err := newTestTrainer(t, r, nil).Step(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := m.GradNorm
		if c.clip == "0.001" {
			want = 0.001
		}
		if math.Abs(m.GradClip-want) > 0.002*want || m.GradNorm < 0.01 {
			t.Errorf("clip %s: norm %g before, %g after, want %g", c.clip, m.GradNorm, m.GradClip, want)
		}
	}
}

// TestSchedules compares with transformers. Its warm-up begins at 0 and reaches the full rate one step after ours.
func TestSchedules(t *testing.T) {
	var golden struct {
		Runs []struct {
			Schedule      string
			Steps, Warmup int
			Rates         []float64
		}
	}
	b, err := os.ReadFile("testdata/schedules.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Runs) < 50 {
		t.Fatalf("%d runs", len(golden.Runs))
	}
	for _, g := range golden.Runs {
		o := OptimizerConfig{LR: 1, Schedule: g.Schedule, WarmupSteps: g.Warmup}
		for i := range g.Steps {
			want := g.Rates[i]
			if i < g.Warmup {
				want = float64(i+1) / float64(g.Warmup)
				if i+1 < g.Warmup && math.Abs(want-g.Rates[i+1]) > 1e-12 {
					t.Fatalf("%+v: step %d of transformers' warm-up has %v", g, i+1, g.Rates[i+1])
				}
			}
			if got := float64(o.rate(i, g.Steps)); math.Abs(got-want) > 1e-6 || got == 0 {
				t.Errorf("%s, %d steps of which %d warm up: step %d has %v, want %v", g.Schedule, g.Steps, g.Warmup, i, got, want)
			}
		}
	}
}
