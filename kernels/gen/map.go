package main

import (
	. "github.com/mmcloughlin/avo/operand"
)

// maps writes the elementwise loops and the loop that benchmarks measure the processor's peak with.
func maps(g *asm) {
	g.readAVX2()
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
	g.SignatureExpr("func(x *uint64, n int) uint64")
	g.Doc("Reads n times 256 bytes.")
	g.Pragma("noescape")
	p, n := g.param("x"), g.param("n")
	for i := range 4 {
		g.VXORPS(y(i), y(i), y(i))
	}
	g.times(n, "read", func() {
		for i := range 8 {
			g.VPADDQ(Mem{Base: p, Disp: 32 * i}, y(i%4), y(i%4))
		}
		g.PREFETCHT0(Mem{Base: p, Disp: 4096})
		g.PREFETCHT0(Mem{Base: p, Disp: 4096 + 64})
		g.PREFETCHT0(Mem{Base: p, Disp: 4096 + 128})
		g.PREFETCHT0(Mem{Base: p, Disp: 4096 + 192})
		g.ADDQ(U32(256), p)
	})
	sum := g.GP64()
	for i := range 3 {
		g.VPADDQ(y(i+1), y(0), y(0))
	}
	g.VMOVQ(x(0), sum)
	g.Store(sum, g.ReturnIndex(0))
	g.VZEROUPPER()
	g.RET()
}
