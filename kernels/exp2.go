package kernels

import "math"

const (
	log2e = 1.4426950408889634

	// 2^f = 1 + f·(exp2C1 + f·(exp2C2 + ...)) on [-0.5, 0.5]: the minimax polynomial of degree 6 for the relative error
	// with p(0) = 1 (2e-9 before the coefficients and the steps round to float32; less than 1 ulp after).
	exp2C1 float32 = 0x1.62e43p-1
	exp2C2 float32 = 0x1.ebfbdcp-3
	exp2C3 float32 = 0x1.c6aee8p-5
	exp2C4 float32 = 0x1.3b2d4cp-7
	exp2C5 float32 = 0x1.5f3e54p-10
	exp2C6 float32 = 0x1.41fbbcp-13
)

// exp2 is 2^x to 1 ulp, with the same bits as every vector body: x is split into the nearest integer (ties to even) and
// a fraction, the fraction goes through a polynomial of fused steps, and the integer is added to the exponent. Below
// -126 the result is 0, from 128 on +Inf; exp2(0) is exactly 1; NaN stays NaN.
func exp2(x float32) float32 {
	if x < -126 {
		return 0
	}
	x = min(x, 128) // a NaN stays
	n := float32(math.RoundToEven(float64(x)))
	f := x - n
	p := fma32(exp2C6, f, exp2C5)
	p = fma32(p, f, exp2C4)
	p = fma32(p, f, exp2C3)
	p = fma32(p, f, exp2C2)
	p = fma32(p, f, exp2C1)
	p = fma32(p, f, 1)
	if p != p {
		return p
	}
	return math.Float32frombits(math.Float32bits(p) + uint32(int32(n))<<23)
}

// fma32 is a·b + c rounded once.
func fma32(a, b, c float32) float32 { return float32(fmaOdd(a, b, c)) }

// fmaOdd is a·b + c in float64, rounded to odd: an inexact sum has its last bit set. The product is exact, and rounding
// such a sum once more, to at most 51 bits, gives what rounding the exact sum would.
func fmaOdd(a, b, c float32) float64 {
	p, d := float64(float64(a)*float64(b)), float64(c)
	s := p + d
	t := s - p
	e := (p - (s - t)) + (d - t) // what s lacks, exactly; NaN if s is not finite
	if e > 0 || e < 0 {
		bits := math.Float64bits(s)
		if bits&1 == 0 {
			if (e > 0) == (s > 0) {
				bits++
			} else {
				bits--
			}
			s = math.Float64frombits(bits)
		}
	}
	return s
}

// fold adds 16 lanes as a tree: l[j]+l[j+8], then 4 apart, 2 apart, and the last two.
func fold(l *[16]float32) float32 {
	r := *l
	for n := 8; n > 0; n /= 2 {
		for j := range n {
			r[j] += r[j+n]
		}
	}
	return r[0]
}
