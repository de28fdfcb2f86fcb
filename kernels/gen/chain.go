package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// chain writes the loops of vec.chainBF16 and vec.chainF32.
func chain(g *asm) {
	for _, t := range []elem{bf16, f32} {
		g.chainPanelsAVX2(t)
		for _, tile := range [][2]int{{6, 1}, {5, 1}, {4, 1}, {3, 1}, {2, 1}, {1, 1}, {2, 2}, {1, 4}} {
			g.chainTileAVX2(t, tile[0], tile[1])
		}
	}
	for _, t := range []elem{bf16Dot, bf16, f32} {
		g.chainPanelsAVX512(t)
	}
}

// six is row m of up to 6 from base on; base3 is base + 3·ld.
func six(base, base3, ld reg.Register, m int) Mem {
	at := Mem{Base: base}
	if m >= 3 {
		at.Base = base3
	}
	if m%3 > 0 {
		at.Index, at.Scale = ld, uint8(m%3)
	}
	return at
}

// point sets p to base and, if there are rows for it, p3 to base + 3·ld.
func (g *asm) point(p, p3, base, ld reg.Register, rows int) {
	g.MOVQ(base, p)
	if rows > 3 {
		g.LEAQ(Mem{Base: base, Index: ld, Scale: 2}, p3)
		g.ADDQ(ld, p3)
	}
}

// chainTileAVX2 adds to mr rows and 16·c columns of acc, then to the next tile, as often as tiles says. A step is a pair
// of k (BF16) or one k (F32). For BF16 the even columns of 16 are one register and the odd ones another, since that is
// how and and shift take the elements of b apart.
func (g *asm) chainTileAVX2(t elem, mr, c int) {
	g.Function(fmt.Sprintf("chain%sTile%dx%dAVX2", t, mr, 16*c))
	g.SignatureExpr("func(acc *float32, ldc int, a *byte, lda int, b *byte, ldb int, tiles, steps int)")
	g.Doc(fmt.Sprintf("%d rows and %d columns, tiles times to the right. Strides are in bytes.", mr, 16*c))
	g.Pragma("noescape")
	acc, ldc := g.param("acc"), g.param("ldc")
	a, lda := g.param("a"), g.param("lda")
	b, ldb, tiles := g.param("b"), g.param("ldb"), g.param("tiles")
	p, p3, pb, n := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	if t == bf16 {
		g.VMOVDQU(g.u32("high", 8, 0xffff0000), y(15))
		g.flushing(true)
	}
	at := func(m, i int) int { return 2 * (m*c + i) }
	g.Label("tile")
	g.point(p, p3, acc, ldc, mr)
	for m := range mr {
		for i := range c {
			g.chainLoad(t, six(p, p3, ldc, m).Offset(64*i), at(m, i))
		}
	}
	g.point(p, p3, a, lda, mr)
	g.MOVQ(b, pb)
	g.Load(g.Param("steps"), n)
	g.times(n, "step", func() {
		if t == bf16 {
			for _, odd := range []bool{true, false} {
				g.chainStepBF16(mr, c, odd, func(m int) Mem { return six(p, p3, lda, m) }, pb, ldb, at)
			}
			g.LEAQ(Mem{Base: pb, Index: ldb, Scale: 2}, pb)
		} else {
			g.chainStepF32(mr, c, func(m int) Mem { return six(p, p3, lda, m) }, Mem{Base: pb}, at)
			g.ADDQ(ldb, pb)
		}
		g.ADDQ(Imm(4), p)
		if mr > 3 {
			g.ADDQ(Imm(4), p3)
		}
	})
	g.point(p, p3, acc, ldc, mr)
	for m := range mr {
		for i := range c {
			g.chainStore(t, six(p, p3, ldc, m).Offset(64*i), at(m, i))
		}
	}
	g.ADDQ(U32(uint32(64*c)), acc)
	if t == bf16 {
		g.ADDQ(U32(uint32(32*c)), b)
	} else {
		g.ADDQ(U32(uint32(64*c)), b)
	}
	g.DECQ(tiles)
	g.JNZ(LabelRef("tile"))
	if t == bf16 {
		g.flushing(false)
	}
	g.VZEROUPPER()
	g.RET()
}

// What one call of chainPanels holds on its stack.
const (
	chainRows  = 64
	chainBlock = 256 // k
)

