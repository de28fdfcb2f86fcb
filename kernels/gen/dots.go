package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dots writes the loops of vec.dotsBF16 and vec.dotsF32.
func dots(g *asm) {
	for _, t := range []elem{bf16, f32} {
		g.dotsPanelAVX2(t)
		g.dotsTileAVX2(t)
		g.dotsRowAVX2(t)
	}
}

type elem string

const (
	bf16 elem = "BF16"
	f32  elem = "F32"
)

// The bits of mode.
const (
	resume = 1 // start from the lanes in memory, not from zero
	spill  = 2 // leave the lanes in memory, do not fold
)

const (
	ftz = 0x8040 // flush results to zero, take subnormals as zero
	// Masked exceptions, round to nearest: what Go runs with. Status bits that were set are lost, and nobody reads them.
	plainMXCSR = 0x1f80
)

func (g *asm) flushing(on bool) {
	v := uint32(plainMXCSR)
	name := "mxcsr"
	if on {
		v, name = v|ftz, "mxcsrFlush"
	}
	g.LDMXCSR(g.u32(name, 1, v))
}

// dotsTileAVX2 computes 2 rows of x with 6 rows of w at a time, for all pairs of rows. The 16 lanes of 12 outputs do not
// fit the registers, so k is walked twice: lanes 0 to 7, then 8 to 15.
func (g *asm) dotsTileAVX2(t elem) {
	g.Function("dots" + string(t) + "TileAVX2")
	g.SignatureExpr("func(out *float32, ldo int, x *byte, ldx int, w *byte, ldw int, lanes *float32, rows, groups, mode int)")
	g.Doc("2 rows of x against 6 rows of w, rows/2 times. Strides are in bytes; a group is 64 bytes of a row.")
	g.Pragma("noescape")
	out, ldo := g.param("out"), g.param("ldo")
	px, ldx := g.param("x"), g.param("ldx")
	w, ldw := g.param("w"), g.param("ldw")
	lanes, rows, mode := g.param("lanes"), g.param("rows"), g.param("mode")
	low := g.AllocLocal(12 * 32)
	if t == bf16 {
		g.VMOVDQU(g.u32("high", 8, 0xffff0000), y(13))
	}
	wa, wb, n, xa := g.GP64(), g.GP64(), g.GP64(), g.GP64()
	body := func(disp int) {
		wrow := func(i int) Mem {
			m := Mem{Base: wa, Disp: disp}
			if i >= 3 {
				m.Base = wb
			}
			if i%3 > 0 {
				m.Index, m.Scale = ldw, uint8(i%3)
			}
			return m
		}
		x0, x1 := Mem{Base: xa, Disp: disp}, Mem{Base: xa, Index: ldx, Scale: 1, Disp: disp}
		if t == f32 {
			g.VMOVUPS(x0, y(14))
			g.VMOVUPS(x1, y(15))
			for i := range 6 {
				g.VMOVUPS(wrow(i), y(12))
				g.VFMADD231PS(y(12), y(14), y(i))
				g.VFMADD231PS(y(12), y(15), y(6+i))
			}
			return
		}
		g.VPAND(x0, y(13), y(14))
		g.VPAND(x1, y(13), y(15))
		for i := range 6 {
			g.VPAND(wrow(i), y(13), y(12))
			g.VFMADD231PS(y(12), y(14), y(i))
			g.VFMADD231PS(y(12), y(15), y(6+i))
		}
		g.VMOVDQU(x0, y(14))
		g.VMOVDQU(x1, y(15))
		g.VPSLLD(Imm(16), y(14), y(14))
		g.VPSLLD(Imm(16), y(15), y(15))
		for i := range 6 {
			g.VMOVDQU(wrow(i), y(12))
			g.VPSLLD(Imm(16), y(12), y(12))
			g.VFMADD231PS(y(12), y(14), y(i))
			g.VFMADD231PS(y(12), y(15), y(6+i))
		}
	}
	g.Label("tile")
	if t == bf16 {
		g.flushing(true)
	}
	for half := range 2 {
		load, ready := fmt.Sprintf("load%d", half), fmt.Sprintf("ready%d", half)
		g.TESTQ(U32(resume), mode)
		g.JNZ(LabelRef(load))
		for i := range 12 {
			g.VXORPS(y(i), y(i), y(i))
		}
		g.JMP(LabelRef(ready))
		g.Label(load)
		for i := range 12 {
			g.VMOVUPS(Mem{Base: lanes, Disp: 64*i + 32*half}, y(i))
		}
		g.Label(ready)
		g.MOVQ(px, xa)
		g.MOVQ(w, wa)
		g.LEAQ(Mem{Base: w, Index: ldw, Scale: 2}, wb)
		g.ADDQ(ldw, wb)
		g.Load(g.Param("groups"), n)
		g.times(n, "group", func() {
			body(32 * half)
			g.ADDQ(Imm(64), xa)
			g.ADDQ(Imm(64), wa)
			g.ADDQ(Imm(64), wb)
		})
		if half == 0 {
			for i := range 12 {
				g.VMOVUPS(y(i), low.Offset(32*i))
			}
		}
	}
	if t == bf16 {
		g.flushing(false)
	}
	g.TESTQ(U32(spill), mode)
	g.JNZ(LabelRef("spill"))
	for i := range 12 {
		g.VADDPS(low.Offset(32*i), y(i), y(i))
	}
	g.fold12(out, ldo)
	g.JMP(LabelRef("next"))
	g.Label("spill")
	for i := range 12 {
		g.VMOVUPS(low.Offset(32*i), y(14))
		g.VMOVUPS(y(14), Mem{Base: lanes, Disp: 64 * i})
		g.VMOVUPS(y(i), Mem{Base: lanes, Disp: 64*i + 32})
	}
	g.Label("next")
	g.ADDQ(U32(12*64), lanes)
	g.LEAQ(Mem{Base: px, Index: ldx, Scale: 2}, px)
	g.LEAQ(Mem{Base: out, Index: ldo, Scale: 2}, out)
	g.SUBQ(Imm(2), rows)
	g.JNZ(LabelRef("tile"))
	g.VZEROUPPER()
	g.RET()
}

