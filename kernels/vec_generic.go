package kernels

import (
	"math"

	"github.com/x448/float16"
)

// The plain bodies define the bits. Explicit float32 conversions keep a compiler from fusing.

var goVec = vec{
	name:         "go",
	dotsBF16:     dotsBF16Go,
	dotsF32:      dotsF32Go,
	chainBF16:    chainBF16Go,
	chainF32:     chainF32Go,
	exp2Sum:      exp2SumGo,
	silu:         siluGo,
	siluBackward: siluBackwardGo,
	unpack:       unpackGo,
	pack:         packGo,
	scale:        scaleGo,
	split:        splitGo,
	join:         joinGo,
	halve:        halveGo,
	unhalve:      unhalveGo,
	adamW:        adamWGo,
}

func dotsBF16Go(out []float32, ldo int, x []uint16, ldx int, w []uint16, ldw int, M, N, K int) {
	for m := range M {
		for n := range N {
			out[m*ldo+n] = dotBF16(x[m*ldx:][:K], w[n*ldw:][:K])
		}
	}
}

func dotBF16(x, w []uint16) float32 {
	var acc [16]float32
	K := len(x)
	for k := 0; k < K; k += 32 {
		for j := range acc {
			var x0, w0, x1, w1 uint16
			if i := k + 2*j; i+1 < K {
				x0, w0, x1, w1 = x[i], w[i], x[i+1], w[i+1]
			} else if i < K {
				x0, w0 = x[i], w[i]
			}
			acc[j] = stepBF16(x0, w0, stepBF16(x1, w1, acc[j]))
		}
	}
	return fold(&acc)
}

func chainBF16Go(acc []float32, ldc int, a []uint16, lda int, b []uint16, ldb int, M, N, K int) {
	for m := range M {
		for n := range N {
			c := acc[m*ldc+n]
			for k := 0; k < K; k += 2 {
				var a1, b1 uint16
				if k+1 < K {
					a1, b1 = a[m*lda+k+1], b[(k+1)*ldb+n]
				}
				c = stepBF16(a[m*lda+k], b[k*ldb+n], stepBF16(a1, b1, c))
			}
			acc[m*ldc+n] = c
		}
	}
}

// stepBF16 is fma(a, b, c) where subnormal operands count as zero and a result that is subnormal after rounding becomes
// a zero of its sign: what vdpbf16ps does, and FMA under FTZ and DAZ.
func stepBF16(a, b uint16, c float32) float32 {
	x, y, c := flush(F32Of(a)), flush(F32Of(b)), flush(c)
	p := float32(x * y)
	if u := math.Float32bits(p) & 0x7fffffff; u >= 0x00800000 && u < 0x7f800000 || x == 0 || y == 0 {
		return flush(p + c) // the product is exact
	}
	s := fmaOdd(x, y, c)
	if s >= 0x1p-125 || s <= -0x1p-125 || s != s {
		return float32(s)
	}
	// Tiny or not is decided on 24 bits whatever the exponent.
	r := float32(s * 0x1p64)
	if r >= 0x1p-62 || r <= -0x1p-62 {
		return r * 0x1p-64
	}
	return r * 0
}

// flush makes a subnormal a zero of its sign.
func flush(x float32) float32 {
	u := math.Float32bits(x)
	if u&0x7f800000 == 0 {
		return math.Float32frombits(u & 0x80000000)
	}
	return x
}

func dotsF32Go(out []float32, ldo int, x []float32, ldx int, w []float32, ldw int, M, N, K int) {
	for m := range M {
		for n := range N {
			var acc [16]float32
			xr, wr := x[m*ldx:][:K], w[n*ldw:][:K]
			for k := range xr {
				acc[k%16] = fma32(xr[k], wr[k], acc[k%16])
			}
			for j := K % 16; j != 0 && j < 16; j++ {
				acc[j] += 0 // the tail is zeros: only -0 changes
			}
			out[m*ldo+n] = fold(&acc)
		}
	}
}

func chainF32Go(acc []float32, ldc int, a []float32, lda int, b []float32, ldb int, M, N, K int) {
	for m := range M {
		for n := range N {
			c := acc[m*ldc+n]
			for k := range K {
				c = fma32(a[m*lda+k], b[k*ldb+n], c)
			}
			acc[m*ldc+n] = c
		}
	}
}

func exp2SumGo(p, s []float32, c, b float32, sum *[16]float32) {
	for j := range s {
		e := exp2(fma32(s[j], c, b))
		p[j] = e
		sum[j%16] += e
	}
}

func siluGo(out, gate, up []float32) {
	for i, g := range gate {
		e := exp2(g * -log2e)
		out[i] = float32(g/(1+e)) * up[i]
	}
}

func siluBackwardGo(dgate, dup, dout, gate, up []float32) {
	for i, g := range gate {
		s := 1 / (1 + exp2(g*-log2e))
		d, u := dout[i], up[i]
		dup[i] = d * float32(g*s)
		dgate[i] = float32(d*u) * float32(s*fma32(g, 1-s, 1))
	}
}

func unpackGo(dst []float32, src []uint16) {
	for i, x := range src {
		dst[i] = F32Of(x)
	}
}

func packGo(dst []uint16, src []float32) {
	for i, x := range src {
		dst[i] = BF16Of(x)
	}
}

func scaleGo(out, x, w []float32, r float32) {
	for i := range x {
		out[i] = float32(x[i]*r) * w[i]
	}
}

func splitGo(w, low []uint16, x []float32) {
	for i, v := range x {
		w[i], low[i] = SplitMaster(v)
	}
}

func joinGo(x []float32, w, low []uint16) {
	for i := range x {
		x[i] = JoinMaster(w[i], low[i])
	}
}

func halveGo(dst []uint16, src []float32, r float32) {
	for i, x := range src {
		dst[i] = float16.Fromfloat32(x * r).Bits()
	}
}

func unhalveGo(dst []float32, src []uint16, r float32) {
	for i, x := range src {
		dst[i] = float16.Frombits(x).Float32() * r
	}
}

func adamWGo(w, m, v, g []float32, c *adamWCoeffs) {
	for i := range w {
		d := float32(g[i] * c.scale)
		m1 := m[i] + float32(c.rest1*(d-m[i]))
		v1 := float32(v[i]*c.beta2) + float32(float32(c.rest2*d)*d)
		root := float32(math.Sqrt(float64(v1))) // rounding the float64 root again gives the float32 root
		den := float32(root/c.bias2) + c.eps
		m[i], v[i] = m1, v1
		w[i] = float32(w[i]*c.decay) - float32(float32(c.step*m1)/den)
	}
}
