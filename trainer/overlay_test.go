package trainer

import (
	"bytes"
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/kernels"
)

// apart is the layout without a shared region.
func apart(dev kernels.Device) layout {
	return layout{sampling: dev, training: dev, reference: dev, teacher: dev}
}

// poison fills the region that sampling and training share with what no number is.
func poison(t *testing.T, tr *Trainer) {
	t.Helper()
	l := tr.learner
	err := l.host.Up(l.region.Ptr, l.region.Bytes(), func(piece []byte) error {
		copy(piece, bytes.Repeat([]byte{0xff}, len(piece)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSerialLayoutChangesNoBit runs a recipe with sampling and training apart and in the same place, which is poisoned
// whenever one follows the other. Between steps prompts are evaluated, so that the cache holds what training overwrites.
func TestSerialLayoutChangesNoBit(t *testing.T) {
	r := shortRecipe()
	r.Algorithm.KL = 0.05
	r.Warmup.Steps = 2
	type result struct {
		metrics []Metrics
		evals   []Evaluation
		state   [][]float32
	}
	train := func(layout string) result {
		r.Train.Layout = layout
		tr := newTestTrainer(t, r, nil)
		if serial := tr.learner.region.Ptr != 0; serial != (layout == layoutSerial) {
			t.Fatalf("layout %s shares a region: %v", layout, serial)
		}
		if layout == layoutSerial {
			claim := tr.learner.claim
			tr.learner.claim = func() {
				poison(t, tr)
				claim()
			}
		}
		var out result
		for range r.Steps() {
			out.metrics = append(out.metrics, steps(t, tr, 1)...)
			if layout == layoutSerial {
				poison(t, tr) // the engine has forgotten what it knew
			}
			e, err := tr.Evaluate(context.Background(), false, 0)
			if err != nil {
				t.Fatal(err)
			}
			out.evals = append(out.evals, e)
		}
		out.state = weightsOf(t, tr)
		return out
	}
	apart, together := train(layoutOverlap), train(layoutSerial)
	if diff := cmp.Diff(apart.metrics, together.metrics, cmp.AllowUnexported(Metrics{})); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(fmt.Sprint(apart.evals), fmt.Sprint(together.evals)); diff != "" {
		t.Error(diff)
	}
	for _, m := range together.metrics {
		if m.Mismatch != 0 {
			t.Errorf("step %d: the sampler's log-probs differ from the trainer's by %g", m.Step, m.Mismatch)
		}
	}
	sameState(t, together.state, apart.state, "serial")
}

// TestCancelledUpdateLeavesNoStaleCache cancels a serial step once training has overwritten the cache: the step that follows
// samples the same prompts.
func TestCancelledUpdateLeavesNoStaleCache(t *testing.T) {
	r := shortRecipe()
	r.Warmup.Steps, r.Train.Layout = 0, layoutSerial
	whole, tr := newTestTrainer(t, r, nil), newTestTrainer(t, r, nil)
	want := steps(t, whole, 2)
	ctx, cancel := context.WithCancel(context.Background())
	tr.notify = func(p Progress) {
		if p.Phase == "update" {
			cancel()
		}
	}
	r.Train.Rows = 16
	if _, err := tr.Step(ctx); err == nil && tr.Done() == 0 {
		t.Fatal("the step was neither cancelled nor done")
	}
	poison(t, tr)
	tr.notify = func(Progress) {}
	got := append(want[:tr.Done():tr.Done()], steps(t, tr, 2-tr.Done())...)
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Metrics{})); diff != "" {
		t.Error(diff)
	}
	sameState(t, weightsOf(t, tr), weightsOf(t, whole), "cancelled and repeated")
}

func TestResumeInTheSerialLayout(t *testing.T) {
	r := quickRecipe()
	r.Train.Layout, r.Algorithm.KL = layoutSerial, 0.1
	resumeEqualsUninterrupted(t, r, 2, 5)
}
