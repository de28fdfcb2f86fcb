package report

import (
	"path/filepath"
	"strings"
	"testing"

	"tandem/trainer/run"
)

// A run on a card shows power and clocks, one on the CPU says nothing of them, and side by side each has its own.
func TestHardwareIsShownWhereItIs(t *testing.T) {
	var paths []string
	for _, name := range []string{"card", "cpu"} {
		path := filepath.Join(t.TempDir(), name)
		dir, err := run.Create(path, []byte("[train]\nsteps = 3\n"))
		if err != nil {
			t.Fatal(err)
		}
		defer dir.Close()
		for i := range 3 {
			m := map[string]any{"step": i, "stage": "grpo", "reward": 0.25 * float64(i), "seconds": 1.0, "memory": 1 << 30}
			if name == "card" {
				m["power"], m["power_max"], m["clock"], m["memory_clock"], m["throttled"] = 640.5+float64(i), 700.0, 1500+i, 3201, 0.5*float64(i)
				m["energy_per_token"], m["memory_card"] = 2.5, 1<<36
			}
			if err := dir.Append("metrics.jsonl", m); err != nil {
				t.Fatal(err)
			}
		}
		paths = append(paths, path)
	}
	for i, path := range paths {
		r, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		html, err := r.HTML()
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"641.5", "W drawn, median", "MHz, median", "that the card drew in a step", "in use on the card", "held the clocks back"} {
			if strings.Contains(string(html), part) != (i == 0) {
				t.Errorf("the page of the %s has %q: %v", r.Name, part, i != 0)
			}
		}
	}
	c, err := Compare(paths)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(c.Text()), " ")
	for _, row := range []string{"power, W, median 641.5 –", "clock, MHz, median 1501 –", "memory clock, MHz, median 3201 –", "energy of a sampled token, J, median 2.5 –", "throttled, mean 50 % –"} {
		if !strings.Contains(text, row) {
			t.Errorf("the comparison lacks %q:\n%s", row, c.Text())
		}
	}
	html, err := c.HTML()
	if err != nil || strings.Contains(string(html), "NaN") {
		t.Errorf("the page has a place that is no number: %v", err)
	}
}
