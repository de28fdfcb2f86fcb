package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
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
		for range 150 {
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

func TestChainTwins(t *testing.T) {
	twins(t, func(t *testing.T, v *vec, r *rand.Rand) {
		for range 150 {
			M, N, K := 1+r.IntN(20), 1+r.IntN(80), r.IntN(70)
			if r.IntN(8) == 0 {
				M, N, K = 1+r.IntN(220), 1+r.IntN(40), r.IntN(40)
			}
			if r.IntN(16) == 0 {
				K = 200 + r.IntN(600)
			}
			lda, ldb, ldc, mix := K+r.IntN(5), N+r.IntN(5), N+r.IntN(5), r.IntN(4)
			what := fmt.Sprintf("M %d N %d K %d lda %d ldb %d ldc %d mix %d", M, N, K, lda, ldb, ldc, mix)
			start := wildF32(r, (M-1)*ldc+N, mix)
			got, want := append([]float32{}, start...), append([]float32{}, start...)
			as, bs := max(0, (M-1)*lda+K), max(0, (K-1)*ldb+N)
			ah, bh := wildBF16(r, as, mix), wildBF16(r, bs, mix)
			goVec.chainBF16(want, ldc, ah, lda, bh, ldb, M, N, K)
			v.chainBF16(got, ldc, ah, lda, bh, ldb, M, N, K)
			sameBits(t, "chainBF16 "+what, got, want)
			copy(got, start)
			copy(want, start)
			af, bf := wildF32(r, as, mix), wildF32(r, bs, mix)
			goVec.chainF32(want, ldc, af, lda, bf, ldb, M, N, K)
			v.chainF32(got, ldc, af, lda, bf, ldb, M, N, K)
			sameBits(t, "chainF32 "+what, got, want)
		}
	})
}

func TestMapTwins(t *testing.T) {
	twins(t, func(t *testing.T, v *vec, r *rand.Rand) {
		for range 150 {
			n, mix := r.IntN(120), r.IntN(4)
			what := fmt.Sprintf("n %d mix %d", n, mix)
			in := func() []float32 { return wildF32(r, n, mix) }
			compare := func(name string, outs int, f func(v *vec, outs [][]float32)) {
				var got, want [][]float32
				for range outs {
					start := in()
					got, want = append(got, append([]float32{}, start...)), append(want, start)
				}
				f(&goVec, want)
				f(v, got)
				for i := range outs {
					sameBits(t, fmt.Sprintf("%s output %d, %s", name, i, what), got[i], want[i])
				}
			}
			a, b, c := in(), in(), in()
			if n > 3 && mix > 0 {
				a[0], a[1], a[2] = float32(math.NaN()), float32(math.Inf(1)), float32(math.Inf(-1))
			}
			for i := range a {
				if mix == 0 {
					a[i] *= 60 // through the whole range of exp2
				}
			}
			k, off := float32(r.NormFloat64()), float32(r.NormFloat64())
			for range 2 {
				lanes := wildF32(r, 32, 0)
				copy(lanes[16:], lanes[:16])
				sums := [][16]float32{[16]float32(lanes), [16]float32(lanes[16:])}
				compare("exp2Sum", 1, func(v *vec, o [][]float32) {
					i := 0
					if v != &goVec {
						i = 1
					}
					v.exp2Sum(o[0], a, k, off, &sums[i])
				})
				sameBits(t, "exp2Sum lanes "+what, sums[1][:], sums[0][:])
				k, off = 1, 0
			}
			compare("silu", 1, func(v *vec, o [][]float32) { v.silu(o[0], a, b) })
			compare("siluBackward", 2, func(v *vec, o [][]float32) { v.siluBackward(o[0], o[1], c, a, b) })
			compare("scale", 1, func(v *vec, o [][]float32) { v.scale(o[0], a, b, k) })
			h := wildBF16(r, n, mix)
			compare("unpack", 1, func(v *vec, o [][]float32) { v.unpack(o[0], h) })
			compare("pack", 1, func(v *vec, o [][]float32) {
				d := make([]uint16, n)
				v.pack(d, a)
				goVec.unpack(o[0], d)
			})
			low := wildBF16(r, n, mix)
			compare("join", 1, func(v *vec, o [][]float32) { v.join(o[0], h, low) })
			compare("split", 2, func(v *vec, o [][]float32) {
				d, e := make([]uint16, n), make([]uint16, n)
				v.split(d, e, a)
				goVec.unpack(o[0], d)
				goVec.join(o[1], d, e)
			})
			compare("unhalve", 1, func(v *vec, o [][]float32) { v.unhalve(o[0], h, k) })
			compare("halve", 1, func(v *vec, o [][]float32) {
				d := make([]uint16, n)
				v.halve(d, a, k)
				goVec.unhalve(o[0], d, 1)
			})
			co := adamWCoeffs{0.5, 0.999, 0.1, 0.95, 0.05, 0.3, 1e-8, 1e-3}
			compare("adamW", 3, func(v *vec, o [][]float32) { v.adamW(o[0], o[1], o[2], b, &co) })
		}
	})
}

func TestChooseVec(t *testing.T) {
	for _, name := range append([]string{""}, Vecs()...) {
		v, err := chooseVec(name)
		if err != nil || v.name != name && name != "" {
			t.Errorf("choose %q: got %v, %v", name, v, err)
		}
	}
	if v, err := chooseVec("mmx"); err == nil {
		t.Errorf("choose mmx: got %s, want an error", v.name)
	}
}

// TestCheckFinds breaks one loop after the other: the self-test must name it.
func TestCheckFinds(t *testing.T) {
	for name, spoil := range map[string]func(v *vec){
		"dotsBF16": func(v *vec) {
			v.dotsBF16 = func(out []float32, ldo int, x []uint16, ldx int, w []uint16, ldw int, M, N, K int) {
				for m := range M { // keeps subnormals
					for n := range N {
						var acc [16]float32
						for k := range K {
							j := k % 32 / 2
							acc[j] = fma32(F32Of(x[m*ldx+k^1]), F32Of(w[n*ldw+k^1]), acc[j])
						}
						out[m*ldo+n] = fold(&acc)
					}
				}
			}
		},
		"chainF32": func(v *vec) {
			v.chainF32 = func(acc []float32, ldc int, a []float32, lda int, b []float32, ldb int, M, N, K int) {
				goVec.chainF32(acc, ldc, a, lda, b, ldb, M, N-1, K)
			}
		},
		"exp2Sum's lanes": func(v *vec) {
			v.exp2Sum = func(p, s []float32, c, b float32, sum *[16]float32) {
				goVec.exp2Sum(p, s, c, b, sum)
				sum[0]++
			}
		},
		"silu": func(v *vec) {
			v.silu = func(out, gate, up []float32) {
				for i, g := range gate {
					out[i] = float32(float64(g) / (1 + math.Exp(-float64(g))) * float64(up[i]))
				}
			}
		},
	} {
		v := goVec
		spoil(&v)
		if err := v.check(); err == nil || !strings.Contains(err.Error(), name+":") {
			t.Errorf("%s broken: self-test says %v", name, err)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	for range b.N {
		if err := vecs()[0].check(); err != nil {
			b.Fatal(err)
		}
	}
}