// fold12 folds the 8 lanes of y0 to y11: outputs 0 to 5 go to out, 6 to 11 to out+ldo.
func (g *asm) fold12(out, ldo reg.Register) {
	for i := range 6 { // one half becomes row 0, the other row 1; a blend is cheaper than a second shuffle
		g.VBLENDPS(Imm(0xf0), y(6+i), y(i), y(12))   // row 0's lanes 0 to 3, row 1's 4 to 7
		g.VPERM2F128(Imm(0x21), y(6+i), y(i), y(14)) // row 0's lanes 4 to 7, row 1's 0 to 3
		g.VADDPS(y(12), y(14), y(i))
	}
	for i := 0; i < 6; i += 2 {
		g.VBLENDPD(Imm(0xa), y(i+1), y(i), y(12))
		g.VSHUFPD(Imm(0x5), y(i+1), y(i), y(14))
		g.VADDPS(y(12), y(14), y(i))
	}
	g.VSHUFPS(Imm(0x88), y(2), y(0), y(12))
	g.VSHUFPS(Imm(0xdd), y(2), y(0), y(14))
	g.VADDPS(y(12), y(14), y(0))
	g.VSHUFPS(Imm(0x88), y(4), y(4), y(12))
	g.VSHUFPS(Imm(0xdd), y(4), y(4), y(14))
	g.VADDPS(y(12), y(14), y(1))
	row1 := Mem{Base: out, Index: ldo, Scale: 1}
	g.VMOVUPS(x(0), Mem{Base: out})
	g.VMOVLPS(x(1), Mem{Base: out, Disp: 16})
	g.VEXTRACTF128(Imm(1), y(0), row1)
	g.VEXTRACTF128(Imm(1), y(1), x(1))
	g.VMOVLPS(x(1), row1.Offset(16))
}

// What one call of dotsPanel holds on its stack.
const (
	panelRows  = 64  // of x
	panelBlock = 512 // k
	panelBatch = 8   // tiles between changes of MXCSR, which drain the pipeline
	packBytes  = 6 * 4 * panelBlock
	tileBytes  = 12 * 64 // the lanes of a tile
)

// panel is the registers of dotsPanelAVX2 that live from block to block.
type panel struct {
	t            elem
	packed       reg.Register // 6 rows of w as floats, then the lanes
	lanes        reg.Register
	x, ldx       reg.Register
	done, n      reg.Register // bytes of a row before this block, groups in it
	tiles, batch reg.Register
	out          Mem
}

func (p *panel) group() (per, width int) { // groups of a block; bytes of a group of 6 rows once they are floats
	if p.t == bf16 {
		return 16, 6 * 128
	}
	return 32, 6 * 64
}

