package kernels_test

import (
	"testing"

	"tandem/kernels/emu"
)

// multiprocessors sets how many the emulated card has, for the time of a test: launches are shaped by it, bits are not.
func multiprocessors(t *testing.T, n string) { emulate(t, "multiprocessors", n, "132") }

// capability makes the emulated card one of another kind, which has other forms of some kernels.
func capability(t *testing.T, n string) { emulate(t, "capability", n, "9.0") }

// emulate changes a setting for the time of a test.
func emulate(t *testing.T, setting, value, usual string) {
	t.Helper()
	file := emu.Find(emu.Plain)
	if file == "" {
		return // kerneltest.GPU says so
	}
	lib, err := emu.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := lib.Set(setting, value); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lib.Set(setting, usual); err != nil {
			t.Error(err)
		}
	})
}
