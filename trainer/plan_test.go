package trainer

import (
	"context"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/model"
)

// counted is a device that adds up what is taken from it.
type counted struct {
	kernels.Device
	bytes, times int
}

func (c *counted) Alloc(n int) (kernels.Ptr, error) {
	c.bytes += n
	c.times++
	return c.Device.Alloc(n)
}

func (c *counted) Pinned(n int) (kernels.Ptr, []byte, error) {
	c.bytes += n
	c.times++
	return c.Device.Pinned(n)
}

// TestPlanIsWhatARunTakes compares the plan with what weights, trainer and engine take, and sees that no step takes more.
func TestPlanIsWhatARunTakes(t *testing.T) {
	teacher := newTeacher(t, 0)
	for _, change := range []func(*Recipe){
		func(*Recipe) {},
		func(r *Recipe) { r.Model.DType = "float32" },
		func(r *Recipe) {
			r.States = StatesConfig{Master: "bf16+16", FirstMoment: "bf16", SecondMoment: "float16"}
		},
		func(r *Recipe) { r.Algorithm.KL = 0.1 },
		func(r *Recipe) { r.Teacher.Dir = teacher },
		func(r *Recipe) { r.Rollout.Batch, r.Rollout.Pages, r.Train.Rows, r.Model.Context = 5, 9, 1000, 300 },
	} {
		r := testRecipe()
		change(&r)
		d := kernels.BF16
		if r.Model.DType == "float32" {
			d = kernels.F32
		}
		c := testConfig(t)
		dev := &counted{Device: cpu(t)}
		w, err := model.NewWeights(dev, c, d, r.Model.Context)
		if err != nil {
			t.Fatal(err)
		}
		if err := model.Random(transfer(t, dev), w, 1); err != nil {
			t.Fatal(err)
		}
		tr, err := New(dev, w, successor{8}.task(), r, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer tr.Close()
		plan := NewPlan(r, c, d, 0)
		if got, want := dev.bytes, plan.Total(); got != want {
			t.Errorf("a run takes %d bytes, the plan says %d:\n%v", got, want, plan)
		}
		times := dev.times
		tr.step = r.Warmup.Steps
		if _, err := tr.Step(context.Background()); err != nil {
			t.Fatal(err)
		}
		if _, err := tr.Evaluate(context.Background(), true, 0); err != nil {
			t.Fatal(err)
		}
		if dev.times != times {
			t.Errorf("%d pieces of memory were taken after the start", dev.times-times)
		}
		weights := 0
		for _, i := range plan.Items {
			if i.Name == "weights" {
				weights++
			}
		}
		if weights != 1 || tr.learner.w.Arena.Ptr != w.Arena.Ptr || tr.learner.pass.w != w {
			t.Error("sampling and training have copies of the weights of their own")
		}
	}
}

func TestFitNamesTheLargestSettingThatFits(t *testing.T) {
	r := testRecipe()
	r.Train.Rows, r.Model.Context = 1<<16, 256
	c := testConfig(t)
	need := NewPlan(r, c, kernels.BF16, 0).Total()
	if err := Fit(r, c, kernels.BF16, need); err != nil {
		t.Errorf("exactly enough: %v", err)
	}
	err := Fit(r, c, kernels.BF16, need/3)
	if err == nil || !strings.Contains(err.Error(), "what fits: --set train.rows=") {
		t.Fatalf("a third of it: %v", err)
	}
	// What is proposed has to be true.
	settings := []string{}
	line := err.Error()[strings.Index(err.Error(), "what fits:"):]
	for _, f := range strings.Fields(line) {
		if strings.Contains(f, "=") {
			settings = append(settings, f)
		}
	}
	smaller, err := ParseRecipe(r.TOML(), settings...)
	if err != nil {
		t.Fatal(err)
	}
	if err := Fit(smaller, c, kernels.BF16, need/3); err != nil {
		t.Errorf("%v: %v", settings, err)
	}
	if err := Fit(r, c, kernels.BF16, 1000); err == nil || !strings.Contains(err.Error(), "nothing helps") {
		t.Errorf("a thousand bytes: %v", err)
	}
}
