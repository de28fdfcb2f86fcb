package kernels_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tandem/kernels/emu"
	"tandem/kernels/kerneltest"
)

// Whatever orders threads in a kernel: each such call, left out, has to be missed.
var orders = regexp.MustCompile(`\b(sync_block|syncwarp|bar_sync|bar_arrive|mbarrier_wait|mbarrier_arrive|mbarrier_expect_tx|cp_async_commit|cp_async_wait|wgmma_fence|wgmma_commit|wgmma_wait|fence_proxy_async|fence_mbarrier_init)(<[^;]*>)?\(`)

// Which of smallRuns, by the beginnings of their names, a file's kernels are in.
var runsOf = map[string][]string{
	"attention.cu":          {"attention", "decode"},
	"attention_backward.cu": {"attention"},
	"attention_sm90.cu":     {"attention, wide"},
	"embedding.cu":          {"embedding back"},
	"gemm.cuh":              {"linear", "logprob"},
	"gemm_sm90.cuh":         {"linear, Hopper"},
	"gradnorm.cu":           {"elements"},
	"logprob.cu":            {"logprob"},
	"qknormrope.cu":         {"qknormrope back, 64"},
	"rows.cuh":              {"rmsnorm"},
	"sample.cu":             {"sample"},
}

// The calls that nothing misses, by file and what their line says, each with the reason why it is there all the same.
var unmissed = map[string]string{}

const withoutVariable = "TANDEM_TEST_WITHOUT"

// TestBarriersCUDA leaves out each barrier, wait, arrival and fence of the shipped kernels, one at a time, and wants the
// emulated card or the results to say so: then none is there for nothing, and the tests would see one go.
func TestBarriersCUDA(t *testing.T) {
	file := emu.Find(emu.Checked)
	if file == "" {
		t.Skipf("there is no %s, which make emu builds", emu.Checked)
	}
	if place := os.Getenv(withoutVariable); place != "" {
		runWithout(t, file, place)
		return
	}
	if testing.Short() {
		t.Skip("a process for each of them")
	}
	for _, s := range sites(t) {
		t.Run(s.place, func(t *testing.T) {
			t.Parallel()
			out, err := again("^TestBarriersCUDA$", withoutVariable+"="+s.place)
			missed := err != nil && strings.Contains(out, "--- FAIL")
			switch reason := unmissed[s.key]; {
			case err != nil && !missed:
				t.Errorf("%v: %s", err, out)
			case !missed && reason == "":
				t.Errorf("nobody misses %q: %s", s.key, out)
			case missed && reason != "":
				t.Errorf("%q is missed: the reason why it need not be can go", s.key)
			}
			t.Logf("%.500s", out)
		})
	}
}

type site struct{ place, key string }

func sites(t *testing.T) (found []site) {
	for _, pattern := range []string{"*.cu", "*.cuh"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				code, _, _ := strings.Cut(line, "//")
				if name != "ptx.cuh" && !strings.HasPrefix(line, "#define") && orders.MatchString(code) {
					found = append(found, site{fmt.Sprintf("kernels/%s:%d", name, i+1), name + ": " + strings.TrimSpace(line)})
				}
			}
		}
	}
	return found
}

// runWithout fails if anything is seen to be wrong without what is at a place of the source.
func runWithout(t *testing.T, file, place string) {
	_, set := steer(t, file)
	name, _, _ := strings.Cut(filepath.Base(place), ":")
	if runsOf[name] == nil {
		t.Skipf("runsOf does not say which runs the kernels of %s are in", name)
	}
	runs := smallRuns(t)
	for _, multiprocessors := range []string{"132", "1"} {
		set("multiprocessors", multiprocessors)
		for _, run := range slices.Sorted(maps.Keys(runs)) {
			if !slices.ContainsFunc(runsOf[name], func(prefix string) bool { return strings.HasPrefix(run, prefix) }) {
				continue
			}
			var results [2]kerneltest.Results
			for i, skip := range []string{place, ""} {
				set("skip", skip)
				d := kerneltest.Emulated(t, file)
				results[i] = runs[run](d)
				d.Close()
			}
			for _, result := range slices.Sorted(maps.Keys(results[0])) {
				kerneltest.Same(t, run+": "+result, results[0][result], results[1][result])
			}
		}
	}
}
