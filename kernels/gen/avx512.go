package main

import (
	"fmt"

	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// kind is how AVX-512 takes a step: bf16Dot by vdpbf16ps, bf16 by two FMAs under MXCSR's flushing, f32 by one FMA. A
// register holds all 16 lanes.
const bf16Dot elem = "BF16Dot"

// dpbf16 is acc[j] = fma(a[2j], b[2j], fma(a[2j+1], b[2j+1], acc[j])), 512 bits wide. The assembler does not know it:
// EVEX.512.F3.0F38.W0 52 /r.
func (g *asm) dpbf16(b, a, acc int) {
	not := func(r, bit int) int { return 1 - r>>bit&1 }
	for _, x := range []int{
		0x62,
		not(acc, 3)<<7 | not(b, 4)<<6 | not(b, 3)<<5 | not(acc, 4)<<4 | 2,
		(^a&15)<<3 | 1<<2 | 2,
		0x40 | not(a, 4)<<3,
		0x52,
		0xc0 | acc&7<<3 | b&7,
	} {
		g.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(x)}})
	}
}

// The registers of the 512-bit loops: accumulators from z0 on, then these.
const (
	zX    = 24 // 4 rows of x, or 2 of a
	zW    = 28
	zEven = 29
	zMask = 31 // the upper halves, for bf16
)

func (g *asm) mask512(t elem) {
	if t == bf16 {
		g.VPBROADCASTD(g.u32("high", 8, 0xffff0000), z(zMask))
	}
}

// part leaves in z(dst) what a register of k gives to one FMA: all of it, or the odd or the even elements as floats.
func (g *asm) part(t elem, odd bool, src Op, dst int) {
	switch {
	case t != bf16:
		g.VMOVUPS(src, z(dst))
	case odd:
		g.VPANDD(src, z(zMask), z(dst))
	default:
		g.VMOVDQU32(src, z(dst))
		g.VPSLLD(Imm(16), z(dst), z(dst))
	}
}

// step is acc += a·b for one register of k, or of odd or even k.
func (g *asm) step512(t elem, b, a, acc int) {
	if t == bf16Dot {
		g.dpbf16(b, a, acc)
	} else {
		g.VFMADD231PS(z(b), z(a), z(acc))
	}
}

// dotsPanelAVX512 is dotsPanelAVX2 with tiles of 4 rows, whose 24 outputs fit the registers with all their lanes; they
// wait in memory only where k goes on.
func (g *asm) dotsPanelAVX512(t elem) {
	g.Function("dots" + string(t) + "PanelAVX512")
	g.SignatureExpr("func(out *float32, ldo int, x *byte, ldx int, w *byte, ldw int, rows, groups int)")
	g.Doc("rows rows of x (a multiple of 4, at most 64) against 6 rows of w. Strides are in bytes; a group is 64 bytes of", "a row.")
	g.Pragma("noescape")
	p := &panel512{t: t, packed: g.GP64(), lanes: g.GP64(), x: g.GP64(), done: g.GP64(), n: g.GP64(), ahead: g.GP64(), out: g.GP64()}
	frame := g.AllocLocal(packBytes + panelRows/4*24*64 + 64)
	p.tiles = g.AllocLocal(8)
	g.LEAQ(frame.Offset(63), p.packed)
	g.ANDQ(I32(-64), p.packed)
	p.ldx = g.param("ldx")
	g.Load(g.Param("out"), p.out)
	g.XORQ(p.done, p.done)
	g.mask512(t)

	g.Label("block")
	last := g.panelPack512(p)
	g.Load(g.Param("x"), p.x)
	g.ADDQ(p.done, p.x)
	count := g.GP64()
	g.Load(g.Param("rows"), count)
	g.SHRQ(Imm(2), count)
	g.MOVQ(count, p.tiles)
	g.LEAQ(Mem{Base: p.packed, Disp: packBytes}, p.lanes)
	g.Label("tile")
	if t == bf16 {
		g.flushing(true)
	}
	g.panelTile512(p)
	if t == bf16 {
		g.flushing(false)
	}
	g.TESTQ(last, last)
	g.JNZ(LabelRef("keep"))
	g.fold24(p.out)
	g.JMP(LabelRef("next"))
	g.Label("keep")
	for i := range 24 {
		g.VMOVUPS(z(i), Mem{Base: p.lanes, Disp: 64 * i})
	}
	g.Label("next")
	g.ADDQ(U32(24*64), p.lanes)
	g.LEAQ(Mem{Base: p.x, Index: p.ldx, Scale: 4}, p.x)
	g.DECQ(p.tiles)
	g.JNZ(LabelRef("tile"))
	g.TESTQ(last, last)
	g.JZ(LabelRef("end"))
	g.MOVQ(p.n, count)
	g.SHLQ(Imm(6), count)
	g.ADDQ(count, p.done)
	g.JMP(LabelRef("block"))
	g.Label("end")
	g.VZEROUPPER()
	g.RET()
}

