package kernels_test

import (
	"syscall"
	"testing"

	"tandem/kernels"
	"tandem/kernels/emu"
	"tandem/kernels/kerneltest"
)

// steer opens the emulated card of a file for its settings.
func steer(t testing.TB, file string) (lib *emu.Library, set func(name, value string)) {
	t.Helper()
	lib, err := emu.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return lib, func(name, value string) {
		t.Helper()
		if err := lib.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
}

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
	_, set := steer(t, file)
	set(setting, value)
	t.Cleanup(func() { set(setting, usual) })
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

// BenchmarkEmulatedLinear is how fast one core of the host emulates a product as it ships, by mma.sync in small and in
// large tiles and by wgmma, in GFLOP/s of the time that the process has had, which others on the machine do not change much.
func BenchmarkEmulatedLinear(bm *testing.B) {
	const T, N, K = 256, 256, 512
	file := kerneltest.Emulator()
	if file == "" {
		bm.Skip("the emulated card is not built")
	}
	lib, set := steer(bm, file)
	set("threads", "1")
	bm.Cleanup(func() {
		for name, value := range map[string]string{"threads": "0", "mma": "exact", "capability": "9.0", "multiprocessors": "132"} {
			set(name, value)
		}
	})
	for _, form := range [][3]string{{"linear_64", "10.0", "132"}, {"linear_128", "10.0", "2"}, {"linear_sm90", "9.0", "2"}} {
		for _, mode := range []string{"fast", "exact"} {
			bm.Run(form[0]+"/"+mode, func(bm *testing.B) {
				set("capability", form[1])
				set("multiprocessors", form[2])
				set("mma", mode)
				lib.Stats()
				d := kerneltest.Emulated(bm, file)
				defer d.Close()
				x, w, y := matrix(d, kernels.BF16, T, K), matrix(d, kernels.BF16, N, K), d.Tensor(kernels.BF16, T, N)
				before := cpuSeconds(bm)
				for bm.Loop() {
					kernels.Linear(d.Q, y, x, w)
				}
				if lib.Stats()[form[0]].Launches == 0 {
					bm.Errorf("%s has not run", form[0])
				}
				bm.ReportMetric(float64(bm.N)*2*T*N*K/(cpuSeconds(bm)-before)/1e9, "GFLOP/s")
			})
		}
	}
}

func cpuSeconds(bm *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		bm.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}
