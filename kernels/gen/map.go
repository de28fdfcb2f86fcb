package main

import (
	"math"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// maps writes the elementwise loops, 16 elements at a time, and the loops that benchmarks measure the processor with.
func maps(g *asm) {
	g.exp2SumAVX2()
	g.siluAVX2()
	g.siluBackwardAVX2()
	g.packAVX2()
	g.unpackAVX2()
	g.scaleAVX2()
	g.splitAVX2()
	g.joinAVX2()
	g.halveAVX2()
	g.unhalveAVX2()
	g.adamWAVX2()
	g.fmaPeakAVX2()
	g.fmaPeakAVX512()
	g.dotPeakAVX512()
	g.readAVX2()
}

// The coefficients of exp2.go, the lowest first.
var exp2C = []float32{1, 0x1.62e43p-1, 0x1.ebfbdcp-3, 0x1.c6aee8p-5, 0x1.3b2d4cp-7, 0x1.5f3e54p-10, 0x1.41fbbcp-13}

func (g *asm) f32(name string, x float32) Mem { return g.u32(name, 8, math.Float32bits(x)) }

// each begins a function over pointers of the given names and counts of 16 elements; body gets the operand of element
// 8·half of a pointer with elements of size bytes.
func (g *asm) each(names []string, sizes []int, body func(at func(ptr, half int) Mem)) {
	ptrs := make([]reg.Register, len(names))
	for i, n := range names {
		ptrs[i] = g.param(n)
	}
	n := g.param("n")
	g.times(n, "next", func() {
		body(func(ptr, half int) Mem { return Mem{Base: ptrs[ptr], Disp: 8 * sizes[ptr] * half} })
		for i, p := range ptrs {
			g.ADDQ(Imm(uint64(16*sizes[i])), p)
		}
	})
	g.VZEROUPPER()
	g.RET()
}

func (g *asm) begin(name, params, doc string) {
	g.Function(name)
	g.SignatureExpr("func(" + params + ")")
	g.Doc(doc)
	g.Pragma("noescape")
}

// exp2 replaces y(r) by its power of two; y(p), y(i) and y(mask) are used up.
func (g *asm) exp2(r, p, i, mask int) {
	g.VCMPPS(Imm(5), g.f32("exp2Low", -126), y(r), y(mask)) // not less than: a NaN stays
	g.VMOVUPS(g.f32("exp2High", 128), y(p))
	g.VMINPS(y(r), y(p), y(r)) // of a NaN and a number the second operand, here the last but one
	g.VROUNDPS(Imm(8), y(r), y(i))
	g.VSUBPS(y(i), y(r), y(r))
	g.VCVTPS2DQ(y(i), y(i))
	g.VPSLLD(Imm(23), y(i), y(i))
	g.VMOVUPS(g.f32("exp2C6", exp2C[6]), y(p))
	for k := 5; k >= 0; k-- {
		g.VFMADD213PS(g.f32("exp2C"+string(rune('0'+k)), exp2C[k]), y(r), y(p))
	}
	g.VPADDD(y(i), y(p), y(p))
	g.VPAND(y(mask), y(p), y(r))
}

func (g *asm) exp2SumAVX2() {
	g.begin("exp2SumAVX2", "p, s *float32, c, b float32, sum *float32, n int", "16 elements n times.")
	sum := g.param("sum")
	g.VMOVUPS(Mem{Base: sum}, y(14))
	g.VMOVUPS(Mem{Base: sum, Disp: 32}, y(15))
	for i, name := range []string{"c", "b"} {
		m, err := g.Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		g.VBROADCASTSS(m.Addr, y(12+i))
	}
	p, s, n := g.param("p"), g.param("s"), g.param("n")
	g.times(n, "next", func() {
		for half := range 2 {
			r := 4 * half
			g.VMOVUPS(Mem{Base: s, Disp: 32 * half}, y(r))
			g.VFMADD213PS(y(13), y(12), y(r))
			g.exp2(r, r+1, r+2, r+3)
			g.VMOVUPS(y(r), Mem{Base: p, Disp: 32 * half})
			g.VADDPS(y(r), y(14+half), y(14+half))
		}
		g.ADDQ(Imm(64), s)
		g.ADDQ(Imm(64), p)
	})
	g.VMOVUPS(y(14), Mem{Base: sum})
	g.VMOVUPS(y(15), Mem{Base: sum, Disp: 32})
	g.VZEROUPPER()
	g.RET()
}

const (
	minusLog2e = -1.4426950408889634
)

func (g *asm) siluAVX2() {
	g.begin("siluAVX2", "out, gate, up *float32, n int", "16 elements n times.")
	g.VMOVUPS(g.f32("exp2C0", 1), y(15))
	g.each([]string{"out", "gate", "up"}, []int{4, 4, 4}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			r := 6 * h
			g.VMOVUPS(at(1, h), y(r+4))
			g.VMULPS(g.f32("minusLog2e", minusLog2e), y(r+4), y(r))
			g.exp2(r, r+1, r+2, r+3)
			g.VADDPS(y(r), y(15), y(r))
			g.VDIVPS(y(r), y(r+4), y(r))
			g.VMULPS(at(2, h), y(r), y(r))
			g.VMOVUPS(y(r), at(0, h))
		}
	})
}

