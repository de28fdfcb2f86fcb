package trainer

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/model"
)

// counted is a device that adds up what is taken from it.
type counted struct {
	*kernels.CPU
	bytes, times int
}

func (c *counted) Alloc(n int) (kernels.Ptr, error) {
	c.bytes += n
	c.times++
	return c.CPU.Alloc(n)
}

func (c *counted) Pinned(n int) (kernels.Ptr, []byte, error) {
	c.bytes += n
	c.times++
	return c.CPU.Pinned(n)
}

func (c *counted) Scratch(n int) error {
	c.bytes += n * c.Workers()
	return c.CPU.Scratch(n)
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
		func(r *Recipe) { r.Train.Layout = layoutSerial },
		func(r *Recipe) {
			r.Train.Layout, r.Algorithm.KL, r.States.Offload = layoutSerial, 0.1, true
			r.Teacher.Dir = teacher
		},
		func(r *Recipe) { r.Train.Layout, r.Train.Rows, r.Rollout.Prompts = layoutSerial, 16, 64 }, // sampling needs more
		func(r *Recipe) { r.Rollout.Batch, r.Rollout.Pages, r.Train.Rows, r.Model.Context = 5, 9, 1000, 300 },
	} {
		r := testRecipe()
		change(&r)
		d := kernels.BF16
		if r.Model.DType == "float32" {
			d = kernels.F32
		}
		c := testConfig(t)
		dev := &counted{CPU: cpu(t)}
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
		plan := NewPlan(r, c, d, Machine{Workers: dev.Workers()})
		if got, want := dev.bytes, plan.Taken(); got != want {
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
		scratch := plan.scratch()
		if peak := dev.ScratchPeak(); peak > scratch {
			t.Errorf("a worker had %d bytes of scratch in use, %d were planned", peak, scratch)
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

// free is a device with so many bytes, all of which may be filled.
func free(bytes int) Machine { return Machine{Card: &Card{Title: "card"}, Free: bytes} }

func TestPlaceNamesTheLargestSettingsThatFit(t *testing.T) {
	r := testRecipe()
	r.Train.Rows, r.Model.Context, r.Rollout.Rows = 1<<16, 256, 1024
	c := testConfig(t)
	need := NewPlan(r, c, kernels.BF16, free(0)).Total()
	p, err := Place(r, c, kernels.BF16, free(need))
	if err != nil || p.Recipe.Train.Layout != layoutOverlap || p.Recipe.Rollout.Pages != 8*16*4 {
		t.Errorf("exactly enough: layout %s, %d pages, %v", p.Recipe.Train.Layout, p.Recipe.Rollout.Pages, err)
	}
	if p, err = Place(r, c, kernels.BF16, free(need-1)); err != nil || p.Recipe.Train.Layout != layoutSerial {
		t.Errorf("a byte less: layout %s, %v", p.Recipe.Train.Layout, err)
	}
	for _, share := range []int{2, 3, 20, 100} {
		on := free(1<<30 + (need-1<<30)/share) // beside the reserve
		_, err = Place(r, c, kernels.BF16, on)
		if err == nil {
			continue
		}
		again := refusal(r, c, kernels.BF16, on)
		if err.Error() != again.Error() {
			t.Errorf("the same refusal reads differently: %v and %v", err, again)
		}
		line := regexp.MustCompile(`(?m)^(what fits:|  )(( ?--set \S+)+)`).FindAllStringSubmatch(err.Error(), -1)
		if len(line) == 0 {
			t.Fatalf("1/%d of it: %v", share, err)
		}
		for _, l := range line { // what is proposed has to be true
			settings := regexp.MustCompile(`\S+=\S+`).FindAllString(l[2], -1)
			smaller, err := ParseRecipe(r.TOML(), settings...)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := Place(smaller, c, kernels.BF16, on); err != nil {
				t.Errorf("%v: %v", settings, err)
			}
			if smaller.Train.Rows != r.Train.Rows && smaller.Train.Rows > 256 { // and the largest
				smaller.Train.Rows += 16
				if _, err := Place(smaller, c, kernels.BF16, on); err == nil {
					t.Errorf("%v: 16 rows more fit, too", settings)
				}
			}
		}
	}
	if _, err := Place(r, c, kernels.BF16, free(1000)); err == nil || !strings.Contains(err.Error(), "nothing helps") {
		t.Errorf("a thousand bytes: %v", err)
	}
}

// TestPlaceTakesThePagesThatFit gives the cache what is left.
func TestPlaceTakesThePagesThatFit(t *testing.T) {
	r := testRecipe()
	r.Model.Context, r.Train.Rows = 300, 304
	c := testConfig(t)
	for _, layout := range []string{layoutSerial, layoutOverlap} {
		r.Train.Layout = layout
		need := NewPlan(r, c, kernels.BF16, free(0)).Total()
		for _, less := range []int{1, 1 << 20, 3 << 20} {
			p, err := Place(r, c, kernels.BF16, free(need-less))
			if err != nil {
				t.Fatal(err)
			}
			if p.Total() > need-less {
				t.Errorf("%s: %d bytes of %d", layout, p.Total(), need-less)
			}
			more := p.Recipe
			more.Rollout.Pages++
			if NewPlan(more, c, kernels.BF16, free(0)).Total() <= need-less {
				t.Errorf("%s: %d pages are not the most", layout, p.Recipe.Rollout.Pages)
			}
		}
	}
}

func TestLargest(t *testing.T) {
	for lo := 1; lo < 5; lo++ {
		for hi := lo; hi < 40; hi++ {
			for step := 1; step < 5; step++ {
				for bound := 0; bound < 45; bound++ {
					want := 0
					for n := lo; n <= min(hi, bound); n += step {
						want = n
					}
					if hi <= bound {
						want = hi
					}
					if got := largest(lo, hi, step, func(n int) bool { return n <= bound }); got != want {
						t.Fatalf("from %d by %d to %d, at most %d: %d, want %d", lo, step, hi, bound, got, want)
					}
				}
			}
		}
	}
}