// dotsPanelAVX2 computes up to 64 rows of x with 6 rows of w. It copies those to the stack 512 elements at a time, as
// float32 in the order that the loop reads them. Two rows of x are a tile; the 16 lanes of its 12 outputs do not fit the
// registers, so k is walked twice, and they wait on the stack to be folded once subnormals are kept again.
func (g *asm) dotsPanelAVX2(t elem) {
	g.Function("dots" + string(t) + "PanelAVX2")
	g.SignatureExpr("func(out *float32, ldo int, x *byte, ldx int, w *byte, ldw int, rows, groups int)")
	g.Doc("rows rows of x (even, at most 64) against 6 rows of w. Strides are in bytes; a group is 64 bytes of a row.")
	g.Pragma("noescape")
	p := &panel{t: t, packed: g.GP64(), lanes: g.GP64(), x: g.GP64(), done: g.GP64(), n: g.GP64(), tiles: g.GP64(), batch: g.GP64()}
	frame := g.AllocLocal(packBytes + panelRows/2*tileBytes + 64)
	p.out = g.AllocLocal(8)
	g.LEAQ(frame.Offset(63), p.packed)
	g.ANDQ(I32(-64), p.packed)
	p.ldx = g.param("ldx")
	out := g.param("out")
	g.MOVQ(out, p.out)
	g.XORQ(p.done, p.done)
	if t == bf16 {
		g.VMOVDQU(g.u32("high", 8, 0xffff0000), y(15))
	}

	g.Label("block")
	last := g.panelPack(p)
	g.Load(g.Param("x"), p.x)
	g.ADDQ(p.done, p.x)
	g.Load(g.Param("rows"), p.tiles)
	g.SHRQ(Imm(1), p.tiles)
	g.LEAQ(Mem{Base: p.packed, Disp: packBytes}, p.lanes)
	g.Label("batch")
	g.MOVQ(p.tiles, p.batch)
	g.TESTQ(last, last)
	g.JNZ(LabelRef("whole"))
	g.CMPQ(p.batch, Imm(panelBatch))
	g.JLE(LabelRef("whole"))
	g.MOVQ(U32(panelBatch), p.batch)
	g.Label("whole")
	g.SUBQ(p.batch, p.tiles)
	if t == bf16 {
		g.flushing(true)
	}
	count := g.GP64()
	g.MOVQ(p.batch, count)
	g.times(count, "tile", func() { g.panelTile(p) })
	if t == bf16 {
		g.flushing(false)
	}
	g.TESTQ(last, last)
	g.JNZ(LabelRef("more"))
	g.panelFold(p)
	g.TESTQ(p.tiles, p.tiles)
	g.JNZ(LabelRef("batch"))
	g.VZEROUPPER()
	g.RET()
	g.Label("more")
	g.MOVQ(p.n, count)
	g.SHLQ(Imm(6), count)
	g.ADDQ(count, p.done)
	g.JMP(LabelRef("block"))
}

// panelPack copies the next block of w and returns how many groups follow it.
func (g *asm) panelPack(p *panel) reg.Register {
	per, width := p.group()
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
	g.MOVQ(p.packed, to)
	g.MOVQ(p.n, n)
	g.times(n, "pack", func() {
		g.packGroup(p.t, w, w3, ldw, to)
		g.ADDQ(Imm(64), w)
		g.ADDQ(Imm(64), w3)
		g.ADDQ(U32(uint32(width)), to)
	})
	return left
}

func (g *asm) panelTile(p *panel) {
	_, width := p.group()
	xa, wa, k := g.GP64(), g.GP64(), g.GP64()
	for half := range 2 {
		zero, ready := fmt.Sprintf("zero%d", half), fmt.Sprintf("ready%d", half)
		g.TESTQ(p.done, p.done)
		g.JZ(LabelRef(zero))
		for i := range 12 {
			g.VMOVUPS(Mem{Base: p.lanes, Disp: 64*i + 32*half}, y(i))
		}
		g.JMP(LabelRef(ready))
		g.Label(zero)
		for i := range 12 {
			g.VXORPS(y(i), y(i), y(i))
		}
		g.Label(ready)
		g.MOVQ(p.x, xa)
		g.MOVQ(p.packed, wa)
		g.MOVQ(p.n, k)
		g.times(k, "group", func() {
			g.panelGroup(p.t, half, xa, p.ldx, wa)
			g.ADDQ(Imm(64), xa)
			g.ADDQ(U32(uint32(width)), wa)
		})
		for i := range 12 {
			g.VMOVUPS(y(i), Mem{Base: p.lanes, Disp: 64*i + 32*half})
		}
	}
	g.ADDQ(U32(tileBytes), p.lanes)
	g.LEAQ(Mem{Base: p.x, Index: p.ldx, Scale: 2}, p.x)
}