func (g *asm) siluBackwardAVX2() {
	g.begin("siluBackwardAVX2", "dgate, dup, dout, gate, up *float32, n int", "16 elements n times.")
	g.VMOVUPS(g.f32("exp2C0", 1), y(15))
	g.each([]string{"dgate", "dup", "dout", "gate", "up"}, []int{4, 4, 4, 4, 4}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			s, g0, d, u := 7*h, 7*h+4, 7*h+5, 7*h+6
			g.VMOVUPS(at(3, h), y(g0))
			g.VMOVUPS(at(2, h), y(d))
			g.VMOVUPS(at(4, h), y(u))
			g.VMULPS(g.f32("minusLog2e", minusLog2e), y(g0), y(s))
			g.exp2(s, s+1, s+2, s+3)
			g.VADDPS(y(s), y(15), y(s))
			g.VDIVPS(y(s), y(15), y(s))
			g.VMULPS(y(s), y(g0), y(s+1)) // gate·s
			g.VMULPS(y(s+1), y(d), y(s+1))
			g.VMULPS(y(u), y(d), y(d)) // dout·up
			g.VSUBPS(y(s), y(15), y(s+2))
			g.VFMADD213PS(y(15), y(g0), y(s+2)) // gate·(1-s) + 1
			g.VMULPS(y(s+2), y(s), y(s))
			g.VMULPS(y(s), y(d), y(s))
			g.VMOVUPS(y(s+1), at(1, h))
			g.VMOVUPS(y(s), at(0, h))
		}
	})
}

func (g *asm) packAVX2() {
	g.begin("packAVX2", "dst *uint16, src *float32, n int", "16 elements n times.")
	g.VMOVDQU(g.u32("one", 8, 1), y(13))
	g.VMOVDQU(g.u32("half", 8, 0x7fff), y(14))
	g.VMOVDQU(g.u32("quiet", 8, 0x40), y(15))
	g.each([]string{"dst", "src"}, []int{2, 4}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			r := 4 * h
			g.VMOVUPS(at(1, h), y(r))
			g.VCMPPS(Imm(3), y(r), y(r), y(r+3)) // NaN
			g.VPSRLD(Imm(16), y(r), y(r+1))
			g.VPAND(y(13), y(r+1), y(r+2))
			g.VPOR(y(15), y(r+1), y(r+1)) // the NaN's result
			g.VPADDD(y(14), y(r), y(r))
			g.VPADDD(y(r+2), y(r), y(r))
			g.VPSRLD(Imm(16), y(r), y(r))
			g.VPBLENDVB(y(r+3), y(r+1), y(r), y(r))
		}
		g.VPACKUSDW(y(4), y(0), y(0))
		g.VPERMQ(Imm(0xd8), y(0), y(0))
		g.VMOVDQU(y(0), at(0, 0))
	})
}

