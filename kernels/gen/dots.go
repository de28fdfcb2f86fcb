package main

import (
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// dots writes the loops of vec.dotsBF16 and vec.dotsF32.
func dots(g *asm) {
	for _, t := range []elem{bf16, f32} {
		g.dotsPanelAVX2(t)
		g.dotsRows(t, "AVX2", 1)
		g.dotsRows(t, "AVX2", 2)
	}
	for _, t := range []elem{bf16Dot, bf16, f32} {
		g.dotsPanelAVX512(t)
		g.dotsRows(t, "AVX512", 1)
		g.dotsRows(t, "AVX512", 2)
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
	t          elem
	packed     reg.Register // 6 rows of w as floats, then the lanes
	lanes      reg.Register
	x, ldx     reg.Register
	done, n    reg.Register // bytes of a row before this block, groups in it
	batch      reg.Register
	ahead      reg.Register // what is fetched for the next 6 rows of w, in the order of the addresses
	early      reg.Register // how: crowded, or by how many tiles more
	out, tiles Mem
}

// The tiles of a block fetch the next 6 rows of w from memory while they compute: 6 lines a group, that is 3 in each
// half of one tile if there are only one or two, else one in each half of 3 tiles.
const (
	spread  = 3
	crowded = 4
)

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
	p := &panel{t: t, packed: g.GP64(), lanes: g.GP64(), x: g.GP64(), done: g.GP64(), n: g.GP64(), batch: g.GP64(), ahead: g.GP64(), early: g.GP64()}
	frame := g.AllocLocal(packBytes + panelRows/2*tileBytes + 64)
	p.out, p.tiles = g.AllocLocal(8), g.AllocLocal(8)
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
	g.Load(g.Param("rows"), p.batch)
	g.SHRQ(Imm(1), p.batch)
	g.MOVQ(p.batch, p.tiles)
	g.MOVQ(U32(spread), p.early)
	g.CMPQ(p.batch, Imm(spread))
	g.JGE(LabelRef("many"))
	g.MOVQ(U32(crowded), p.early)
	g.Label("many")
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
	g.times(count, "tile", func() {
		g.TESTQ(p.early, p.early)
		g.JNZ(LabelRef("early"))
		g.panelTile(p, 0)
		g.Label("tiled")
	})
	if t == bf16 {
		g.flushing(false)
	}
	g.TESTQ(last, last)
	g.JNZ(LabelRef("more"))
	g.panelFold(p)
	g.CMPQ(p.tiles, Imm(0))
	g.JNE(LabelRef("batch"))
	g.VZEROUPPER()
	g.RET()
	g.Label("early")
	g.CMPQ(p.early, Imm(crowded))
	g.JEQ(LabelRef("crowded"))
	g.DECQ(p.early)
	g.panelTile(p, 1)
	g.JMP(LabelRef("tiled"))
	g.Label("crowded")
	g.XORQ(p.early, p.early)
	g.panelTile(p, 3)
	g.JMP(LabelRef("tiled"))
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
	g.LEAQ(Mem{Base: p.done, Index: p.done, Scale: 4}, p.ahead)
	g.ADDQ(w3, p.ahead)
	g.ADDQ(ldw, p.ahead)
	g.LEAQ(Mem{Base: p.ahead, Index: ldw, Scale: 2}, p.ahead)
	g.times(n, "pack", func() {
		g.packGroup(p.t, w, w3, ldw, to)
		g.ADDQ(Imm(64), w)
		g.ADDQ(Imm(64), w3)
		g.ADDQ(U32(uint32(width)), to)
	})
	return left
}

// panelTile computes a tile and fetches lines lines ahead with each half of a group.
func (g *asm) panelTile(p *panel, lines int) {
	_, width := p.group()
	xa, wa, k := g.GP64(), g.GP64(), g.GP64()
	for half := range 2 {
		zero, ready := g.label("zero"), g.label("ready")
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
			for i := range lines {
				g.PREFETCHT1(Mem{Base: p.ahead, Disp: 64 * i})
			}
			if lines > 0 {
				g.ADDQ(U32(uint32(64*lines)), p.ahead)
			}
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
			m := six(w, w3, ldw, i).Offset(32 * half)
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
