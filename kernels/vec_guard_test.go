package kernels

import (
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// fence is memory between two pages that nobody may touch.
type fence struct{ bytes []byte }

const page = 4096

func newFence(t *testing.T, size int) *fence {
	pages := (size + page - 1) / page
	b, err := unix.Mmap(-1, 0, (pages+2)*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(b) })
	for _, guard := range [][]byte{b[:page], b[len(b)-page:]} {
		if err := unix.Mprotect(guard, unix.PROT_NONE); err != nil {
			t.Fatal(err)
		}
	}
	return &fence{b[page : len(b)-page]}
}

// f32 is n elements that end, or with atStart begin, at the fence.
func (f *fence) f32(n int, atStart bool) []float32 {
	if n == 0 {
		return nil
	}
	at := len(f.bytes) - 4*n
	if atStart {
		at = 0
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&f.bytes[at])), n)
}

func (f *fence) bf16(n int, atStart bool) []uint16 {
	if n == 0 {
		return nil
	}
	at := len(f.bytes) - 2*n
	if atStart {
		at = 0
	}
	return unsafe.Slice((*uint16)(unsafe.Pointer(&f.bytes[at])), n)
}

// TestLoopsStayInside: a read or write outside the slices ends the test.
func TestLoopsStayInside(t *testing.T) {
	a, b, c, d, e := newFence(t, 1<<16), newFence(t, 1<<16), newFence(t, 1<<16), newFence(t, 1<<16), newFence(t, 1<<16)
	co := adamWCoeffs{1, 1, 0.1, 0.9, 0.1, 1, 1e-8, 1e-3}
	twins(t, func(t *testing.T, v *vec, r *rand.Rand) {
		for i := range 300 {
			start := i%2 == 0
			M, N, K := 1+r.IntN(18), 1+r.IntN(40), 1+r.IntN(140)
			if i%3 == 0 {
				K = (K + 31) &^ 31
			}
			out := a.f32(M*N, start)
			v.dotsBF16(out, N, b.bf16(M*K, start), K, c.bf16(N*K, start), K, M, N, K)
			v.dotsF32(out, N, b.f32(M*K, start), K, c.f32(N*K, start), K, M, N, K)
			v.chainBF16(out, N, b.bf16(M*K, start), K, c.bf16(K*N, start), N, M, N, K)
			v.chainF32(out, N, b.f32(M*K, start), K, c.f32(K*N, start), N, M, N, K)
			f := []*fence{a, b, c, d, e}
			at := func(j int) []float32 { return f[j].f32(K, start) }
			var sum [16]float32
			v.exp2Sum(at(0), at(1), 1, 0, &sum)
			v.silu(at(0), at(1), at(2))
			v.siluBackward(at(0), at(1), at(2), at(3), at(4))
			v.pack(b.bf16(K, start), at(0))
			v.unpack(at(0), b.bf16(K, start))
			v.scale(at(0), at(1), at(2), 2)
			v.split(b.bf16(K, start), c.bf16(K, start), at(0))
			v.join(at(0), b.bf16(K, start), c.bf16(K, start))
			v.halve(b.bf16(K, start), at(0), 2)
			v.unhalve(at(0), b.bf16(K, start), 2)
			v.adamW(at(0), at(1), at(2), at(3), &co)
		}
	})
}

// TestShortSlices: the check before the assembly says what is too short.
func TestShortSlices(t *testing.T) {
	twins(t, func(t *testing.T, v *vec, _ *rand.Rand) {
		for name, f := range map[string]func(){
			"dots out": func() { v.dotsF32(make([]float32, 5), 3, make([]float32, 8), 4, make([]float32, 12), 4, 2, 3, 4) },
			"dots x":   func() { v.dotsF32(make([]float32, 6), 3, make([]float32, 7), 4, make([]float32, 12), 4, 2, 3, 4) },
			"dots w":   func() { v.dotsBF16(make([]float32, 6), 3, make([]uint16, 8), 4, make([]uint16, 11), 4, 2, 3, 4) },
			"chain b":  func() { v.chainBF16(make([]float32, 6), 3, make([]uint16, 8), 4, make([]uint16, 11), 3, 2, 3, 4) },
			"silu up":  func() { v.silu(make([]float32, 4), make([]float32, 4), make([]float32, 3)) },
			"exp2Sum":  func() { v.exp2Sum(make([]float32, 3), make([]float32, 4), 1, 0, new([16]float32)) },
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s too short: no panic", name)
					}
				}()
				f()
			}()
		}
	})
}
