package kernels_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"tandem/kernels/emu"
	"tandem/kernels/kerneltest"
)

// Faults that can be switched on in the kernels as they are shipped: each makes the tests of its operation fail, which
// therefore run once more, in a process of their own.
var plants = []struct{ name, test string }{
	{"gemm_stage", "TestLinearCUDA/over_a_tile"},
	{"gemm_zero", "TestLinearCUDA/over_a_tile"},
	{"tile_swizzle", "TestLinearCUDA/over_a_tile"},
	{"tile_rows", "TestLinearCUDA/over_a_tile"},
	{"gemm_sm90_strides", "TestLinearCUDA/Hopper_tiles_of_gradients"},
	{"gemm_sm90_down_a", "TestLinearCUDA/Hopper_tiles_of_gradients"},
	{"gemm_sm90_down_b", "TestLinearCUDA/Hopper_tiles_of_gradients"},
	{"gemm_sm90_begin", "TestLinearCUDA/Hopper_tiles_of_gradients"},
	{"attention_sm90_registers", "TestAttentionCUDA/Qwen3"},
	{"attention_mask", "TestAttentionCUDA/around_a_page"},
}

func TestPlantsCUDA(t *testing.T) {
	if emu.Find(emu.Checked) == "" {
		t.Skipf("there is no %s, which make emu builds", emu.Checked)
	}
	for _, p := range plants {
		t.Run(p.name, func(t *testing.T) {
			run := func(plant string) (string, error) {
				return again("^"+p.test, kerneltest.EmulatorVariable+"="+emu.Checked, "TANDEM_EMU_PLANT="+plant)
			}
			out, err := run(p.name)
			if err == nil {
				t.Fatalf("%s passes: %s", p.test, out)
			}
			if !strings.Contains(out, "--- FAIL") {
				t.Fatalf("%v: %s", err, out)
			}
			t.Logf("%.600s", out)
			if out, err := run(""); err != nil || strings.Contains(out, "no tests to run") {
				t.Errorf("without the fault: %v: %s", err, out)
			}
		})
	}
}

// again runs a test of this package in a process of its own, with more in its environment. Its bits are kept for nobody.
func again(test string, env ...string) (out string, err error) {
	c := exec.Command(os.Args[0], "-test.run", test, "-test.failfast")
	c.Env = append(append(os.Environ(), kerneltest.BitsOut+"="), env...)
	b, err := c.CombinedOutput()
	return string(b), err
}
