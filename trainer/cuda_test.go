package trainer

import (
	"context"
	"math"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// TestStepCUDA trains a tiny model on a GPU: two supervised steps, then two of GRPO. It repeats itself bit for bit, says the
// same of its samples as it learns from, and its supervised steps, which draw nothing, are the CPU's but for rounding.
func TestStepCUDA(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps, r.Warmup.Samples = 2, 8
	r.Rollout.Prompts, r.Rollout.Samples, r.Rollout.Waves = 3, 4, 1
	r.Train.Steps = 2
	r.Evaluation = EvaluationConfig{}
	type result struct {
		metrics []Metrics
		weights []float32
	}
	steps := func(dev kernels.Device, n int) (res result) {
		tr := newTestTrainerOn(t, dev, r, nil)
		defer tr.Close()
		for range n {
			m, err := tr.Step(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if m.Mismatch != 0 {
				t.Errorf("step %d: the sampler's log-probs differ from the trainer's by %g", m.Step, m.Mismatch)
			}
			res.metrics = append(res.metrics, m)
		}
		res.weights = make([]float32, tr.learner.w.Arena.Len())
		if err := tr.learner.host.Get(res.weights, tr.learner.w.Arena, 0); err != nil {
			t.Fatal(err)
		}
		return res
	}
	var first *result
	for range 2 {
		for _, d := range kerneltest.GPU(t) {
			got := steps(d.Device, r.Steps())
			d.Close()
			if first == nil {
				first = &got
			}
			kerneltest.Same(t, "weights of another run", got.weights, first.weights)
		}
	}
	cpu := kerneltest.CPU(t, kernels.CPUConfig{})
	want := steps(cpu.Device, 2)
	for i, w := range want.metrics {
		got := first.metrics[i]
		near := func(name string, got, want float64) {
			if !(math.Abs(got-want) <= 0.02*math.Abs(want)) {
				t.Errorf("step %d: %s is %v, the CPU's %v", i, name, got, want)
			}
		}
		near("loss", got.Loss, w.Loss)
		near("gradient norm", got.GradNorm, w.GradNorm)
	}
}
