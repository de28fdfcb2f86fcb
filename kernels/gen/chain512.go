package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// The rows that chainPanelsAVX512 has in a tile, and its columns.
const (
	chainTall512 = 8
	chainCols512 = 32
)

// chainPanelsAVX512 adds to 32 columns of acc after the other; the last may be fewer. It copies those columns of b to
// the stack: as pairs for vdpbf16ps, else as float32; for bf16 then all of a as well, pairs swapped as for AVX2.
func (g *asm) chainPanelsAVX512(t elem) {
	g.Function("chain" + string(t) + "PanelsAVX512")
	g.SignatureExpr("func(acc *float32, ldc int, a *byte, lda int, b *byte, ldb int, talls, then, last, N, K int)")
	g.Doc("8·talls + then + last rows (together at most 64; then and last are 0 or 4 to 7) of N columns, for at most 128 k",
		"(256 and even for BF16Dot, even for BF16). Strides are in bytes.")
	g.Pragma("noescape")
	const bBytes, aBytes = 128 * chainBlock, 4 * chainRows * chainBlock / 2
	size := bBytes/2 + 64
	if t == bf16 {
		size += aBytes
	}
	c := &chain512{t: t, packed: g.GP64(), acc: g.GP64(), ldc: g.param("ldc"), a: g.GP64(), lda: g.GP64()}
	frame := g.AllocLocal(size)
	accSlot, bSlot, aSlot, nSlot := g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8)
	g.LEAQ(frame.Offset(63), c.packed)
	g.ANDQ(I32(-64), c.packed)
	tmp := g.GP64()
	for _, s := range []struct {
		name string
		slot Mem
	}{{"acc", accSlot}, {"b", bSlot}, {"a", aSlot}, {"N", nSlot}} {
		g.Load(g.Param(s.name), tmp)
		g.MOVQ(tmp, s.slot)
	}
	if t == bf16 {
		g.chainPackA(c.packed, bBytes/2, chainTall512, chainBlock/2)
		g.LEAQ(Mem{Base: c.packed, Disp: bBytes / 2}, tmp)
		g.MOVQ(tmp, aSlot)
		g.MOVQ(U32(4*chainBlock/2), c.lda)
	} else {
		g.Load(g.Param("lda"), c.lda)
	}
	height, after, mask := g.GP64(), g.GP64(), g.GP32()
	g.Label("panel")
	g.MOVL(I32(-1), mask)
	g.MOVL(nSlot, height.As32())
	g.CMPL(height.As32(), Imm(chainCols512))
	g.JGE(LabelRef("full"))
	g.BZHIL(height.As32(), mask, mask)
	g.Label("full")
	g.KMOVW(mask, reg.K1)
	g.SHRL(Imm(16), mask)
	g.KMOVW(mask, reg.K2)
	g.chainPackB512(c, bSlot)
	if t == bf16 {
		g.flushing(true)
	}
	g.MOVQ(accSlot, c.acc)
	g.MOVQ(aSlot, c.a)
	g.Load(g.Param("talls"), height)
	g.TESTQ(height, height)
	g.JZ(LabelRef("low"))
	g.times(height, "tall", func() { g.chainTile512(c, chainTall512) })
	g.Label("low")
	g.Load(g.Param("then"), height)
	g.Load(g.Param("last"), after)
	g.Label("lower")
	for h := 7; h >= 4; h-- {
		g.CMPQ(height, Imm(uint64(h)))
		g.JEQ(LabelRef(fmt.Sprintf("height%d", h)))
	}
	g.JMP(LabelRef("done"))
	for h := 7; h >= 4; h-- {
		g.Label(fmt.Sprintf("height%d", h))
		g.chainTile512(c, h)
		g.MOVQ(after, height)
		g.XORQ(after, after)
		g.JMP(LabelRef("lower"))
	}
	g.Label("done")
	if t == bf16 {
		g.flushing(false)
	}
	g.ADDQ(U32(4*chainCols512), accSlot)
	if t == f32 {
		g.ADDQ(U32(4*chainCols512), bSlot)
	} else {
		g.ADDQ(Imm(2*chainCols512), bSlot)
	}
	g.SUBQ(Imm(chainCols512), nSlot)
	g.JG(LabelRef("panel"))
	g.VZEROUPPER()
	g.RET()
}