type panel512 struct {
	t                           elem
	packed, lanes, x, ldx, done reg.Register
	n, ahead, out               reg.Register
	tiles                       Mem
}

// width is what 6 rows of a group take once copied, in bytes.
func (p *panel512) width() int {
	if p.t == bf16 {
		return 12 * 64
	}
	return 6 * 64
}

func (g *asm) panelPack512(p *panel512) reg.Register {
	per := packBytes / p.width()
	left, n := g.param("groups"), g.GP64()
	g.MOVQ(p.done, n)
	g.SHRQ(Imm(6), n)
	g.SUBQ(n, left)
	g.MOVQ(left, p.n)
	g.CMPQ(p.n, Imm(uint64(per)))
	g.JLE(LabelRef("short"))
	g.MOVQ(U32(uint32(per)), p.n)
	g.Label("short")
	g.SUBQ(p.n, left)
	w, ldw, w3, to := g.param("w"), g.param("ldw"), g.GP64(), g.GP64()
	g.ADDQ(p.done, w)
	g.LEAQ(Mem{Base: w, Index: ldw, Scale: 2}, w3)
	g.ADDQ(ldw, w3)
	g.LEAQ(Mem{Base: p.done, Index: p.done, Scale: 4}, p.ahead) // the next 6 rows, in the order of their addresses
	g.ADDQ(w3, p.ahead)
	g.ADDQ(ldw, p.ahead)
	g.LEAQ(Mem{Base: p.ahead, Index: ldw, Scale: 2}, p.ahead)
	g.MOVQ(p.packed, to)
	g.MOVQ(p.n, n)
	g.times(n, "pack", func() {
		for i := range 6 {
			g.VMOVDQU32(six(w, w3, ldw, i), z(zW))
			if p.t != bf16 {
				g.VMOVDQU32(z(zW), Mem{Base: to, Disp: 64 * i})
				continue
			}
			g.VPANDD(z(zW), z(zMask), z(zEven))
			g.VPSLLD(Imm(16), z(zW), z(zW))
			g.VMOVDQU32(z(zEven), Mem{Base: to, Disp: 64 * i})
			g.VMOVDQU32(z(zW), Mem{Base: to, Disp: 64 * (6 + i)})
		}
		g.ADDQ(Imm(64), w)
		g.ADDQ(Imm(64), w3)
		g.ADDQ(U32(uint32(p.width())), to)
	})
	return left
}

