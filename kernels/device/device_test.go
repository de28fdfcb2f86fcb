package device_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/cuda"
	"tandem/kernels/device"
)

func TestOpen(t *testing.T) {
	for _, name := range []string{"auto", "cpu"} {
		if name == "auto" {
			if _, err := cuda.Cards(""); err == nil {
				continue // this machine has a card
			}
		}
		dev, err := device.Open(name, 2)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(dev.Name(), "2 workers") {
			t.Errorf("%s: %s, want 2 workers", name, dev.Name())
		}
		if err := dev.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := device.Open("tpu", 0); err == nil || !strings.Contains(err.Error(), `"tpu"`) {
		t.Errorf("an unknown device: %v", err)
	}
}

func TestFreeMemory(t *testing.T) {
	n, err := device.FreeMemory()
	if err != nil || n < 64<<20 {
		t.Errorf("%d bytes, %v: this test could not run in so little", n, err)
	}
}

// Where the machine has no card, or the environment names a driver that is none, auto and cuda say what is so.
func TestOpenCUDA(t *testing.T) {
	t.Setenv(device.DriverVariable, filepath.Join(t.TempDir(), "libcuda-gone.so"))
	for _, name := range []string{"auto", "cuda", "cuda:1"} {
		if _, err := device.Open(name, 1); !errors.Is(err, cuda.ErrNone) || !strings.Contains(err.Error(), "libcuda-gone.so") {
			t.Errorf("%s with a driver that is missing: %v", name, err)
		}
	}
	for _, name := range []string{"cuda:", "cuda:x", "cuda:-1", "CUDA", "cpu:1"} {
		if _, err := device.Open(name, 1); err == nil || !strings.Contains(err.Error(), "want") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The CPU stores everything, is as free as the host, and has no telemetry.
func TestCPUFacts(t *testing.T) {
	dev, err := device.Open("cpu", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	for _, d := range []kernels.DType{kernels.BF16, kernels.F32} {
		if err := device.Holds(dev, d); err != nil {
			t.Error(err)
		}
	}
	if free, err := device.Free(dev); err != nil || free < 64<<20 {
		t.Errorf("%d bytes, %v", free, err)
	}
	if m, err := device.Telemetry(dev); m != nil || err != nil {
		t.Errorf("telemetry of the CPU: %v %v", m, err)
	}
}

func TestHolds(t *testing.T) {
	if err := device.Holds(&cuda.Device{}, kernels.F32); err == nil || !strings.Contains(err.Error(), "as bf16, not float32") {
		t.Errorf("float32 on CUDA: %v", err)
	}
	if err := device.Holds(&cuda.Device{}, kernels.BF16); err != nil {
		t.Error(err)
	}
}