// chainPanelsAVX2 adds to 16 columns of acc after the other, many rows of them. It copies those columns of b, and for
// BF16 all of a, to the stack as float32; BF16's pairs swap places, odd k first, so that the loop is that of F32.
func (g *asm) chainPanelsAVX2(t elem) {
	g.Function("chain" + string(t) + "PanelsAVX2")
	g.SignatureExpr("func(acc *float32, ldc int, a *byte, lda int, b *byte, ldb int, talls, then, last, panels, K int)")
	g.Doc("6·talls + then + last rows (together at most 64; then and last are 0, 3, 4 or 5) of panels times 16 columns, for",
		"at most 256 k (even for BF16). Strides are in bytes.")
	g.Pragma("noescape")
	const bBytes, aBytes = 64 * chainBlock, 4 * chainRows * chainBlock
	size := bBytes + 64
	if t == bf16 {
		size += aBytes
	}
	frame := g.AllocLocal(size)
	accSlot, bSlot, aSlot, panelSlot := g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8), g.AllocLocal(8)
	packed, ldc, lda := g.GP64(), g.param("ldc"), g.GP64()
	g.LEAQ(frame.Offset(63), packed)
	g.ANDQ(I32(-64), packed)
	tmp := g.GP64()
	for _, s := range []struct {
		name string
		slot Mem
	}{{"acc", accSlot}, {"b", bSlot}, {"a", aSlot}, {"panels", panelSlot}} {
		g.Load(g.Param(s.name), tmp)
		g.MOVQ(tmp, s.slot)
	}
	if t == bf16 {
		g.chainPackA(packed, bBytes, 6, chainBlock)
		g.LEAQ(Mem{Base: packed, Disp: bBytes}, tmp)
		g.MOVQ(tmp, aSlot)
		g.MOVQ(U32(4*chainBlock), lda)
	} else {
		g.Load(g.Param("lda"), lda)
	}
	acc, a, height, after := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.Label("panel")
	g.chainPackB(t, packed, bSlot)
	if t == bf16 {
		g.flushing(true)
	}
	g.MOVQ(accSlot, acc)
	g.MOVQ(aSlot, a)
	g.Load(g.Param("talls"), height)
	g.TESTQ(height, height)
	g.JZ(LabelRef("low"))
	g.times(height, "six", func() { g.chainTall(6, acc, ldc, a, lda, packed) })
	g.Label("low")
	g.Load(g.Param("then"), height)
	g.Load(g.Param("last"), after)
	g.Label("lower")
	for h := 5; h >= 3; h-- {
		g.CMPQ(height, Imm(uint64(h)))
		g.JEQ(LabelRef(fmt.Sprintf("height%d", h)))
	}
	g.JMP(LabelRef("done"))
	for h := 5; h >= 3; h-- {
		g.Label(fmt.Sprintf("height%d", h))
		g.chainTall(h, acc, ldc, a, lda, packed)
		g.MOVQ(after, height)
		g.XORQ(after, after)
		g.JMP(LabelRef("lower"))
	}
	g.Label("done")
	if t == bf16 {
		g.flushing(false)
	}
	g.ADDQ(Imm(64), accSlot)
	if t == bf16 {
		g.ADDQ(Imm(32), bSlot)
	} else {
		g.ADDQ(Imm(64), bSlot)
	}
	g.DECQ(panelSlot)
	g.JNZ(LabelRef("panel"))
	g.VZEROUPPER()
	g.RET()
}

// chainTall adds to h rows of 16 columns and moves acc and a to the rows below.
func (g *asm) chainTall(h int, acc, ldc, a, lda, packed reg.Register) {
	p, p3, pb, n := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	at := func(m, i int) int { return 2 * m }
	g.point(p, p3, acc, ldc, h)
	for m := range h {
		g.chainLoad(f32, six(p, p3, ldc, m), 2*m)
	}
	g.point(p, p3, a, lda, h)
	g.MOVQ(packed, pb)
	g.Load(g.Param("K"), n)
	g.SHRQ(Imm(1), n)
	step := func(i int) {
		g.chainStepF32(h, 1, func(m int) Mem { return six(p, p3, lda, m).Offset(4 * i) }, Mem{Base: pb, Disp: 64 * i}, at)
	}
	one, store := g.label("one"), g.label("store")
	g.JZ(LabelRef(one))
	g.times(n, "two", func() {
		step(0)
		step(1)
		g.ADDQ(U32(128), pb)
		g.ADDQ(Imm(8), p)
		if h > 3 {
			g.ADDQ(Imm(8), p3)
		}
	})
	g.Label(one)
	g.Load(g.Param("K"), n)
	g.TESTQ(U32(1), n)
	g.JZ(LabelRef(store))
	step(0)
	g.Label(store)
	g.point(p, p3, acc, ldc, h)
	for m := range h {
		g.chainStore(f32, six(p, p3, ldc, m), 2*m)
	}
	for range h {
		g.ADDQ(ldc, acc)
		g.ADDQ(lda, a)
	}
}

