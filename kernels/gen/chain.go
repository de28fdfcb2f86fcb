package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// chain writes the loops of vec.chainBF16 and vec.chainF32: tiles of rows times units of 16 columns.
func chain(g *asm) {
	for _, t := range []elem{bf16, f32} {
		for _, tile := range [][2]int{{6, 1}, {5, 1}, {4, 1}, {3, 1}, {2, 1}, {1, 1}, {2, 2}, {1, 4}} {
			g.chainTileAVX2(t, tile[0], tile[1])
		}
	}
}

// chainTileAVX2 adds to mr rows and 16·c columns of acc, tiles times down the rows. A step is a pair of k (BF16) or one k
// (F32). For BF16 the even columns of a unit are one register and the odd ones another, since that is how and and shift
// take the elements of b apart.
func (g *asm) chainTileAVX2(t elem, mr, c int) {
	g.Function(fmt.Sprintf("chain%sTile%dx%dAVX2", t, mr, 16*c))
	g.SignatureExpr("func(acc *float32, ldc int, a *byte, lda int, b *byte, ldb int, tiles, steps int)")
	g.Doc(fmt.Sprintf("%d rows and %d columns, tiles times down the rows. Strides are in bytes.", mr, 16*c))
	g.Pragma("noescape")
	acc, ldc := g.param("acc"), g.param("ldc")
	a, lda := g.param("a"), g.param("lda")
	b, ldb, tiles := g.param("b"), g.param("ldb"), g.param("tiles")
	p, p3, pb, n := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	row := func(base, base3, ld reg.Register, m int) Mem {
		at := Mem{Base: base}
		if m >= 3 {
			at.Base = base3
		}
		if m%3 > 0 {
			at.Index, at.Scale = ld, uint8(m%3)
		}
		return at
	}
	third := func(base, ld reg.Register) {
		g.MOVQ(base, p)
		if mr > 3 {
			g.LEAQ(Mem{Base: base, Index: ld, Scale: 2}, p3)
			g.ADDQ(ld, p3)
		}
	}
	if t == bf16 {
		g.VMOVDQU(g.u32("high", 8, 0xffff0000), y(15))
		g.flushing(true)
	}
	at := func(m, i int) int { return 2 * (m*c + i) }
	g.Label("tile")
	third(acc, ldc)
	for m := range mr {
		for i := range c {
			g.chainLoad(t, row(p, p3, ldc, m).Offset(64*i), at(m, i))
		}
	}
	third(a, lda)
	g.MOVQ(b, pb)
	g.Load(g.Param("steps"), n)
	g.times(n, "step", func() {
		if t == bf16 {
			for _, odd := range []bool{true, false} {
				g.chainStepBF16(mr, c, odd, func(m int) Mem { return row(p, p3, lda, m) }, pb, ldb, at)
			}
			g.LEAQ(Mem{Base: pb, Index: ldb, Scale: 2}, pb)
		} else {
			g.chainStepF32(mr, c, func(m int) Mem { return row(p, p3, lda, m) }, pb, at)
			g.ADDQ(ldb, pb)
		}
		g.ADDQ(Imm(4), p)
		if mr > 3 {
			g.ADDQ(Imm(4), p3)
		}
	})
	third(acc, ldc)
	for m := range mr {
		for i := range c {
			g.chainStore(t, row(p, p3, ldc, m).Offset(64*i), at(m, i))
		}
	}
	for range mr {
		g.ADDQ(ldc, acc)
		g.ADDQ(lda, a)
	}
	g.DECQ(tiles)
	g.JNZ(LabelRef("tile"))
	if t == bf16 {
		g.flushing(false)
	}
	g.VZEROUPPER()
	g.RET()
}

// chainStepBF16 is half a step: the odd k of a pair, then the even one. y12 and y13 are b's even and odd columns, y14 and
// for two rows y11 are a.
func (g *asm) chainStepBF16(mr, c int, odd bool, a func(m int) Mem, pb, ldb reg.Register, at func(m, i int) int) {
	part := func(src Mem, dst reg.Register, high bool) {
		if high {
			g.VPAND(src, y(15), dst)
			return
		}
		g.VMOVDQU(src, dst)
		g.VPSLLD(Imm(16), dst, dst)
	}
	spread := func(m int, dst reg.Register) {
		g.VPBROADCASTD(a(m), dst)
		if odd {
			g.VPAND(dst, y(15), dst)
		} else {
			g.VPSLLD(Imm(16), dst, dst)
		}
	}
	as := []reg.Register{y(14), y(11)}
	if mr <= 2 {
		for m := range mr {
			spread(m, as[m])
		}
	}
	for i := range c {
		bm := Mem{Base: pb, Disp: 32 * i}
		if odd {
			bm.Index, bm.Scale = ldb, 1
		}
		part(bm, y(12), false)
		part(bm, y(13), true)
		for m := range mr {
			am := as[0]
			if mr <= 2 {
				am = as[m]
			} else {
				spread(m, am)
			}
			g.VFMADD231PS(y(12), am, y(at(m, i)))
			g.VFMADD231PS(y(13), am, y(at(m, i)+1))
		}
	}
}

func (g *asm) chainStepF32(mr, c int, a func(m int) Mem, pb reg.Register, at func(m, i int) int) {
	as := []reg.Register{y(14), y(15)}
	if mr <= 2 {
		for m := range mr {
			g.VBROADCASTSS(a(m), as[m])
		}
	}
	for i := range c {
		g.VMOVUPS(Mem{Base: pb, Disp: 64 * i}, y(12))
		g.VMOVUPS(Mem{Base: pb, Disp: 64*i + 32}, y(13))
		for m := range mr {
			am := as[m%2]
			if mr > 2 {
				g.VBROADCASTSS(a(m), am)
			}
			g.VFMADD231PS(y(12), am, y(at(m, i)))
			g.VFMADD231PS(y(13), am, y(at(m, i)+1))
		}
	}
}

func (g *asm) chainLoad(t elem, m Mem, r int) {
	if t == f32 {
		g.VMOVUPS(m, y(r))
		g.VMOVUPS(m.Offset(32), y(r+1))
		return
	}
	g.VMOVUPS(m, y(12))
	g.VMOVUPS(m.Offset(32), y(13))
	g.VSHUFPS(Imm(0x88), y(13), y(12), y(r))
	g.VSHUFPS(Imm(0xdd), y(13), y(12), y(r+1))
	g.VPERMPD(Imm(0xd8), y(r), y(r))
	g.VPERMPD(Imm(0xd8), y(r+1), y(r+1))
}

func (g *asm) chainStore(t elem, m Mem, r int) {
	if t == f32 {
		g.VMOVUPS(y(r), m)
		g.VMOVUPS(y(r+1), m.Offset(32))
		return
	}
	g.VUNPCKLPS(y(r+1), y(r), y(12))
	g.VUNPCKHPS(y(r+1), y(r), y(13))
	g.VPERM2F128(Imm(0x20), y(13), y(12), y(r))
	g.VPERM2F128(Imm(0x31), y(13), y(12), y(r+1))
	g.VMOVUPS(y(r), m)
	g.VMOVUPS(y(r+1), m.Offset(32))
}