type chain512 struct {
	t                        elem
	packed, acc, ldc, a, lda reg.Register
}

func (g *asm) chainPackB512(c *chain512, bSlot Mem) {
	from, ldb, to, n := g.GP64(), g.param("ldb"), g.GP64(), g.GP64()
	g.MOVQ(bSlot, from)
	g.MOVQ(c.packed, to)
	g.Load(g.Param("K"), n)
	ks := []reg.Register{reg.K1, reg.K2}
	if c.t == f32 {
		g.times(n, "packB", func() {
			for i := range 2 {
				g.PREFETCHT1(Mem{Base: from, Disp: 128 + 64*i})
				g.VMOVUPS_Z(Mem{Base: from, Disp: 64 * i}, ks[i], z(i))
				g.VMOVUPS(z(i), Mem{Base: to, Disp: 64 * i})
			}
			g.ADDQ(ldb, from)
			g.ADDQ(U32(128), to)
		})
		return
	}
	g.SHRQ(Imm(1), n)
	g.times(n, "packB", func() {
		next := Mem{Base: from, Index: ldb, Scale: 1}
		g.PREFETCHT1(Mem{Base: from, Disp: 64})
		g.PREFETCHT1(next.Offset(64))
		for i := range 2 {
			g.VPMOVZXWD_Z(Mem{Base: from, Disp: 32 * i}, ks[i], z(0))
			g.VPMOVZXWD_Z(next.Offset(32*i), ks[i], z(1))
			g.VPSLLD(Imm(16), z(1), z(1))
			if c.t == bf16Dot {
				g.VPORD(z(0), z(1), z(0))
				g.VMOVDQU32(z(0), Mem{Base: to, Disp: 64 * i})
				continue
			}
			g.VPSLLD(Imm(16), z(0), z(0))
			g.VMOVDQU32(z(1), Mem{Base: to, Disp: 64 * i})
			g.VMOVDQU32(z(0), Mem{Base: to, Disp: 128 + 64*i})
		}
		g.LEAQ(Mem{Base: from, Index: ldb, Scale: 2}, from)
		if c.t == bf16Dot {
			g.ADDQ(U32(128), to)
		} else {
			g.ADDQ(U32(256), to)
		}
	})
}

// chainTile512 adds to h rows of 32 columns and moves acc and a to the rows below.
func (g *asm) chainTile512(c *chain512, h int) {
	p, p3, p6, pb, n := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	point := func(base, ld reg.Register) {
		g.point(p, p3, base, ld, h)
		if h > 6 {
			g.LEAQ(Mem{Base: p3, Index: ld, Scale: 2}, p6)
			g.ADDQ(ld, p6)
		}
	}
	row := func(m int, ld reg.Register) Mem {
		if m >= 6 {
			return six(p6, p6, ld, m-6)
		}
		return six(p, p3, ld, m)
	}
	ks := []reg.Register{reg.K1, reg.K2}
	point(c.acc, c.ldc)
	for m := range h {
		for i := range 2 {
			g.VMOVUPS_Z(row(m, c.ldc).Offset(64*i), ks[i], z(2*m+i))
		}
	}
	point(c.a, c.lda)
	g.MOVQ(c.packed, pb)
	g.Load(g.Param("K"), n)
	if c.t == bf16Dot {
		g.SHRQ(Imm(1), n)
	}
	g.times(n, "step", func() {
		g.VMOVUPS(Mem{Base: pb}, z(zW))
		g.VMOVUPS(Mem{Base: pb, Disp: 64}, z(zW+1))
		for m := range h {
			a := zX + m%4
			g.VBROADCASTSS(row(m, c.lda), z(a))
			g.step512(c.t, zW, a, 2*m)
			g.step512(c.t, zW+1, a, 2*m+1)
		}
		g.ADDQ(U32(128), pb)
		for i, r := range []reg.Register{p, p3, p6} {
			if h > 3*i {
				g.ADDQ(Imm(4), r)
			}
		}
	})
	point(c.acc, c.ldc)
	for m := range h {
		for i := range 2 {
			g.VMOVUPS(z(2*m+i), ks[i], row(m, c.ldc).Offset(64*i))
		}
	}
	for range h {
		g.ADDQ(c.ldc, c.acc)
		g.ADDQ(c.lda, c.a)
	}
}