func (g *asm) unpackAVX2() {
	g.begin("unpackAVX2", "dst *float32, src *uint16, n int", "16 elements n times.")
	g.each([]string{"dst", "src"}, []int{4, 2}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			g.VPMOVZXWD(at(1, h), y(h))
			g.VPSLLD(Imm(16), y(h), y(h))
			g.VMOVDQU(y(h), at(0, h))
		}
	})
}

func (g *asm) scaleAVX2() {
	g.begin("scaleAVX2", "out, x, w *float32, r float32, n int", "16 elements n times.")
	g.VBROADCASTSS(g.mem("r"), y(15))
	g.each([]string{"out", "x", "w"}, []int{4, 4, 4}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			g.VMULPS(at(1, h), y(15), y(h))
			g.VMULPS(at(2, h), y(h), y(h))
			g.VMOVUPS(y(h), at(0, h))
		}
	})
}

// splitAVX2 rounds half up by an addition; a NaN, which that could make a zero, keeps its upper half and turns quiet.
func (g *asm) splitAVX2() {
	g.begin("splitAVX2", "w, low *uint16, x *float32, n int", "16 elements n times.")
	g.VMOVDQU(g.u32("lowHalf", 8, 0xffff), y(13))
	g.VMOVDQU(g.u32("round", 8, 0x8000), y(14))
	g.VMOVDQU(g.u32("quiet", 8, 0x40), y(15))
	g.each([]string{"w", "low", "x"}, []int{2, 2, 4}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			x, nan, t := y(4*h), y(4*h+1), y(4*h+2)
			g.VMOVUPS(at(2, h), x)
			g.VCMPPS(Imm(3), x, x, nan)
			g.VPSRLD(Imm(16), x, t)
			g.VPOR(y(15), t, t)
			g.VPAND(y(13), x, y(4*h+3))
			g.VPADDD(y(14), x, x)
			g.VPSRLD(Imm(16), x, x)
			g.VPBLENDVB(nan, t, x, x)
		}
		for i, to := range []int{0, 3} {
			g.VPACKUSDW(y(4+to), y(to), y(to))
			g.VPERMQ(Imm(0xd8), y(to), y(to))
			g.VMOVDQU(y(to), at(i, 0))
		}
	})
}

func (g *asm) joinAVX2() {
	g.begin("joinAVX2", "x *float32, w, low *uint16, n int", "16 elements n times.")
	g.each([]string{"x", "w", "low"}, []int{4, 2, 2}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			w, low, nan := y(4*h), y(4*h+1), y(4*h+2)
			g.VPMOVZXWD(at(1, h), w)
			g.VPSLLD(Imm(16), w, w)
			g.VCMPPS(Imm(3), w, w, nan)
			g.VPMOVZXWD(at(2, h), y(4*h+3))
			g.VPOR(y(4*h+3), w, y(4*h+3))
			g.VPMOVSXWD(at(2, h), low)
			g.VPADDD(low, w, w)
			g.VPBLENDVB(nan, y(4*h+3), w, w)
			g.VMOVDQU(w, at(0, h))
		}
	})
}

func (g *asm) halveAVX2() {
	g.begin("halveAVX2", "dst *uint16, src *float32, r float32, n int", "16 elements n times.")
	g.VBROADCASTSS(g.mem("r"), y(15))
	g.each([]string{"dst", "src"}, []int{2, 4}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			g.VMULPS(at(1, h), y(15), y(h))
			g.VCVTPS2PH(Imm(0), y(h), at(0, h))
		}
	})
}

func (g *asm) unhalveAVX2() {
	g.begin("unhalveAVX2", "dst *float32, src *uint16, r float32, n int", "16 elements n times.")
	g.VBROADCASTSS(g.mem("r"), y(15))
	g.each([]string{"dst", "src"}, []int{4, 2}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			g.VCVTPH2PS(at(1, h), y(h))
			g.VMULPS(y(15), y(h), y(h))
			g.VMOVUPS(y(h), at(0, h))
		}
	})
}

// mem is where a parameter lies.
func (g *asm) mem(name string) Mem {
	m, err := g.Param(name).Resolve()
	if err != nil {
		panic(err)
	}
	return m.Addr
}

