package kernels

import "unsafe"

// SwiGLU is out = silu(gate)·up with silu(g) = g/(1+e^-g), one rounding.
//
//	out     (T, F)    =
//	gateup  (T, 2F)   a row is gate, then up; out's dtype
func SwiGLU(q Queue, out, gateup Tensor) {
	b := dims{op: "SwiGLU"}
	b.want(out, "out", "T F", F32, BF16)
	wantHalves(&b, gateup, "gateup", out)
	T, F := out.Shape[0], out.Shape[1]
	launch(q, &swigluOp, blocks(T, rowBlock), swigluArgs{
		Out: out.Ptr, GateUp: gateup.Ptr, T: int32(T), F: int32(F), DType: int32(out.DType),
	})
}

// SwiGLUBackward computes silu again: with s = 1/(1+e^-gate),
//
//	dgate = dout·up·s·(1 + gate·(1-s))        dup = dout·gate·s
//
//	dgateup  (T, 2F)  = may be gateup
//	dout     (T, F)   dgateup's dtype
//	gateup   (T, 2F)  dgateup's dtype
func SwiGLUBackward(q Queue, dgateup, dout, gateup Tensor) {
	b := dims{op: "SwiGLUBackward"}
	b.want(dout, "dout", "T F", F32, BF16)
	wantHalves(&b, dgateup, "dgateup", dout)
	wantHalves(&b, gateup, "gateup", dout)
	T, F := dout.Shape[0], dout.Shape[1]
	launch(q, &swigluBackwardOp, blocks(T, rowBlock), swigluArgs{
		DGateUp: dgateup.Ptr, Out: dout.Ptr, GateUp: gateup.Ptr, T: int32(T), F: int32(F), DType: int32(dout.DType),
	})
}

// wantHalves holds t to twice the width of half.
func wantHalves(b *dims, t Tensor, name string, half Tensor) {
	b.at["2·F"] = 2 * half.Shape[1]
	b.want(t, name, "T 2·F", half.DType)
}

type swigluArgs struct {
	DGateUp Ptr // (T, 2F), backward
	Out     Ptr // (T, F); backward dout
	GateUp  Ptr // (T, 2F)
	T       int32
	F       int32
	DType   int32
	_       int32
}

var (
	swigluOp         = Op{Name: "swiglu", Size: unsafe.Sizeof(swigluArgs{}), CPU: swigluGo, CUDA: swigluGrid}
	swigluBackwardOp = Op{Name: "swiglu_backward", Size: unsafe.Sizeof(swigluArgs{}), CPU: swigluBackwardGo, CUDA: swigluBackwardGrid}
)

func swigluGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*swigluArgs)(args)
	T, F, dt := int(a.T), int(a.F), DType(a.DType)
	out := m.ScratchF32(F)
	for t := lo * rowBlock; t < min(hi*rowBlock, T); t++ {
		at := m.Keep()
		x := m.Load(a.GateUp, dt, t*2*F, 2*F)
		m.vec.silu(out, x[:F], x[F:])
		m.Store(a.Out, dt, t*F, out)
		m.Reset(at)
	}
}

func swigluBackwardGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*swigluArgs)(args)
	T, F, dt := int(a.T), int(a.F), DType(a.DType)
	dx := m.ScratchF32(2 * F)
	for t := lo * rowBlock; t < min(hi*rowBlock, T); t++ {
		at := m.Keep()
		x := m.Load(a.GateUp, dt, t*2*F, 2*F)
		m.vec.siluBackward(dx[:F], dx[F:], m.Load(a.Out, dt, t*F, F), x[:F], x[F:])
		m.Store(a.DGateUp, dt, t*2*F, dx)
		m.Reset(at)
	}
}

func swigluGrid(_ GPU, args unsafe.Pointer) Grid { return swigluRows("swiglu", args) }

func swigluBackwardGrid(_ GPU, args unsafe.Pointer) Grid { return swigluRows("swiglu_backward", args) }

// swigluRows gives a thread 16 elements of a row.
func swigluRows(name string, args unsafe.Pointer) Grid {
	a := (*swigluArgs)(args)
	if DType(a.DType) != BF16 {
		return Grid{}
	}
	F := int(a.F)
	threads := min(gpuThreads, 32*blocks(F, 16*32))
	return Grid{Kernel: wide(name, 2*int64(F), a.DGateUp, a.Out, a.GateUp), X: int(a.T), Y: blocks(F, 16*threads), Threads: threads}
}
