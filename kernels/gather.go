package kernels

import (
	"fmt"
	"unsafe"
)

// rowBlock is how many rows an item of a row-wise op covers: a small decode batch runs on the worker that launches it.
const rowBlock = 16

// Gather picks rows: out[i] = x[rows[i]], exact. Row -1 gives zeros.
//
//	out   (R, D)       =
//	x     (T, D)       out's dtype
//	rows  (R) I32
func Gather(q Queue, out, x, rows Tensor) {
	b := dims{op: "Gather"}
	b.want(out, "out", "R D", F32, BF16)
	b.want(x, "x", "T D", out.DType)
	b.want(rows, "rows", "R", I32)
	launch(q, &gatherOp, blocks(out.Shape[0], rowBlock), gatherArgs{
		Out: out.Ptr, X: x.Ptr, Rows: rows.Ptr,
		R: int32(out.Shape[0]), T: int32(x.Shape[0]), D: int32(out.Shape[1]), DType: int32(out.DType),
	})
}

// GatherBackward sends the gradients back: dx[rows[i]] = dout[i], and zeros in the rows that nobody picked. A row is
// picked at most once.
//
//	dx    (T, D)       =
//	dout  (R, D)       dx's dtype
//	rows  (R) I32
func GatherBackward(q Queue, dx, dout, rows Tensor) {
	b := dims{op: "GatherBackward"}
	b.want(dx, "dx", "T D", F32, BF16)
	b.want(dout, "dout", "R D", dx.DType)
	b.want(rows, "rows", "R", I32)
	Zero(q, dx)
	launch(q, &gatherBackwardOp, blocks(dout.Shape[0], rowBlock), gatherArgs{
		Out: dx.Ptr, X: dout.Ptr, Rows: rows.Ptr,
		R: int32(dout.Shape[0]), T: int32(dx.Shape[0]), D: int32(dx.Shape[1]), DType: int32(dx.DType),
	})
}

type gatherArgs struct {
	Out   Ptr // (R, D); backward (T, D)
	X     Ptr // (T, D); backward (R, D)
	Rows  Ptr // (R)
	R     int32
	T     int32
	D     int32
	DType int32
}

var (
	gatherOp         = Op{Name: "gather", Size: unsafe.Sizeof(gatherArgs{}), CPU: gatherGo, CUDA: gatherGrid}
	gatherBackwardOp = Op{Name: "gather_backward", Size: unsafe.Sizeof(gatherArgs{}), CPU: gatherBackwardGo, CUDA: gatherBackwardGrid}
)

func gatherGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*gatherArgs)(args)
	R, size := int(a.R), int(a.D)*DType(a.DType).Size()
	rows := m.I32(a.Rows, R)
	for i := lo * rowBlock; i < min(hi*rowBlock, R); i++ {
		copyRow(m, a.Out, i, a.X, indexAt(rows, i, int(a.T), "row"), size)
	}
}

func gatherBackwardGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*gatherArgs)(args)
	R, size := int(a.R), int(a.D)*DType(a.DType).Size()
	rows := m.I32(a.Rows, R)
	for i := lo * rowBlock; i < min(hi*rowBlock, R); i++ {
		if t := indexAt(rows, i, int(a.T), "row"); t >= 0 {
			copyRow(m, a.Out, t, a.X, i, size)
		}
	}
}

func gatherGrid(_ GPU, args unsafe.Pointer) Grid { return gatherRows("gather", args) }

func gatherBackwardGrid(_ GPU, args unsafe.Pointer) Grid { return gatherRows("gather_backward", args) }

func gatherRows(name string, args unsafe.Pointer) Grid {
	a := (*gatherArgs)(args)
	return copyGrid(name, int(a.R), int(a.D)*DType(a.DType).Size(), a.Out, a.X)
}

// indexAt is index[i], which must be -1 or below n.
func indexAt(index []int32, i, n int, what string) int {
	k := int(index[i])
	if k < -1 || k >= n {
		panic(fmt.Sprintf("%s %d at %d is outside of %d", what, k, i, n))
	}
	return k
}

// copyRow copies row j of src, or zeros if j is -1, to row i of dst. Rows are of size bytes.
func copyRow(m *Memory, dst Ptr, i int, src Ptr, j, size int) {
	to := raw(m, dst+Ptr(i*size), size)
	if j < 0 {
		clear(to)
		return
	}
	copy(to, raw(m, src+Ptr(j*size), size))
}

func raw(m *Memory, p Ptr, n int) []byte { return unsafe.Slice((*byte)(m.at(p, n, 1)), n) }
