package main

import (
	"fmt"

	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// rowChunk is how many rows of w a call of dotsRows folds at a time.
const rowChunk = 32

// dotsRows computes 1 or 2 rows of x with every row of w, in tiles of 4 outputs: the decode step, which is bound by
// reading w. Its lanes wait on the stack, or if k has more pieces in the caller's memory, as those of dotsPanel do.
func (g *asm) dotsRows(t elem, isa string, rows int) {
	g.Function(fmt.Sprintf("dots%sRows%d%s", t, rows, isa))
	g.SignatureExpr("func(out *float32, ldo int, x *byte, ldx int, w *byte, ldw int, lanes *float32, N, groups, mode int)")
	g.Doc(fmt.Sprintf("%d rows of x against N rows of w (at most %d if lanes are kept). Strides are in bytes; a group is", rows, rowChunk), "64 bytes of a row.")
	g.Pragma("noescape")
	frame, left := g.AllocLocal(rows*rowChunk*64+64), g.AllocLocal(8)
	r := &rowsLoop{t: t, wide: isa == "AVX512", rows: rows, out: g.param("out"), x: g.param("x"), ldx: g.param("ldx"), w: g.param("w"), ldw: g.param("ldw"), lanes: g.GP64()}
	base, count := g.GP64(), g.GP64()
	g.LEAQ(frame.Offset(63), base)
	g.ANDQ(I32(-64), base)
	mode := g.param("mode")
	g.TESTQ(mode, mode)
	g.JZ(LabelRef("own"))
	g.Load(g.Param("lanes"), base)
	g.Label("own")
	n := g.param("N")
	g.MOVQ(n, left)
	if t == bf16 && !r.wide {
		g.VMOVDQU(g.u32("high", 8, 0xffff0000), y(15))
	}
	g.Label("chunk")
	g.MOVQ(base, r.lanes)
	g.rowsCount(left, count)
	if t == bf16 {
		g.flushing(true)
	}
	cols := 4 / rows
	if r.wide {
		cols = 4
		g.mask512(t)
	}
	for _, cols := range []int{cols, 1} {
		loop, done := g.label("tiles"), g.label("done")
		g.Label(loop)
		g.CMPQ(count, Imm(uint64(cols)))
		g.JLT(LabelRef(done))
		g.rowsTile(r, cols)
		g.SUBQ(Imm(uint64(cols)), count)
		g.JMP(LabelRef(loop))
		g.Label(done)
	}
	if t == bf16 {
		g.flushing(false)
	}
	g.Load(g.Param("mode"), count)
	g.TESTQ(U32(spill), count)
	g.JNZ(LabelRef("end"))
	g.MOVQ(base, r.lanes)
	g.rowsCount(left, count)
	ldo := g.param("ldo")
	for _, cols := range []int{4 / rows, 1} {
		loop, done := g.label("folds"), g.label("folded")
		g.Label(loop)
		g.CMPQ(count, Imm(uint64(cols)))
		g.JLT(LabelRef(done))
		g.rowsFold(r, cols, ldo)
		g.SUBQ(Imm(uint64(cols)), count)
		g.JMP(LabelRef(loop))
		g.Label(done)
	}
	g.SUBQ(Imm(rowChunk), left)
	g.JG(LabelRef("chunk"))
	g.Label("end")
	g.VZEROUPPER()
	g.RET()
}

type rowsLoop struct {
	t      elem
	wide   bool // 512 bits
	rows   int
	out    reg.Register
	x, ldx reg.Register
	w, ldw reg.Register
	lanes  reg.Register
}

func (g *asm) rowsCount(left Mem, count reg.Register) {
	most := g.GP64()
	g.MOVQ(left, count)
	g.MOVQ(U32(rowChunk), most)
	g.CMPQ(count, most)
	g.CMOVQGT(most, count)
}

// rowsTile leaves the lanes of rows times cols outputs, a column's rows together, in lanes: output i has lanes 0 to 7 in
// y(2i) and 8 to 15 in y(2i+1).
func (g *asm) rowsTile(r *rowsLoop, cols int) {
	outs := r.rows * cols
	accs, acc := 2*outs, y
	if r.wide {
		accs, acc = outs, z
	}
	mode, zero, ready := g.param("mode"), g.label("zero"), g.label("ready")
	g.TESTQ(U32(resume), mode)
	g.JZ(LabelRef(zero))
	for i := range accs {
		g.VMOVUPS(Mem{Base: r.lanes, Disp: 64 * outs / accs * i}, acc(i))
	}
	g.JMP(LabelRef(ready))
	g.Label(zero)
	for i := range accs {
		g.VXORPS(y(i), y(i), y(i)) // all of a 512-bit register, too
	}
	g.Label(ready)
	xa, w0, w3, ahead, n := g.GP64(), g.GP64(), g.GP64(), g.GP64(), g.GP64()
	g.MOVQ(r.x, xa)
	g.MOVQ(r.w, w0)
	if cols == 4 {
		g.LEAQ(Mem{Base: r.w, Index: r.ldw, Scale: 2}, w3)
		g.ADDQ(r.ldw, w3)
	}
	g.LEAQ(Mem{Base: r.w, Index: r.ldw, Scale: uint8(cols)}, r.w)
	g.MOVQ(r.w, ahead)
	g.Load(g.Param("groups"), n)
	g.times(n, "group", func() {
		// The rows after these, in the order of their addresses: memory gives them faster than as several streams.
		for i := range cols {
			g.PREFETCHT0(Mem{Base: ahead, Disp: 64 * i})
		}
		g.ADDQ(U32(uint32(64*cols)), ahead)
		row := func(i int) Mem { return six(w0, w3, r.ldw, i) }
		if r.wide {
			g.rowsGroup512(r, cols, xa, row)
		} else {
			g.rowsGroup(r, cols, xa, row)
		}
		g.ADDQ(Imm(64), xa)
		g.ADDQ(Imm(64), w0)
		if cols == 4 {
			g.ADDQ(Imm(64), w3)
		}
	})
	for i := range accs {
		g.VMOVUPS(acc(i), Mem{Base: r.lanes, Disp: 64 * outs / accs * i})
	}
	g.ADDQ(U32(uint32(64*outs)), r.lanes)
}

func (g *asm) rowsGroup(r *rowsLoop, cols int, xa reg.Register, w func(i int) Mem) {
	for half := range 2 {
		for m := range r.rows {
			xm := Mem{Base: xa, Disp: 32 * half}
			if m > 0 {
				xm.Index, xm.Scale = r.ldx, 1
			}
			if r.t == f32 {
				g.VMOVUPS(xm, y(11+m))
				continue
			}
			g.VPAND(xm, y(15), y(11+2*m))
			g.VMOVDQU(xm, y(12+2*m))
			g.VPSLLD(Imm(16), y(12+2*m), y(12+2*m))
		}
		for i := range cols {
			wm := w(i).Offset(32 * half)
			if r.t == f32 {
				g.VMOVUPS(wm, y(13))
				for m := range r.rows {
					g.VFMADD231PS(y(13), y(11+m), y(2*(i*r.rows+m)+half))
				}
				continue
			}
			g.VMOVDQU(wm, y(8))
			g.VPAND(y(8), y(15), y(9))
			g.VPSLLD(Imm(16), y(8), y(8))
			for m := range r.rows {
				g.VFMADD231PS(y(9), y(11+2*m), y(2*(i*r.rows+m)+half))
			}
			for m := range r.rows {
				g.VFMADD231PS(y(8), y(12+2*m), y(2*(i*r.rows+m)+half))
			}
		}
	}
}

// rowsFold folds what rowsTile left and advances lanes and out.
func (g *asm) rowsFold(r *rowsLoop, cols int, ldo reg.Register) {
	outs := r.rows * cols
	for i := range outs {
		g.VMOVUPS(Mem{Base: r.lanes, Disp: 64 * i}, y(i))
		g.VADDPS(Mem{Base: r.lanes, Disp: 64*i + 32}, y(i), y(i))
		g.VEXTRACTF128(Imm(1), y(i), x(12))
		g.VADDPS(x(12), x(i), x(i))
	}
	g.ADDQ(U32(uint32(64*outs)), r.lanes)
	if outs < 4 {
		for m := range outs {
			g.VMOVHLPS(x(m), x(m), x(12))
			g.VADDPS(x(12), x(m), x(m))
			g.VMOVSHDUP(x(m), x(12))
			g.VADDSS(x(12), x(m), x(m))
		}
		g.VMOVSS(x(0), Mem{Base: r.out})
		if r.rows == 2 {
			g.VMOVSS(x(1), Mem{Base: r.out, Index: ldo, Scale: 1})
		}
		g.ADDQ(Imm(4), r.out)
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
	if r.rows == 1 {
		g.VMOVUPS(x(0), Mem{Base: r.out})
		g.ADDQ(Imm(16), r.out)
		return
	}
	g.VPERMILPS(Imm(0xd8), x(0), x(0)) // two outputs of row 0, two of row 1
	g.VMOVLPS(x(0), Mem{Base: r.out})
	g.VMOVHPS(x(0), Mem{Base: r.out, Index: ldo, Scale: 1})
	g.ADDQ(Imm(8), r.out)
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
