package main

import (
	"github.com/mmcloughlin/avo/ir"
	. "github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// bf16Dot is BF16 whose step is vdpbf16ps; for bf16 it is two FMAs under MXCSR's flushing. A register holds all 16 lanes.
const bf16Dot elem = "BF16Dot"

// dpbf16 is acc[j] = fma(a[2j], b[2j], fma(a[2j+1], b[2j+1], acc[j])), 512 bits wide, which the assembler does not know.
func (g *asm) dpbf16(b, a, acc int) {
	for _, x := range dpbf16Bytes(b, a, acc) {
		g.Instruction(&ir.Instruction{Opcode: "BYTE", Operands: []Op{U8(x)}})
	}
}

// dpbf16Bytes is EVEX.512.F3.0F38.W0 52 /r for three registers; the upper register bits are stored inverted.
func dpbf16Bytes(b, a, acc int) [6]byte {
	not := func(r, bit int) int { return 1 - r>>bit&1 }
	return [6]byte{
		0x62,
		byte(not(acc, 3)<<7 | not(b, 4)<<6 | not(b, 3)<<5 | not(acc, 4)<<4 | 2),
		byte((^a&15)<<3 | 1<<2 | 2),
		byte(0x40 | not(a, 4)<<3),
		0x52,
		byte(0xc0 | acc&7<<3 | b&7),
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
