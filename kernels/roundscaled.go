package kernels

import "unsafe"

const roundScaledTile = 1 << 12 // elements per item

// RoundScaled is out = x·scale, rounded to bfloat16: what crosses the bus where an optimizer's states are in the host's memory.
//
//	out  (N) BF16   =
//	x    (N) F32
func RoundScaled(q Queue, out, x Tensor, scale float32) {
	b := dims{op: "RoundScaled"}
	b.want(out, "out", "N", BF16)
	b.want(x, "x", "N", F32)
	n := out.Shape[0]
	launch(q, &roundScaledOp, blocks(n, roundScaledTile), roundScaledArgs{Out: out.Ptr, X: x.Ptr, N: int64(n), Scale: scale})
}

type roundScaledArgs struct {
	Out   Ptr // (N)
	X     Ptr // (N)
	N     int64
	Scale float32
	_     int32
}

var roundScaledOp = Op{Name: "roundscaled", Size: unsafe.Sizeof(roundScaledArgs{}), CPU: roundScaledGo, CUDA: roundScaledGrid}

func roundScaledGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*roundScaledArgs)(args)
	for i := lo; i < hi; i++ {
		at := i * roundScaledTile
		n := min(roundScaledTile, int(a.N)-at)
		keep := m.Keep()
		scaled := m.ScratchF32(n)
		for j, v := range m.F32(a.X+Ptr(4*at), n) {
			scaled[j] = v * a.Scale
		}
		m.vec.pack(m.BF16(a.Out+Ptr(2*at), n), scaled)
		m.Reset(keep)
	}
}

// roundScaledGrid gives a thread eight elements.
func roundScaledGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*roundScaledArgs)(args)
	return Grid{Kernel: wide("roundscaled", 0, a.Out, a.X), X: blocks(int(a.N), 8*gpuThreads), Threads: gpuThreads}
}
