package kerneltest

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/cuda"
	"tandem/kernels/emu"
)

// GPUVariable, set to 1, makes tests of kernels run on the card that is installed as well.
const GPUVariable = "TANDEM_TEST_GPU"

// EmulatorVariable names another library of the emulated card than emu.Plain, such as the one that looks at every access.
const EmulatorVariable = "TANDEM_EMULATOR"

// Emulator is the file of the emulated card, which make emu builds; "" if there is none.
func Emulator() string {
	if name := os.Getenv(EmulatorVariable); name != "" {
		return emu.Find(name)
	}
	return emu.Find(emu.Plain)
}

// GPU opens the emulated card, and with TANDEM_TEST_GPU=1 the one that is installed. It skips the test if there is
// neither. Every launch is waited for, so that a failure names its kernel.
func GPU(t testing.TB) []*Device {
	t.Helper()
	var ds []*Device
	if file := Emulator(); file != "" {
		ds = append(ds, Emulated(t, file))
	}
	if os.Getenv(GPUVariable) == "1" {
		ds = append(ds, openGPU(t, cuda.Config{Check: true, Forms: cuda.Trusted}))
	}
	if len(ds) == 0 {
		t.Skipf("there is no %s, which make builds: kernels are not tested", emu.Plain)
	}
	return ds
}

// Emulated opens the emulated card of a file.
func Emulated(t testing.TB, file string) *Device {
	t.Helper()
	return openGPU(t, cuda.Config{Driver: file, Check: true})
}

func openGPU(t testing.TB, cfg cuda.Config) *Device {
	t.Helper()
	c, err := cuda.Open(cfg)
	if err != nil {
		t.Fatalf("open %+v: %v", cfg, err)
	}
	d := wrap(t, c)
	d.witness = newWitness(t)
	return d
}

// Tols are tolerances by the name of a result. A result without one must be equal bit for bit.
type Tols map[string]Tol

// Rounded is the tolerance of a result of dtype d that two devices compute from the same inputs and round once: their
// values before rounding differ by at most error, so the rounded ones by that and a rounding each. For a sum of n products
// in float32, on whatever lanes, error is Sum(n) times the sum of the products' magnitudes.
func Rounded(d kernels.DType, error float64) Tol {
	return Tol{Abs: error * (1 + 2*Unit(d)), Rel: 2 * Unit(d)}
}

// Sum is the largest error, relative to the sum of the magnitudes, by which two orders of a float32 sum of n terms can
// differ. Tensor cores cut off where others round, which doubles a step's error.
func Sum(n int) float64 { return 3 * float64(n) * Unit(kernels.F32) }

// Twin runs f on a CPU and on every GPU, each a fresh device with fresh poison, and fails unless each GPU's results are
// those of the CPU within the tolerances, and all GPUs' the same bit for bit. It returns the CPU's results. CUDA stores
// activations and weights as BF16 only, so f does too.
func Twin(t testing.TB, tols Tols, f func(d *Device) Results) Results {
	t.Helper()
	gpus := GPU(t)
	cpu := CPU(t, kernels.CPUConfig{Workers: 1})
	want := f(cpu)
	cpu.Close()
	for name := range tols {
		if _, ok := want[name]; !ok {
			t.Errorf("a tolerance is given for %s, which is no result", name)
		}
	}
	var first Results
	for _, d := range gpus {
		got := f(d)
		d.Close()
		if first == nil {
			first = got
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			on := fmt.Sprintf("%s on %s against the CPU", name, d.Name())
			if tol, ok := tols[name]; ok {
				Near(t, on, got[name], F64(want[name]), tol)
			} else {
				Same(t, on, got[name], want[name])
			}
			Same(t, fmt.Sprintf("%s on %s against %s", name, d.Name(), gpus[0].Name()), got[name], first[name])
		}
	}
	return want
}
