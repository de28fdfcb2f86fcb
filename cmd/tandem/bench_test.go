package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestBench measures a tiny model's kernels on the CPU, completes the report, and says so where there is no GPU.
func TestBench(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "report")
	r := tandem(t, "bench", "--device", "cpu", "--models", "tiny", "--decode", "tiny", "--out", out, "--rows", "32", "--context", "16",
		"--batch", "2", "--elements", "4096", "--memory", "32", "--step-tokens", "4", "--step-prompts", "2")
	for _, want := range []string{"linear_dw", "tiny: decode, batch 2", "tiny: a step of GRPO"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("it says %q, want %q in it", r.stdout, want)
		}
	}
	y := write(t, "y.jsonl", `{"kernel":"linear","shape":{"T":32,"N":256,"K":128},"by":"a yardstick","us":5}`)
	tandem(t, "bench", "--out", out, "--yardsticks", y)
	if table := read(t, filepath.Join(out, "report.md")); !strings.Contains(table, "| a yardstick | 5.0 |") {
		t.Errorf("report:\n%s", table)
	}
	t.Setenv("TANDEM_CUDA_DRIVER", filepath.Join(dir, "none.so"))
	refused(t, 2, []string{"bench"}, "none.so")
}
