package device_test

import (
	"strings"
	"testing"

	"tandem/kernels/device"
)

func TestOpen(t *testing.T) {
	for _, name := range []string{"auto", "cpu"} {
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
