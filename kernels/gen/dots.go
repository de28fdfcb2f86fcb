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
	for i := range 6 { // the lower half is row 0, the upper row 1
		g.VPERM2F128(Imm(0x20), y(6+i), y(i), y(12))
		g.VPERM2F128(Imm(0x31), y(6+i), y(i), y(14))
		g.VADDPS(y(12), y(14), y(i))
	}
	for i := 0; i < 6; i += 2 {
		g.VUNPCKLPD(y(i+1), y(i), y(12))
		g.VUNPCKHPD(y(i+1), y(i), y(14))
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
	panelRows  = 32  // of x
	panelBlock = 512 // k
)

// dotsPanelAVX2 computes up to 32 rows of x with 6 rows of w, which are copied to the stack 512 elements at a time as
// float32, in the order that the loop reads them. Lanes wait on the stack too and are folded at the end, since changing
// MXCSR drains the pipeline.
func (g *asm) dotsPanelAVX2(t elem) {
	g.Function("dots" + string(t) + "PanelAVX2")
	g.SignatureExpr("func(out *float32, ldo int, x *byte, ldx int, w *byte, ldw int, rows, groups int)")
	g.Doc("rows rows of x (even, at most 32) against 6 rows of w. Strides are in bytes; a group is 64 bytes of a row.")
	g.Pragma("noescape")
	const packed, lanes = 6 * 4 * panelBlock, panelRows / 2 * 12 * 64
	frame := g.AllocLocal(packed + lanes + 64)
	per := 16 // groups of a block, and bytes of a group of 6 rows once they are floats
	width := 6 * 128
	if t == f32 {
		per, width = 32, 6*64
	}
	wp, lp, first := g.GP64(), g.GP64(), g.GP64()
	g.LEAQ(frame.Offset(63), wp)
	g.ANDQ(I32(-64), wp)
	px, ldx, w, ldw := g.param("x"), g.param("ldx"), g.param("w"), g.param("ldw")
	left := g.param("groups")
	w3, n, tiles, xa, wa := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.XORQ(first, first)
	if t == bf16 {
		g.VMOVDQU(g.u32("high", 8, 0xffff0000), y(15))
	}
	g.Label("block")
	g.LEAQ(Mem{Base: w, Index: ldw, Scale: 2}, w3)
	g.ADDQ(ldw, w3)
	g.MOVQ(left, n)
	g.CMPQ(n, Imm(uint64(per)))
	g.JLE(LabelRef("short"))
	g.MOVQ(U32(uint32(per)), n)
	g.Label("short")
	g.MOVQ(wp, wa)
	g.MOVQ(n, tiles)
	g.times(tiles, "pack", func() {
		g.packGroup(t, w, w3, ldw, wa)
		g.ADDQ(Imm(64), w)
		g.ADDQ(Imm(64), w3)
		g.ADDQ(U32(uint32(width)), wa)
	})
	if t == bf16 {
		g.flushing(true)
	}
	g.LEAQ(Mem{Base: wp, Disp: packed}, lp)
	g.Load(g.Param("rows"), tiles)
	g.SHRQ(Imm(1), tiles)
	x := g.GP64()
	g.MOVQ(px, x)
	g.Label("tile")
	for half := range 2 {
		zero, ready := fmt.Sprintf("zero%d", half), fmt.Sprintf("ready%d", half)
		g.TESTQ(first, first)
		g.JZ(LabelRef(zero))
		for i := range 12 {
			g.VMOVUPS(Mem{Base: lp, Disp: 64*i + 32*half}, y(i))
		}
		g.JMP(LabelRef(ready))
		g.Label(zero)
		for i := range 12 {
			g.VXORPS(y(i), y(i), y(i))
		}
		g.Label(ready)
		g.MOVQ(x, xa)
		g.MOVQ(wp, wa)
		k := g.GP64()
		g.MOVQ(n, k)
		g.times(k, "group", func() {
			g.panelGroup(t, half, xa, ldx, wa)
			g.ADDQ(Imm(64), xa)
			g.ADDQ(U32(uint32(width)), wa)
		})
		for i := range 12 {
			g.VMOVUPS(y(i), Mem{Base: lp, Disp: 64*i + 32*half})
		}
	}
	g.ADDQ(U32(12*64), lp)
	g.LEAQ(Mem{Base: x, Index: ldx, Scale: 2}, x)
	g.DECQ(tiles)
	g.JNZ(LabelRef("tile"))
	if t == bf16 {
		g.flushing(false)
	}
	g.MOVQ(n, first)
	g.SHLQ(Imm(6), first)
	g.ADDQ(first, px)
	g.SUBQ(n, left)
	g.JNZ(LabelRef("block"))

	g.LEAQ(Mem{Base: wp, Disp: packed}, lp)
	out, ldo := g.param("out"), g.param("ldo")
	g.Load(g.Param("rows"), tiles)
	g.SHRQ(Imm(1), tiles)
	g.times(tiles, "fold", func() {
		for i := range 12 {
			g.VMOVUPS(Mem{Base: lp, Disp: 64 * i}, y(i))
			g.VADDPS(Mem{Base: lp, Disp: 64*i + 32}, y(i), y(i))
		}
		g.fold12(out, ldo)
		g.ADDQ(U32(12*64), lp)
		g.LEAQ(Mem{Base: out, Index: ldo, Scale: 2}, out)
	})
	g.VZEROUPPER()
	g.RET()
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