// chainPackA copies a as float32 to packed+disp, in rows of block k, pairs swapped. The rows are those of tall tiles and
// then and last.
func (g *asm) chainPackA(packed reg.Register, disp, tall, block int) {
	rows, a, lda, to := g.param("talls"), g.param("a"), g.param("lda"), g.GP64()
	from, at, n := g.GP64(), g.GP64(), g.GP64()
	g.IMUL3Q(Imm(uint64(tall)), rows, rows)
	for _, name := range []string{"then", "last"} {
		m, err := g.Param(name).Resolve()
		if err != nil {
			panic(err)
		}
		g.ADDQ(m.Addr, rows)
	}
	g.LEAQ(Mem{Base: packed, Disp: disp}, to)
	g.times(rows, "rowA", func() {
		eights, pairs := g.label("eights"), g.label("pairs")
		rest, end := g.label("rest"), g.label("end")
		g.MOVQ(a, from)
		g.MOVQ(to, at)
		g.Load(g.Param("K"), n)
		g.SHRQ(Imm(3), n)
		g.JZ(LabelRef(rest))
		g.Label(eights)
		g.VPMOVZXWD(Mem{Base: from}, y(0))
		g.VPSLLD(Imm(16), y(0), y(0))
		g.VPERMILPS(Imm(0xb1), y(0), y(0))
		g.VMOVUPS(y(0), Mem{Base: at})
		g.ADDQ(Imm(16), from)
		g.ADDQ(Imm(32), at)
		g.DECQ(n)
		g.JNZ(LabelRef(eights))
		g.Label(rest)
		g.Load(g.Param("K"), n)
		g.ANDQ(Imm(7), n)
		g.SHRQ(Imm(1), n)
		g.JZ(LabelRef(end))
		g.Label(pairs)
		g.VMOVD(Mem{Base: from}, x(0))
		g.VPMOVZXWD(x(0), x(0))
		g.VPSLLD(Imm(16), x(0), x(0))
		g.VPERMILPS(Imm(0xb1), x(0), x(0))
		g.VMOVLPS(x(0), Mem{Base: at})
		g.ADDQ(Imm(4), from)
		g.ADDQ(Imm(8), at)
		g.DECQ(n)
		g.JNZ(LabelRef(pairs))
		g.Label(end)
		g.ADDQ(lda, a)
		g.ADDQ(U32(uint32(4*block)), to)
	})
}

// chainPackB copies 16 columns of b as float32 to packed, pairs of BF16 swapped.
func (g *asm) chainPackB(t elem, packed reg.Register, bSlot Mem) {
	from, ldb, to, n := g.GP64(), g.param("ldb"), g.GP64(), g.GP64()
	g.MOVQ(bSlot, from)
	g.MOVQ(packed, to)
	g.Load(g.Param("K"), n)
	if t == f32 {
		g.times(n, "packB", func() {
			g.PREFETCHT1(Mem{Base: from, Disp: 64}) // the next panel, row by row: no pattern that the processor sees
			g.VMOVUPS(Mem{Base: from}, y(0))
			g.VMOVUPS(Mem{Base: from, Disp: 32}, y(1))
			g.VMOVUPS(y(0), Mem{Base: to})
			g.VMOVUPS(y(1), Mem{Base: to, Disp: 32})
			g.ADDQ(ldb, from)
			g.ADDQ(Imm(64), to)
		})
		return
	}
	g.SHRQ(Imm(1), n)
	g.times(n, "packB", func() {
		g.PREFETCHT1(Mem{Base: from, Disp: 64})
		g.PREFETCHT1(Mem{Base: from, Index: ldb, Scale: 1, Disp: 64})
		for i := range 4 {
			m := Mem{Base: from, Disp: 16 * (i % 2)}
			if i < 2 {
				m.Index, m.Scale = ldb, 1
			}
			g.VPMOVZXWD(m, y(i))
			g.VPSLLD(Imm(16), y(i), y(i))
			g.VMOVUPS(y(i), Mem{Base: to, Disp: 32 * i})
		}
		g.LEAQ(Mem{Base: from, Index: ldb, Scale: 2}, from)
		g.ADDQ(U32(128), to)
	})
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

func (g *asm) chainStepF32(mr, c int, a func(m int) Mem, b Mem, at func(m, i int) int) {
	as := []reg.Register{y(14), y(15)}
	if mr <= 2 {
		for m := range mr {
			g.VBROADCASTSS(a(m), as[m])
		}
	}
	for i := range c {
		g.VMOVUPS(b.Offset(64*i), y(12))
		g.VMOVUPS(b.Offset(64*i+32), y(13))
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