// panelFold folds the batch of tiles that ends at lanes. If k is done in one block their place is free again.
func (g *asm) panelFold(p *panel) {
	back, out, ldo := g.GP64(), g.GP64(), g.param("ldo")
	g.IMUL3Q(U32(tileBytes), p.batch, back)
	g.SUBQ(back, p.lanes)
	g.MOVQ(p.out, out)
	g.times(p.batch, "fold", func() {
		for i := range 12 {
			g.VMOVUPS(Mem{Base: p.lanes, Disp: 64 * i}, y(i))
			g.VADDPS(Mem{Base: p.lanes, Disp: 64*i + 32}, y(i), y(i))
		}
		g.fold12(out, ldo)
		g.ADDQ(U32(tileBytes), p.lanes)
		g.LEAQ(Mem{Base: out, Index: ldo, Scale: 2}, out)
	})
	g.MOVQ(out, p.out)
	g.TESTQ(p.done, p.done)
	g.JNZ(LabelRef("keep"))
	g.LEAQ(Mem{Base: p.packed, Disp: packBytes}, p.lanes)
	g.Label("keep")
}

// packGroup writes a group of 6 rows: for each half the odd elements of the rows, then the even ones.
func (g *asm) packGroup(t elem, w, w3, ldw, to reg.Register) {
	for half := range 2 {
		for i := range 6 {
			m := Mem{Base: w, Disp: 32 * half}
			if i >= 3 {
				m.Base = w3
			}
			if i%3 > 0 {
				m.Index, m.Scale = ldw, uint8(i%3)
			}
			if t == f32 {
				g.VMOVUPS(m, y(i))
				g.VMOVUPS(y(i), Mem{Base: to, Disp: 32 * (6*half + i)})
				continue
			}
			g.VMOVDQU(m, y(i))
			g.VPAND(y(i), y(15), y(6+i))
			g.VPSLLD(Imm(16), y(i), y(i))
			g.VMOVUPS(y(6+i), Mem{Base: to, Disp: 32 * (12*half + i)})
			g.VMOVUPS(y(i), Mem{Base: to, Disp: 32 * (12*half + 6 + i)})
		}
	}
}

// panelGroup is half a group of 2 rows of x with 6 packed rows.
func (g *asm) panelGroup(t elem, half int, xa, ldx, wa reg.Register) {
	x0, x1 := Mem{Base: xa, Disp: 32 * half}, Mem{Base: xa, Index: ldx, Scale: 1, Disp: 32 * half}
	six := func(disp int) {
		for i := range 6 {
			g.VMOVUPS(Mem{Base: wa, Disp: disp + 32*i}, y(12))
			g.VFMADD231PS(y(12), y(13), y(i))
			g.VFMADD231PS(y(12), y(14), y(6+i))
		}
	}
	if t == f32 {
		g.VMOVUPS(x0, y(13))
		g.VMOVUPS(x1, y(14))
		six(6 * 32 * half)
		return
	}
	g.VPAND(x0, y(15), y(13))
	g.VPAND(x1, y(15), y(14))
	six(12 * 32 * half)
	g.VMOVDQU(x0, y(13))
	g.VMOVDQU(x1, y(14))
	g.VPSLLD(Imm(16), y(13), y(13))
	g.VPSLLD(Imm(16), y(14), y(14))
	six(12*32*half + 6*32)
}