// adamWAVX2 takes adamWCoeffs as 8 floats in the order of its fields.
func (g *asm) adamWAVX2() {
	g.begin("adamWAVX2", "w, m, v, grad, c *float32, n int", "16 elements n times.")
	c := g.param("c")
	for i := range 8 {
		g.VBROADCASTSS(Mem{Base: c, Disp: 4 * i}, y(8+i))
	}
	scale, decay, rest1, beta2, rest2, bias2, eps, step := y(8), y(9), y(10), y(11), y(12), y(13), y(14), y(15)
	g.each([]string{"w", "m", "v", "grad"}, []int{4, 4, 4, 4}, func(at func(ptr, half int) Mem) {
		for h := range 2 {
			d, m, v, t := y(4*h), y(4*h+1), y(4*h+2), y(4*h+3)
			g.VMULPS(at(3, h), scale, d)
			g.VMOVUPS(at(1, h), m)
			g.VSUBPS(m, d, t)
			g.VMULPS(t, rest1, t)
			g.VADDPS(t, m, m)
			g.VMOVUPS(m, at(1, h))
			g.VMULPS(at(2, h), beta2, v)
			g.VMULPS(d, rest2, t)
			g.VMULPS(d, t, t)
			g.VADDPS(t, v, v)
			g.VMOVUPS(v, at(2, h))
			g.VSQRTPS(v, v)
			g.VDIVPS(bias2, v, v)
			g.VADDPS(eps, v, v)
			g.VMULPS(m, step, m)
			g.VDIVPS(v, m, m)
			g.VMULPS(at(0, h), decay, t)
			g.VSUBPS(m, t, t)
			g.VMOVUPS(t, at(0, h))
		}
	})
}

func (g *asm) fmaPeakAVX2() {
	g.Function("fmaPeakAVX2")
	g.SignatureExpr("func(n int)")
	g.Doc("n times 12 independent FMAs of 8 lanes.")
	n := g.param("n")
	for i := range 14 {
		g.VXORPS(y(i), y(i), y(i))
	}
	g.times(n, "fma", func() {
		for i := range 12 {
			g.VFMADD231PS(y(12), y(13), y(i))
		}
	})
	g.VZEROUPPER()
	g.RET()
}

func (g *asm) readAVX2() {
	g.Function("readAVX2")
	g.SignatureExpr("func(x *byte, n int) uint64")
	g.Doc("Reads n times 256 bytes and nothing else; the sum keeps the reads alive.")
	g.Pragma("noescape")
	p, n, sum := g.param("x"), g.param("n"), g.GP64()
	for i := range 4 {
		g.VXORPS(y(i), y(i), y(i))
	}
	g.times(n, "read", func() {
		for i := range 4 {
			g.PREFETCHT0(Mem{Base: p, Disp: 4096 + 64*i})
		}
		for i := range 8 {
			g.VPADDQ(Mem{Base: p, Disp: 32 * i}, y(i%4), y(i%4))
		}
		g.ADDQ(U32(256), p)
	})
	for i := range 3 {
		g.VPADDQ(y(i+1), y(0), y(0))
	}
	g.VMOVQ(x(0), sum)
	g.Store(sum, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
}

func (g *asm) fmaPeakAVX512() {
	g.Function("fmaPeakAVX512")
	g.SignatureExpr("func(n int)")
	g.Doc("n times 24 independent FMAs of 16 lanes.")
	n := g.param("n")
	for i := range 26 {
		g.VPXORD(z(i), z(i), z(i))
	}
	g.times(n, "fma", func() {
		for i := range 24 {
			g.VFMADD231PS(z(24), z(25), z(i))
		}
	})
	g.VZEROUPPER()
	g.RET()
}

func (g *asm) dotPeakAVX512() {
	g.Function("dotPeakAVX512")
	g.SignatureExpr("func(n int)")
	g.Doc("n times 24 independent vdpbf16ps of 16 lanes.")
	n := g.param("n")
	for i := range 26 {
		g.VPXORD(z(i), z(i), z(i))
	}
	g.times(n, "dot", func() {
		for i := range 24 {
			g.dpbf16(24, 25, i)
		}
	})
	g.VZEROUPPER()
	g.RET()
}
