package emu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/emu"
)

type hopperArgs struct {
	y, maps, x    kernels.Ptr
	T, N, K, form int32
}

// The forms of the kernel's operands.
const (
	sharedBoth = iota
	aRegisters
	wAcross
	aStored
)

var hopperOp = kernels.Op{Name: "hopper", Size: unsafe.Sizeof(hopperArgs{}), CUDA: func(_ kernels.GPU, args unsafe.Pointer) kernels.Grid {
	a := (*hopperArgs)(args)
	return kernels.Grid{X: int(a.T+63) / 64, Y: int(a.N+127) / 128, Threads: 256, Shared: 3*(64+128)*64*2 + 6*8}
}}

func hopper(t testing.TB, c *card, T, N, K, form int, r *rand.Rand) error {
	t.Helper()
	x, w := randoms(r, T*K), randoms(r, N*K)
	placed, wDims, wBox := w, []uint64{uint64(K), uint64(N)}, []uint32{64, 128}
	if form == wAcross {
		placed, wDims, wBox = make([]uint16, N*K), []uint64{uint64(N), uint64(K)}, []uint32{64, 64}
		for i := range N {
			for k := range K {
				placed[k*N+i] = w[i*K+k]
			}
		}
	}
	px, pw := place(t, c, x), place(t, c, placed)
	xMap, err := c.lib.TensorMap(uint64(px), []uint64{uint64(K), uint64(T)}, []uint64{2 * uint64(K)}, []uint32{64, 64}, 3)
	if err != nil {
		return err
	}
	wMap, err := c.lib.TensorMap(uint64(pw), wDims, []uint64{2 * wDims[0]}, wBox, 3)
	if err != nil {
		return err
	}
	y, err := c.dev.Alloc(4 * T * N)
	if err != nil {
		return err
	}
	maps := place(t, c, append(xMap[:], wMap[:]...))
	launch(c.q, &hopperOp, hopperArgs{y: y, maps: maps, x: px, T: int32(T), N: int32(N), K: int32(K), form: int32(form)})
	got, err := fetch[float32](t, c, y, T*N)
	if err != nil {
		return err
	}
	for i := range T {
		for j := range N {
			want, size := 0.0, 0.0
			for k := range K {
				p := float64(wide(x[i*K+k])) * float64(wide(w[j*K+k]))
				want += p
				size += math.Abs(p)
			}
			if g := float64(got[i*N+j]); !(math.Abs(g-want) <= size*float64(K)*0x1p-23) {
				return fmt.Errorf("y[%d, %d] is %g, want %g", i, j, g, want)
			}
		}
	}
	return nil
}

// Every form, every schedule: the right bits, and no report.
func TestHopperSchedules(t *testing.T) {
	for form := range aStored + 1 {
		c := open(t, emu.Checked)
		for i := range schedules() {
			seed := rand.Uint64()
			c.set(t, "seed", strconv.FormatUint(seed, 10))
			c.set(t, "schedule", []string{"random", "ahead"}[i%2])
			T, N, K := 1+rand.IntN(70), 8*(1+rand.IntN(20)), 8*(1+rand.IntN(40))
			if err := hopper(t, c, T, N, K, form, rand.New(rand.NewPCG(seed, 0))); err != nil {
				t.Fatalf("form %d, shape %d %d %d, seed %d: %v\n%s", form, T, N, K, seed, err, c.lib.Report())
			}
		}
		c.dev.Close()
	}
}
