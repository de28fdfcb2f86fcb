package trainer

import (
	"context"
	"math"
	"testing"

	"tandem/kernels"
	"tandem/model"
	"tandem/trainer/env"
	"tandem/trainer/run"
)

// successor asks for the next number, modulo its size, then the end token. Rewards are 1 or 0.
type successor struct{ n int }

func (s successor) Start(p env.Problem) (*env.Episode, error) {
	return &env.Episode{Problem: p, Tokens: []int32{int32(s.n), int32(p.ID)}}, nil
}

func (s successor) Step(_ context.Context, e *env.Episode, r env.Reply) (env.Turn, error) {
	t := env.Turn{Done: true, Reason: "different value"}
	if len(r.Tokens) == 2 && int(r.Tokens[0]) == (e.Problem.ID+1)%s.n {
		t.Reward, t.Reason = 1, "equal"
	}
	return t, nil
}

func (s successor) task() *env.Task {
	t := &env.Task{Env: s, Stop: []int32{int32(s.n + 1)}, Demonstrate: func(p env.Problem, draw uint64) (d env.Demonstration, err error) {
		guess := p.ID + 1 + int(draw%3) // right once in three
		d.Write(int32(guess%s.n), int32(s.n+1))
		return d, nil
	}}
	for i := range s.n {
		t.Problems = append(t.Problems, env.Problem{ID: i})
	}
	t.HeldOut, t.Demonstrations = t.Problems, t.Problems
	return t
}

func testConfig(t testing.TB) model.Config {
	t.Helper()
	c, err := model.Shape("tiny")
	if err != nil {
		t.Fatal(err)
	}
	c.Vocab, c.Live, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.MLP = 10, 10, 32, 2, 4, 2, 16, 48
	return c
}

func testRecipe() Recipe {
	r := DefaultRecipe()
	r.Seed = 5
	r.Model = ModelConfig{Shape: "tiny", Tokenizer: "demo", DType: "bf16", Context: 16, Template: "none"}
	r.Data.Task = "addition"
	r.Warmup.Steps, r.Warmup.Samples, r.Warmup.Optimizer.LR = 60, 32, 3e-3
	r.Rollout = RolloutConfig{Prompts: 8, Samples: 16, MaxTokens: 4, Temperature: 1, TopP: 1, Waves: 4, Carry: "prompts", Rest: 7, Rows: 64}
	r.Optimizer.LR, r.Optimizer.Beta2 = 2e-3, 0.95
	r.Train.Steps, r.Train.Rows = 60, 256
	r.Evaluation = EvaluationConfig{Problems: 8, Samples: 4}
	return r
}

func transfer(t testing.TB, dev kernels.Device) *kernels.Transfer {
	t.Helper()
	x, err := kernels.NewTransfer(dev)
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func newTestTrainer(t testing.TB, r Recipe, dir *run.Dir) *Trainer {
	t.Helper()
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	dev, err := kernels.NewCPU(kernels.CPUConfig{})
	if err != nil {
		t.Fatal(err)
	}
	tr := newTestTrainerOn(t, dev, r, dir)
	t.Cleanup(func() {
		tr.Close()
		dev.Close()
	})
	return tr
}

func newTestTrainerOn(t testing.TB, dev kernels.Device, r Recipe, dir *run.Dir) *Trainer {
	t.Helper()
	d := kernels.BF16
	if r.Model.DType == "float32" {
		d = kernels.F32
	}
	w, err := model.NewWeights(dev, testConfig(t), d, r.Model.Context)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Random(transfer(t, dev), w, r.Seed); err != nil {
		t.Fatal(err)
	}
	tr, err := New(dev, w, successor{8}.task(), r, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func TestRewardRises(t *testing.T) {
	r := testRecipe()
	tr := newTestTrainer(t, r, nil)
	var first, last float64
	for range r.Steps() {
		m, err := tr.Step(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		if m.Mismatch != 0 {
			t.Fatalf("step %d: the sampler's log-probs differ from the trainer's by %g", m.Step, m.Mismatch)
		}
		if n := m.Step - r.Warmup.Steps; n >= 0 && n < 5 {
			first += m.Reward / 5
		} else if n >= r.Train.Steps-5 {
			last += m.Reward / 5
		}
		if m.Step%10 == 0 {
			t.Logf("%+v", m)
		}
	}
	if !(last > first+0.3) || math.IsNaN(last) {
		t.Errorf("mean reward of the first five steps %.3f, of the last five %.3f", first, last)
	}
}
