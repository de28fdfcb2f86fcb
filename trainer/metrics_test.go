package trainer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// figureNames are those of all figures, in the order of a line of metrics.jsonl.
func figureNames(t reflect.Type) []string {
	var names []string
	for f := range t.Fields() {
		tag, ok := f.Tag.Lookup("json")
		switch {
		case f.Anonymous && !ok:
			names = append(names, figureNames(f.Type)...)
		case ok:
			name, _, _ := bytes.Cut([]byte(tag), []byte(","))
			names = append(names, string(name))
		}
	}
	return names
}

func TestEveryFigureIsDocumented(t *testing.T) {
	doc, err := os.ReadFile(filepath.Join("..", "docs", "metrics.md"))
	if err != nil {
		t.Fatal(err)
	}
	names := figureNames(reflect.TypeFor[Metrics]())
	if len(names) < 30 {
		t.Fatalf("only %d figures: %q", len(names), names)
	}
	for _, name := range names {
		if !bytes.Contains(doc, []byte("| `"+name+"` |")) {
			t.Errorf("docs/metrics.md lacks %s: say what it is in trainer/report/figures.go, then go test ./trainer/report -run Documented -write", name)
		}
	}
}

func TestMetricsAreOneLineOfJSON(t *testing.T) {
	var m Metrics
	m.Step, m.Stage, m.Loss, m.GradNorm, m.Entropy, m.IdleSeconds = 3, "grpo", math.NaN(), math.Inf(1), 0.5, 2
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.ContainsRune(b, '\n') {
		t.Errorf("%s", b)
	}
	var back Metrics
	if err := json.Unmarshal(b, &back); err != nil {
		t.Fatal(err)
	}
	m.Loss, m.GradNorm = 0, 0 // null leaves what is there
	if !reflect.DeepEqual(back, m) {
		t.Errorf("%+v came back as %+v", m, back)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"loss": nil, "grad_norm": nil, "entropy": 0.5, "step": 3.0, "stage": "grpo", "idle_seconds": 2.0} {
		if v, ok := got[name]; !ok || v != want {
			t.Errorf("%s is %v, want %v", name, v, want)
		}
	}
	if _, ok := got["replayed"]; ok {
		t.Error("a step that was sampled says how it was replayed")
	}
	may := append(figureNames(reflect.TypeFor[Hardware]()), "replayed") // be left out
	for _, name := range figureNames(reflect.TypeFor[Metrics]()) {
		if _, ok := got[name]; ok == slices.Contains(may, name) {
			t.Errorf("%s: written is %v", name, ok)
		}
	}
}

// TestPhasesAreAllOfAStep adds them up.
func TestPhasesAreAllOfAStep(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps, r.Train.Steps, r.Algorithm.KL = 1, 2, 0.1
	tr := newTestTrainer(t, r, nil)
	for range r.Steps() {
		m, err := tr.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sum := 0.0
		phases := map[string]float64{
			"sampling": m.SamplingSeconds, "grading": m.GradingSeconds, "reference": m.ReferenceSeconds, "forward": m.ForwardSeconds,
			"backward": m.BackwardSeconds, "optimizer": m.OptimizerSeconds, "saving": m.SavingSeconds, "idle": m.IdleSeconds,
		}
		for name, s := range phases {
			sum += s
			if sampled := name == "sampling" || name == "reference"; s <= 0 && name != "grading" && name != "saving" && name != "idle" && (m.Stage == "grpo" || !sampled) {
				t.Errorf("step %d, %s: %v seconds", m.Step, name, s)
			}
		}
		if math.Abs(sum-m.Seconds) > 1e-6+1e-3*m.Seconds {
			t.Errorf("step %d: %v seconds, and its phases %v are %v together", m.Step, m.Seconds, phases, sum)
		}
		if m.Memory != m.MemoryPlanned || m.Memory == 0 {
			// The test's own transfer is no part of the plan.
			if extra := m.Memory - m.MemoryPlanned; extra != 4<<20 && fmt.Sprint(extra) != "0" {
				t.Errorf("%d bytes are taken, %d were planned", m.Memory, m.MemoryPlanned)
			}
		}
	}
}
