package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
)

// check compares every loop with the plain one on odd shapes and awkward values, in one or two milliseconds. A processor
// that forms other sums, say one whose vdpbf16ps keeps subnormals, gets the next slower loops instead.
func (v *vec) check() error {
	if v == &goVec {
		return nil
	}
	c := checker{v: v, rand: rand.New(rand.NewPCG(1, 2))}
	for _, s := range [][3]int{{1, 9, 96}, {2, 7, 64}, {3, 13, 101}, {6, 7, 544}, {7, 3, 45}} {
		c.dots(s[0], s[1], s[2])
	}
	for _, s := range [][3]int{{1, 67, 8}, {2, 37, 9}, {3, 16, 16}, {7, 35, 6}, {16, 33, 7}, {21, 32, 5}} {
		c.chain(s[0], s[1], s[2])
	}
	c.maps(16)
	c.maps(39)
	return c.err
}

type checker struct {
	v    *vec
	rand *rand.Rand
	err  error
}

// values are normal numbers of all sizes whose products cross the smallest normal number, subnormals and zeros.
func (c *checker) values(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		u := c.rand.Uint32()
		switch u % 8 {
		case 0:
			u &= 0x80ffffff
		case 1:
			u &= 0x80000000
		default:
			u = u&0x807fffff | (64-20+u>>23%40)<<23 // 2^-83 to 2^-44
			if c.rand.Uint32()%2 == 0 {
				u += 60 << 23
			}
		}
		x[i] = math.Float32frombits(u)
	}
	return x
}

func (c *checker) halves(n int) []uint16 {
	x := make([]uint16, n)
	for i, f := range c.values(n) {
		x[i] = uint16(math.Float32bits(f) >> 16)
	}
	return x
}

func (c *checker) same(loop string, got, want []float32) {
	for i := range want {
		if g, w := math.Float32bits(got[i]), math.Float32bits(want[i]); g != w && c.err == nil {
			c.err = fmt.Errorf("self-test of %s: element %d of %d is %#08x, want %#08x", loop, i, len(want), g, w)
		}
	}
}

func (c *checker) dots(M, N, K int) {
	ldx, ldw := K+1, K+3
	got, want := make([]float32, M*N), make([]float32, M*N)
	xh, wh := c.halves(M*ldx), c.halves(N*ldw)
	goVec.dotsBF16(want, N, xh, ldx, wh, ldw, M, N, K)
	c.v.dotsBF16(got, N, xh, ldx, wh, ldw, M, N, K)
	c.same("dotsBF16", got, want)
	xf, wf := c.values(M*ldx), c.values(N*ldw)
	goVec.dotsF32(want, N, xf, ldx, wf, ldw, M, N, K)
	c.v.dotsF32(got, N, xf, ldx, wf, ldw, M, N, K)
	c.same("dotsF32", got, want)
}

func (c *checker) chain(M, N, K int) {
	lda, ldb := K+1, N+3
	start := c.values(M * N)
	got, want := append([]float32{}, start...), append([]float32{}, start...)
	ah, bh := c.halves(M*lda), c.halves(K*ldb)
	goVec.chainBF16(want, N, ah, lda, bh, ldb, M, N, K)
	c.v.chainBF16(got, N, ah, lda, bh, ldb, M, N, K)
	c.same("chainBF16", got, want)
	af, bf := c.values(M*lda), c.values(K*ldb)
	goVec.chainF32(want, N, af, lda, bf, ldb, M, N, K)
	c.v.chainF32(got, N, af, lda, bf, ldb, M, N, K)
	c.same("chainF32", got, want)
}

// maps checks the elementwise loops on n elements.
func (c *checker) maps(n int) {
	x, y, wide := c.values(n), c.values(n), c.values(n)
	for i := range wide {
		wide[i] = float32(i-n/2) * 9.7 // exp2 from 0 to infinity
	}
	co := adamWCoeffs{0.5, 0.999, 0.1, 0.95, 0.05, 0.3, 1e-8, 1e-3}
	run := func(v *vec) [][]float32 {
		var outs [][]float32
		for range 8 {
			outs = append(outs, append([]float32{}, y...))
		}
		var sum [16]float32
		v.exp2Sum(outs[0], wide, 0.99, -0.5, &sum)
		outs = append(outs, sum[:])
		v.silu(outs[1], wide, y)
		v.siluBackward(outs[2], outs[3], x, wide, y)
		h := make([]uint16, n)
		v.pack(h, x)
		v.unpack(outs[4], h)
		v.scale(outs[5], x, y, 1.7)
		for i := range y {
			outs[6][i] = float32(math.Abs(float64(outs[6][i]))) // second moments
		}
		v.adamW(outs[7], outs[5], outs[6], x, &co)
		for _, of := range [][]float32{x, outs[7], wide} {
			low, joined, again := make([]uint16, n), make([]float32, n), make([]float32, n)
			v.split(h, low, of)
			v.join(joined, h, low)
			v.halve(low, of, 0x1p60)
			v.unhalve(again, low, 0x1p-60)
			outs = append(outs, joined, again)
		}
		return outs
	}
	got, want := run(c.v), run(&goVec)
	names := []string{"exp2Sum", "silu", "siluBackward", "siluBackward", "pack or unpack", "scale or adamW", "adamW", "adamW", "exp2Sum's lanes"}
	for i := range want {
		name := "split, join, halve or unhalve"
		if i < len(names) {
			name = names[i]
		}
		c.same(name, got[i], want[i])
	}
}