// dotsRowAVX2 computes one row of x with every row of w, 4 at a time: the decode step, which is bound by reading w.
func (g *asm) dotsRowAVX2(t elem) {
	g.Function("dots" + string(t) + "RowAVX2")
	g.SignatureExpr("func(out *float32, x, w *byte, ldw int, lanes *float32, N, groups, mode int)")
	g.Doc("1 row of x against N rows of w. Strides are in bytes; a group is 64 bytes of a row.")
	g.Pragma("noescape")
	out, px, w, ldw := g.param("out"), g.param("x"), g.param("w"), g.param("ldw")
	lanes, N, mode := g.param("lanes"), g.param("N"), g.param("mode")
	if t == bf16 {
		g.VMOVDQU(g.u32("high", 8, 0xffff0000), y(13))
	}
	xa, w0, ahead, n, ld3 := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(Mem{Base: ldw, Index: ldw, Scale: 2}, ld3)
	g.CMPQ(N, Imm(4))
	g.JLT(LabelRef("single"))
	for _, rows := range []int{4, 1} {
		name := map[int]string{4: "four", 1: "one"}[rows]
		g.Label(name)
		if t == bf16 {
			g.flushing(true)
		}
		g.rowInit(rows, lanes, mode, name)
		g.MOVQ(px, xa)
		g.MOVQ(w, w0)
		g.LEAQ(Mem{Base: w, Index: ldw, Scale: 4}, ahead)
		g.Load(g.Param("groups"), n)
		g.times(n, name+"group", func() {
			if rows == 4 {
				for i := range 4 {
					g.PREFETCHT0(strided(ahead, ldw, ld3, i, 0))
				}
				g.ADDQ(Imm(64), ahead)
			}
			g.rowBody(t, rows, xa, func(i, disp int) Mem { return strided(w0, ldw, ld3, i, disp) })
			g.ADDQ(Imm(64), xa)
			g.ADDQ(Imm(64), w0)
		})
		if t == bf16 {
			g.flushing(false)
		}
		g.TESTQ(U32(spill), mode)
		g.JNZ(LabelRef(name + "spill"))
		g.rowFold(rows, out)
		g.JMP(LabelRef(name + "next"))
		g.Label(name + "spill")
		for i := range 2 * rows {
			g.VMOVUPS(y(i), Mem{Base: lanes, Disp: 32 * i})
		}
		g.Label(name + "next")
		g.ADDQ(U32(64*rows), lanes)
		g.ADDQ(Imm(uint64(4*rows)), out)
		g.LEAQ(Mem{Base: w, Index: ldw, Scale: uint8(rows)}, w)
		g.SUBQ(Imm(uint64(rows)), N)
		if rows == 4 {
			g.CMPQ(N, Imm(4))
			g.JGE(LabelRef(name))
			g.Label("single")
			g.TESTQ(N, N)
			g.JZ(LabelRef("done"))
		} else {
			g.JNZ(LabelRef(name))
		}
	}
	g.Label("done")
	g.VZEROUPPER()
	g.RET()
}

// strided is row i < 4 from base on, with ld3 three times ld.
func strided(base, ld, ld3 reg.Register, i, disp int) Mem {
	m := Mem{Base: base, Disp: disp}
	switch i {
	case 1, 2:
		m.Index, m.Scale = ld, uint8(i)
	case 3:
		m.Index, m.Scale = ld3, 1
	}
	return m
}

func (g *asm) rowInit(rows int, lanes, mode reg.Register, name string) {
	g.TESTQ(U32(resume), mode)
	g.JNZ(LabelRef(name + "load"))
	for i := range 2 * rows {
		g.VXORPS(y(i), y(i), y(i))
	}
	g.JMP(LabelRef(name + "ready"))
	g.Label(name + "load")
	for i := range 2 * rows {
		g.VMOVUPS(Mem{Base: lanes, Disp: 32 * i}, y(i))
	}
	g.Label(name + "ready")
}

// rowBody is one group: output i has lanes 0 to 7 in y(2i) and 8 to 15 in y(2i+1).
func (g *asm) rowBody(t elem, rows int, xa reg.Register, w func(i, disp int) Mem) {
	for half := range 2 {
		xm := Mem{Base: xa, Disp: 32 * half}
		if t == f32 {
			g.VMOVUPS(xm, y(14))
			for i := range rows {
				g.VFMADD231PS(w(i, 32*half), y(14), y(2*i+half))
			}
			continue
		}
		g.VPAND(xm, y(13), y(14))
		g.VMOVDQU(xm, y(15))
		g.VPSLLD(Imm(16), y(15), y(15))
		for i := range rows {
			g.VMOVDQU(w(i, 32*half), y(11))
			g.VPAND(y(11), y(13), y(12))
			g.VFMADD231PS(y(12), y(14), y(2*i+half))
			g.VPSLLD(Imm(16), y(11), y(11))
			g.VFMADD231PS(y(11), y(15), y(2*i+half))
		}
	}
}

func (g *asm) rowFold(rows int, out reg.Register) {
	for i := range rows {
		g.VADDPS(y(2*i+1), y(2*i), y(i))
		g.VEXTRACTF128(Imm(1), y(i), x(12))
		g.VADDPS(x(12), x(i), x(i))
	}
	if rows == 1 {
		g.VMOVHLPS(x(0), x(0), x(12))
		g.VADDPS(x(12), x(0), x(0))
		g.VMOVSHDUP(x(0), x(12))
		g.VADDSS(x(12), x(0), x(0))
		g.VMOVSS(x(0), Mem{Base: out})
		return
	}
	for i := 0; i < 4; i += 2 {
		g.VUNPCKLPD(x(i+1), x(i), x(12))
		g.VUNPCKHPD(x(i+1), x(i), x(14))
		g.VADDPS(x(12), x(14), x(i))
	}
	g.VSHUFPS(Imm(0x88), x(2), x(0), x(12))
	g.VSHUFPS(Imm(0xdd), x(2), x(0), x(14))
	g.VADDPS(x(12), x(14), x(0))
	g.VMOVUPS(x(0), Mem{Base: out})
}
