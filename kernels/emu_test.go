package kernels_test

import (
	"testing"

	"tandem/kernels"
	"tandem/kernels/emu"
	"tandem/kernels/kerneltest"
)

// multiprocessors sets how many the emulated card has, for the time of a test: launches are shaped by it, bits are not.
func multiprocessors(t *testing.T, n string) { emulate(t, "multiprocessors", n, "132") }

// capability makes the emulated card one of another kind, which has other forms of some kernels.
func capability(t *testing.T, n string) { emulate(t, "capability", n, "9.0") }

// emulate changes a setting for the time of a test.
func emulate(t *testing.T, setting, value, usual string) {
	t.Helper()
	file := kerneltest.Emulator()
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

// TestBankConflicts says that no warp waits for shared memory: eight rows of a matrix that ldmatrix takes at once lie in
// different banks, in every kernel, however its operands are turned.
func TestBankConflicts(t *testing.T) {
	file := kerneltest.Emulator()
	if file == "" {
		t.Skip("the emulated card is not built")
	}
	lib, err := emu.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	r := kerneltest.Rand(t)
	seqs := []*sequence{randomSequence(r, kernels.BF16, 130, 4, 1, 128), randomSequence(r, kernels.BF16, 70, 4, 1, 128)}
	h := randomHead(t, kernels.BF16, 130, 300, 64, 1)
	lib.Stats()
	for _, c := range []string{"9.0", "10.0"} {
		capability(t, c)
		d := kerneltest.GPU(t)[0]
		x, w, dy := newOperand(kernels.BF16, kerneltest.Normal(r, 70*72, 1), 70, 72), newOperand(kernels.BF16, kerneltest.Normal(r, 88*72, 1), 88, 72), newOperand(kernels.BF16, kerneltest.Normal(r, 70*88, 1), 70, 88)
		dx, dw := d.Tensor(kernels.BF16, 70, 72), d.Zeros(kernels.F32, 88, 72)
		kernels.Linear(d.Q, d.Tensor(kernels.BF16, 70, 88), x.on(d, kernels.BF16), w.on(d, kernels.BF16))
		kernels.Linear(d.Q, d.Tensor(kernels.BF16, 3, 88), x.on(d, kernels.BF16).Rows(0, 3), w.on(d, kernels.BF16))
		kernels.LinearBackward(d.Q, dx, dw, dy.on(d, kernels.BF16), x.on(d, kernels.BF16), w.on(d, kernels.BF16))
		h.backward(d, kernels.BF16, kerneltest.Normal(r, h.R, 1), nil, make([]float32, h.V*h.D), 256)
		cache := newCache(d, seqs, r)
		b := cache.pack(seqs, wholeSequences(seqs))
		cache.forward(b, seqs[0].scale)
		cache.backward(b, seqs[0].scale)
		attendIn(d, seqs, r, decodeSteps(seqs))
	}
	seen := 0
	for name, s := range lib.Stats() {
		if s.Phases > 0 {
			seen++
		}
		if s.Conflicts > 0 {
			t.Errorf("kernel %s: %d conflicts in %d reads of eight rows", name, s.Conflicts, s.Phases)
		}
	}
	if seen < 8 {
		t.Errorf("%d kernels have read matrices", seen)
	}
}
