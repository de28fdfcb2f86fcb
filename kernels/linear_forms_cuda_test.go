package kernels_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/emu"
	"tandem/kernels/kerneltest"
)

// emulatedStats counts what has run on the emulated card since the last call.
func emulatedStats(t *testing.T) map[string]emu.Stats {
	t.Helper()
	lib, err := emu.Open(kerneltest.Emulator())
	if err != nil {
		t.Fatal(err)
	}
	return lib.Stats()
}

// forms runs f on the emulated card as Hopper's with `sms` multiprocessors, as a card without Hopper's instructions, with one,
// which takes the largest tiles, and with many, and fails unless all results are the same bits. It returns what ran on the first.
func forms(t *testing.T, sms string, f func(*kerneltest.Device) kerneltest.Results) map[string]emu.Stats {
	t.Helper()
	if kerneltest.Emulator() == "" {
		t.Skip("the emulated card is not built")
	}
	var first kerneltest.Results
	var ran map[string]emu.Stats
	emulatedStats(t)
	for _, form := range [][2]string{{"9.0", sms}, {"10.0", "1"}, {"10.0", "132"}} {
		capability(t, form[0])
		multiprocessors(t, form[1])
		d := kerneltest.Emulated(t, kerneltest.Emulator())
		got := f(d)
		d.Close()
		if first == nil {
			first, ran = got, emulatedStats(t)
		}
		for _, name := range slices.Sorted(maps.Keys(first)) {
			kerneltest.Same(t, fmt.Sprintf("%s with capability %s and %s multiprocessors", name, form[0], form[1]), got[name], first[name])
		}
	}
	return ran
}

// at puts x where it begins `off` elements after a multiple of 16 bytes.
func at(d *kerneltest.Device, dtype kernels.DType, x []float32, off int, dims ...int) kernels.Tensor {
	all := d.Put(dtype, append(make([]float32, off), x...), off+len(x))
	return kernels.NewTensor(all.Ptr+kernels.Ptr(off*dtype.Size()), dtype, dims...)
}

// TestLinearFormsCUDA holds the gradients of Hopper's form to the bits of the others, and says which products take it.
func TestLinearFormsCUDA(t *testing.T) {
	for _, c := range []struct {
		name                     string
		T, N, K                  int
		dyOff, xOff, wOff, dwOff int // elements
		sms                      string
		start                    float32
		dx, dw                   bool // have Hopper's form
	}{
		{name: "one step", T: 64, N: 64, K: 64, dx: true, dw: true},
		{name: "less than a box", T: 3, N: 8, K: 8, dx: true, dw: true},
		{name: "a row", T: 1, N: 136, K: 72, dx: true, dw: true},
		{name: "over a step and a tile", T: 65, N: 136, K: 264, dx: true, dw: true},
		{name: "several tiles, more steps than stages", T: 333, N: 328, K: 528, dx: true, dw: true},
		{name: "a tile whose boxes are mostly beyond", T: 130, N: 264, K: 8, dx: true, dw: true},
		{name: "lines of dy at odd places", T: 65, N: 130, K: 136},
		{name: "lines of x and w at odd places", T: 65, N: 136, K: 132},
		{name: "dy at an odd place", T: 65, N: 136, K: 72, dyOff: 4},
		{name: "w at an odd place", T: 65, N: 136, K: 72, wOff: 4, dw: true},
		{name: "x at an odd place", T: 65, N: 136, K: 72, xOff: 4, dx: true},
		{name: "dw at an odd place", T: 65, N: 136, K: 72, dwOff: 1, dx: true},
		{name: "fewer tiles than multiprocessors", T: 130, N: 136, K: 264, sms: "5", dx: true, dw: true},
		{name: "too few tiles", T: 130, N: 136, K: 264, sms: "6"},
		{name: "chains that start from -0", T: 16, N: 64, K: 64, start: -1, dx: true, dw: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := kerneltest.Rand(t)
			x, w, dy := kerneltest.Normal(r, c.T*c.K, 1), kerneltest.Normal(r, c.N*c.K, 1), kerneltest.Normal(r, c.T*c.N, 1)
			was := kerneltest.Normal(r, c.N*c.K, 1)
			if c.start < 0 {
				clear(dy) // exact zeros are added, as padding does
				for i := range was {
					was[i] *= 0 * c.start
				}
			}
			ran := forms(t, cmp.Or(c.sms, "1"), func(d *kerneltest.Device) kerneltest.Results {
				x, w, dy := at(d, kernels.BF16, x, c.xOff, c.T, c.K), at(d, kernels.BF16, w, c.wOff, c.N, c.K), at(d, kernels.BF16, dy, c.dyOff, c.T, c.N)
				dx, dw := d.Tensor(kernels.BF16, c.T, c.K), at(d, kernels.F32, was, c.dwOff, c.N, c.K)
				kernels.LinearBackward(d.Q, dx, dw, dy, x, w)
				return kerneltest.Results{"dx": d.Get(dx), "dw": d.Get(dw)}
			})
			for name, want := range map[string]bool{"linear_dx_sm90": c.dx, "linear_dw_sm90": c.dw} {
				if got := ran[name].Launches > 0; got != want {
					t.Errorf("%s ran: %v, want %v", name, got, want)
				}
			}
		})
	}
}

// TestLogProbFormsCUDA has chains that go on from chunk to chunk of the vocabulary: lines of dz that are longer than what is
// read of them, sums that begin, go on and end.
func TestLogProbFormsCUDA(t *testing.T) {
	for _, c := range []struct {
		name       string
		R, V, D, C int
		dx         int // launches of Hopper's form
	}{
		{"one chunk", 70, 136, 264, 136, 1},
		{"one chunk of longer lines", 70, 130, 72, 136, 1},
		{"two chunks", 33, 264, 72, 136, 2},
		{"three chunks, the last one short", 130, 300, 72, 136, 3},
		{"chunks at odd places", 33, 264, 72, 132, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := kerneltest.Rand(t)
			h := randomHead(t, kernels.BF16, c.R, c.V, c.D, 1)
			dlogp, dentropy, was := kerneltest.Normal(r, c.R, 1), kerneltest.Normal(r, c.R, 1), kerneltest.Normal(r, c.V*c.D, 1)
			ran := forms(t, "1", func(d *kerneltest.Device) kerneltest.Results {
				return h.backward(d, kernels.BF16, dlogp, dentropy, was, c.C)
			})
			for _, name := range []string{"linear_dx_sm90", "linear_dw_sm90"} {
				if got := ran[name].Launches; got != c.dx {
					t.Errorf("%s ran %d times, want %d", name, got, c.dx)
				}
			}
		})
	}
}
