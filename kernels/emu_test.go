package kernels_test

import (
	"testing"

	"tandem/kernels/emu"
)

// multiprocessors sets how many the emulated card has, for the time of a test: launches are shaped by it, bits are not.
func multiprocessors(t *testing.T, n string) {
	t.Helper()
	file := emu.Find(emu.Plain)
	if file == "" {
		return // kerneltest.GPU says so
	}
	lib, err := emu.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := lib.Set("multiprocessors", n); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lib.Set("multiprocessors", "132"); err != nil {
			t.Error(err)
		}
	})
}
