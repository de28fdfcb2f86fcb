package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// twins runs f for every set of loops but the plain one, which it is compared with.
func twins(t *testing.T, f func(t *testing.T, v *vec, r *rand.Rand)) {
	for _, v := range vecs() {
		if v == &goVec {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			t.Logf("seed %d", seed)
			f(t, v, rand.New(rand.NewPCG(seed, 0)))
		})
	}
}

// wild fills x with values of all magnitudes: ordinary ones, subnormals, zeros of both signs and, if asked for, values
// that overflow.
func wild(r *rand.Rand, x []float32, mix int) {
	for i := range x {
		v := float32(r.NormFloat64())
		switch mix {
		case 1: // products and sums around the smallest normal number
			v *= float32(math.Ldexp(1, -50-r.IntN(40)))
			if r.IntN(4) == 0 {
				v = math.Float32frombits(r.Uint32() & 0x80ffffff)
			}
		case 2:
			v *= float32(math.Ldexp(1, r.IntN(160)-80))
		case 3:
			v = math.Float32frombits(r.Uint32())
			if v != v {
				v = 0
			}
		}
		if r.IntN(16) == 0 {
			v = float32(math.Copysign(0, r.NormFloat64()))
		}
		x[i] = v
	}
}

func wildBF16(r *rand.Rand, n, mix int) []uint16 {
	f := make([]float32, n)
	wild(r, f, mix)
	x := make([]uint16, n)
	for i := range x {
		x[i] = uint16(math.Float32bits(f[i]) >> 16)
	}
	return x
}

func wildF32(r *rand.Rand, n, mix int) []float32 {
	x := make([]float32, n)
	wild(r, x, mix)
	return x
}

// sameBits takes every NaN as the same.
func sameBits(t *testing.T, what string, got, want []float32) {
	t.Helper()
	for i := range want {
		g, w := math.Float32bits(got[i]), math.Float32bits(want[i])
		if g != w && (got[i] == got[i] || want[i] == want[i]) {
			t.Fatalf("%s: element %d of %d is %v (%#08x), want %v (%#08x)", what, i, len(want), got[i], g, want[i], w)
		}
	}
}

func poison(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.NaN())
	}
	return x
}

func TestDotsTwins(t *testing.T) {
	twins(t, func(t *testing.T, v *vec, r *rand.Rand) {
		for range 400 {
			M, N, K := 1+r.IntN(9), 1+r.IntN(20), r.IntN(150)
			if r.IntN(8) == 0 {
				M, N, K = 1+r.IntN(140), 1+r.IntN(40), r.IntN(40)
			}
			if r.IntN(8) == 0 {
				K = 32 * (1 + r.IntN(160))
			}
			if r.IntN(16) == 0 {
				K = 900 + r.IntN(4000)
			}
			ldx, ldw, ldo, mix := K+r.IntN(5), K+r.IntN(5), N+r.IntN(5), r.IntN(4)
			what := fmt.Sprintf("M %d N %d K %d ldx %d ldw %d ldo %d mix %d", M, N, K, ldx, ldw, ldo, mix)
			got, want := poison((M-1)*ldo+N), poison((M-1)*ldo+N)
			xh, wh := wildBF16(r, (M-1)*ldx+K, mix), wildBF16(r, (N-1)*ldw+K, mix)
			goVec.dotsBF16(want, ldo, xh, ldx, wh, ldw, M, N, K)
			v.dotsBF16(got, ldo, xh, ldx, wh, ldw, M, N, K)
			sameBits(t, "dotsBF16 "+what, got, want)
			xf, wf := wildF32(r, (M-1)*ldx+K, mix), wildF32(r, (N-1)*ldw+K, mix)
			goVec.dotsF32(want, ldo, xf, ldx, wf, ldw, M, N, K)
			v.dotsF32(got, ldo, xf, ldx, wf, ldw, M, N, K)
			sameBits(t, "dotsF32 "+what, got, want)
		}
	})
}