func (g *asm) panelTile512(p *panel512) {
	zero, ready := g.label("zero"), g.label("ready")
	g.TESTQ(p.done, p.done)
	g.JZ(LabelRef(zero))
	for i := range 24 {
		g.VMOVUPS(Mem{Base: p.lanes, Disp: 64 * i}, z(i))
	}
	g.JMP(LabelRef(ready))
	g.Label(zero)
	for i := range 24 {
		g.VPXORD(z(i), z(i), z(i))
	}
	g.Label(ready)
	xa, x3, wa, k := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.point(xa, x3, p.x, p.ldx, 4)
	g.MOVQ(p.packed, wa)
	g.MOVQ(p.n, k)
	g.times(k, "group", func() {
		parts := 1
		if p.t == bf16 {
			parts = 2
		}
		for h := range parts {
			for m := range 4 {
				g.part(p.t, h == 0, six(xa, x3, p.ldx, m), zX+m)
			}
			for n := range 6 {
				g.VMOVUPS(Mem{Base: wa, Disp: 64 * (6*h + n)}, z(zW))
				for m := range 4 {
					g.step512(p.t, zW, zX+m, 4*n+m)
				}
			}
		}
		g.PREFETCHT1(Mem{Base: p.ahead})
		g.ADDQ(Imm(64), p.ahead)
		g.ADDQ(Imm(64), xa)
		g.ADDQ(Imm(64), x3)
		g.ADDQ(U32(uint32(p.width())), wa)
	})
}

// fold24 folds z0 to z23, row m of column n in z(4n+m), and moves out 4 rows down. Each 128-bit lane becomes a row.
func (g *asm) fold24(out reg.Register) {
	ldo, row := g.param("ldo"), g.GP64()
	a, b := z(zX), z(zX+1)
	join := func(shuffle func(...Op), imm int, r, s, to int) {
		lo, hi := imm&0xff, imm>>8
		shuffle(Imm(uint64(lo)), z(s), z(r), a)
		shuffle(Imm(uint64(hi)), z(s), z(r), b)
		g.VADDPS(a, b, z(to))
	}
	for n := range 6 {
		join(g.VSHUFF64X2, 0xee44, 4*n, 4*n+1, 4*n)     // 8 lanes of rows 0 and 1
		join(g.VSHUFF64X2, 0xee44, 4*n+2, 4*n+3, 4*n+1) // of rows 2 and 3
		join(g.VSHUFF32X4, 0xdd88, 4*n, 4*n+1, 4*n)     // 4 lanes of every row
	}
	for n := 0; n < 6; n += 2 {
		g.VUNPCKLPD(z(4*n+4), z(4*n), a)
		g.VUNPCKHPD(z(4*n+4), z(4*n), b)
		g.VADDPS(a, b, z(4*n)) // 2 lanes of two columns
	}
	join(g.VSHUFPS, 0xdd88, 0, 8, 0)
	join(g.VSHUFPS, 0xdd88, 16, 16, 16)
	g.MOVQ(out, row)
	for m := range 4 {
		if m > 0 {
			g.VEXTRACTF32X4(Imm(uint64(m)), z(0), Mem{Base: row})
			g.VEXTRACTF32X4(Imm(uint64(m)), z(16), x(4))
		} else {
			g.VMOVUPS(x(0), Mem{Base: row})
			g.VEXTRACTF32X4(Imm(0), z(16), x(4))
		}
		g.VMOVLPS(x(4), Mem{Base: row, Disp: 16})
		g.ADDQ(ldo, row)
	}
	g.MOVQ(row, out)
}

// rowsGroup512 is rowsGroup with all lanes of output i in z(i).
func (g *asm) rowsGroup512(r *rowsLoop, cols int, xa reg.Register, w func(i int) Mem) {
	for h := range 2 {
		if h == 1 && r.t != bf16 {
			return
		}
		for m := range r.rows {
			xm := Mem{Base: xa}
			if m > 0 {
				xm.Index, xm.Scale = r.ldx, 1
			}
			g.part(r.t, h == 0, xm, zX+m)
		}
		for i := range cols {
			g.part(r.t, h == 0, w(i), zW)
			for m := range r.rows {
				g.step512(r.t, zW, zX+m, i*r.rows+m)
			}
		}
	}
}

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
