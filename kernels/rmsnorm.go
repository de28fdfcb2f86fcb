package kernels

import (
	"math"
	"unsafe"
)

// RMSNorm is out = x·r·w with r = 1/√(mean(x²) + eps) of each row. Backward needs x and rstd.
//
//	out   (T, D)       =
//	rstd  (T) F32      = r; the zero Tensor if nobody asks
//	x     (T, D)       out's dtype
//	w     (D)          out's dtype
func RMSNorm(q Queue, out, rstd, x, w Tensor, eps float32) {
	b := dims{op: "RMSNorm"}
	rmsNorm(q, &b, rmsNormArgs{}, out, rstd, x, w, eps)
}

// AddRMSNorm is sum = x + r, rounded to the dtype, and out = RMSNorm(sum). Backward needs sum and rstd.
//
//	sum   (T, D)       = may be x or r
//	out   (T, D)       = sum's dtype
//	rstd  (T) F32      = the zero Tensor if nobody asks
//	x, r  (T, D)       sum's dtype
//	w     (D)          sum's dtype
func AddRMSNorm(q Queue, sum, out, rstd, x, r, w Tensor, eps float32) {
	b := dims{op: "AddRMSNorm"}
	b.want(sum, "sum", "T D", F32, BF16)
	b.want(r, "r", "T D", sum.DType)
	b.want(out, "out", "T D", sum.DType)
	rmsNorm(q, &b, rmsNormArgs{Sum: sum.Ptr, R: r.Ptr}, out, rstd, x, w, eps)
}

func rmsNorm(q Queue, b *dims, a rmsNormArgs, out, rstd, x, w Tensor, eps float32) {
	b.want(out, "out", "T D", F32, BF16)
	b.want(x, "x", "T D", out.DType)
	b.want(w, "w", "D", out.DType)
	if rstd.Ptr != 0 {
		b.want(rstd, "rstd", "T", F32)
	}
	a.Out, a.Rstd, a.X, a.W = out.Ptr, rstd.Ptr, x.Ptr, w.Ptr
	a.T, a.D, a.DType, a.Eps = int32(out.Shape[0]), int32(out.Shape[1]), int32(out.DType), eps
	launch(q, &rmsNormOp, blocks(out.Shape[0], rowBlock), a)
}

// RMSNormBackward: with g = dout·w and s = Σ g·x over a row,
//
//	dx = dres + g·r - x·r³·s/D        dw += Σ_t dout·(x·r), in leaves of 16 rows
//
//	dx      (T, D)            = may be dres or dout
//	dw      (D) F32           +=
//	leaves  (⌈T/16⌉, D) F32   = scratch
//	dout    (T, D)            dx's dtype
//	dres    (T, D)            what came along the residual, dx's dtype; the zero Tensor is none
//	rstd    (T) F32           of the forward
//	x       (T, D)            what was normalised, dx's dtype
//	w       (D)               dx's dtype
func RMSNormBackward(q Queue, dx, dw, leaves, dout, dres, rstd, x, w Tensor) {
	b := dims{op: "RMSNormBackward"}
	b.want(dx, "dx", "T D", F32, BF16)
	b.want(dw, "dw", "D", F32)
	b.at["T/16"] = blocks(dx.Shape[0], LeafRows)
	b.want(leaves, "leaves", "T/16 D", F32)
	b.want(dout, "dout", "T D", dx.DType)
	if dres.Ptr != 0 {
		b.want(dres, "dres", "T D", dx.DType)
	}
	b.want(rstd, "rstd", "T", F32)
	b.want(x, "x", "T D", dx.DType)
	b.want(w, "w", "D", dx.DType)
	T, D := dx.Shape[0], dx.Shape[1]
	a := rmsNormBackwardArgs{
		DX: dx.Ptr, DW: dw.Ptr, Leaves: leaves.Ptr, DOut: dout.Ptr, DRes: dres.Ptr, Rstd: rstd.Ptr, X: x.Ptr, W: w.Ptr,
		T: int32(T), D: int32(D), DType: int32(dx.DType),
	}
	launch(q, &rmsNormBackwardOp, blocks(T, LeafRows), a)
	launch(q, &rmsNormDWOp, blocks(D, columnTile), a)
}

type rmsNormArgs struct {
	Sum   Ptr // (T, D), 0 if R is
	Out   Ptr // (T, D)
	Rstd  Ptr // (T) or 0
	X     Ptr // (T, D)
	R     Ptr // (T, D) or 0
	W     Ptr // (D)
	T     int32
	D     int32
	DType int32
	Eps   float32
}

type rmsNormBackwardArgs struct {
	DX     Ptr // (T, D)
	DW     Ptr // (D)
	Leaves Ptr // (⌈T/16⌉, D)
	DOut   Ptr // (T, D)
	DRes   Ptr // (T, D) or 0
	Rstd   Ptr // (T)
	X      Ptr // (T, D)
	W      Ptr // (D)
	T      int32
	D      int32
	DType  int32
	_      int32
}

var (
	rmsNormOp         = Op{Name: "rmsnorm", Size: unsafe.Sizeof(rmsNormArgs{}), CPU: rmsNormGo, CUDA: rmsNormGrid}
	rmsNormBackwardOp = Op{Name: "rmsnorm_backward", Size: unsafe.Sizeof(rmsNormBackwardArgs{}), CPU: rmsNormBackwardGo, CUDA: rmsNormBackwardGrid}
	rmsNormDWOp       = Op{Name: "rmsnorm_dw", Size: unsafe.Sizeof(rmsNormBackwardArgs{}), CPU: rmsNormDWGo, CUDA: rmsNormDWGrid}
)

func rmsNormGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*rmsNormArgs)(args)
	T, D, dt := int(a.T), int(a.D), DType(a.DType)
	w := m.Load(a.W, dt, 0, D)
	y := m.ScratchF32(D)
	for t := lo * rowBlock; t < min(hi*rowBlock, T); t++ {
		at := m.Keep()
		x := m.Load(a.X, dt, t*D, D)
		if a.R != 0 {
			copy(y, x)
			accumulate(y, m.Load(a.R, dt, t*D, D))
			m.Store(a.Sum, dt, t*D, y)
			x = m.Load(a.Sum, dt, t*D, D)
		}
		r := invRoot(dot(m, x, x), D, a.Eps)
		m.vec.scale(y, x, w, r)
		m.Store(a.Out, dt, t*D, y)
		if a.Rstd != 0 {
			m.F32(a.Rstd+Ptr(4*t), 1)[0] = r
		}
		m.Reset(at)
	}
}

// invRoot is 1/√(sum/n + eps). Rounding the float64 root to float32 gives the correctly rounded float32 root.
func invRoot(sum float32, n int, eps float32) float32 {
	return 1 / float32(math.Sqrt(float64(sum/float32(n)+eps)))
}

// dot is Σ x·y in the order of doc.go.
func dot(m *Memory, x, y []float32) float32 {
	at := m.Keep()
	s := m.ScratchF32(1)
	m.vec.dotsF32(s, 1, x, len(x), y, len(x), 1, 1, len(x))
	m.Reset(at)
	return s[0]
}

// An item is 16 rows, whose terms of dw it adds up from zero: what a step adds to dw then doesn't depend on how it is cut
// into micro-batches, nor on who computes the leaf.
func rmsNormBackwardGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*rmsNormBackwardArgs)(args)
	T, D, dt := int(a.T), int(a.D), DType(a.DType)
	w := m.Load(a.W, dt, 0, D)
	rstd := m.F32(a.Rstd, T)
	dx, g, terms := m.ScratchF32(D), m.ScratchF32(D), m.ScratchF32(LeafRows*D)
	for i := lo; i < hi; i++ {
		t0, rows := i*LeafRows, min(LeafRows, T-i*LeafRows)
		for t := t0; t < t0+rows; t++ {
			at := m.Keep()
			if a.DRes != 0 {
				copy(dx, m.Load(a.DRes, dt, t*D, D))
			} else {
				clear(dx)
			}
			x, dout := m.Load(a.X, dt, t*D, D), m.Load(a.DOut, dt, t*D, D)
			m.vec.scale(terms[(t-t0)*D:][:D], x, dout, rstd[t])
			m.vec.scale(g, dout, w, 1)
			addNormGradient(dx, g, x, rstd[t], dot(m, g, x))
			m.Store(a.DX, dt, t*D, dx)
			m.Reset(at)
		}
		leaf := m.F32(a.Leaves+Ptr(4*i*D), D)
		clear(leaf)
		m.vec.chainF32(leaf, D, ones[:], len(ones), terms, D, 1, D, rows)
	}
}

// addNormGradient adds the gradient of x·r·w with respect to x to dx, where g is dout·w and sum Σ g·x.
func addNormGradient(dx, g, x []float32, r, sum float32) {
	c := -float32(float32(r*r)*r) * (sum / float32(len(dx)))
	g, x = g[:len(dx)], x[:len(dx)]
	for i := range dx {
		dx[i] += float32(g[i]*r) + float32(x[i]*c)
	}
}

// LeafRows is the number of rows whose terms a sum over tokens adds up from zero before it adds the sums.
const LeafRows = rowBlock

// ones are the factors of a chain that only adds.
var ones = [LeafRows]float32{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}

// Items are columns.
func rmsNormDWGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*rmsNormBackwardArgs)(args)
	D, d := int(a.D), lo*columnTile
	n, N := min(hi*columnTile, D)-d, blocks(int(a.T), LeafRows)
	addLeaves(m, m.F32(a.DW+Ptr(4*d), n), m.F32(a.Leaves+Ptr(4*d), N*D-d), D, N)
}

// addLeaves adds N leaves, ascending, of which one begins every ld elements.
func addLeaves(m *Memory, dw, leaves []float32, ld, N int) {
	for i := 0; i < N; i += len(ones) {
		m.vec.chainF32(dw, len(dw), ones[:], len(ones), leaves[i*ld:], ld, 1, len(dw), min(len(ones), N-i))
	}
}

// maxNormWidth is the largest row that a block of threads holds in its registers.
const maxNormWidth = 8192

// normThreads is how many threads of a GPU share a row: they hold 16 elements each. It is a function of the width, since
// the order of the row's sum follows from it.
func normThreads(D int) int { return 32 * blocks(D, 32*16) }

func rmsNormGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*rmsNormArgs)(args)
	if DType(a.DType) != BF16 || a.D > maxNormWidth {
		return Grid{}
	}
	name := wide("rmsnorm", 2*int64(a.D), a.Sum, a.Out, a.X, a.R, a.W)
	return Grid{Kernel: name, X: int(a.T), Y: 1, Threads: normThreads(int(a.D)), Shared: 4 * 32}
}

func rmsNormBackwardGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*rmsNormBackwardArgs)(args)
	if DType(a.DType) != BF16 || a.D > maxNormWidth {
		return Grid{}
	}
	name := wide("rmsnorm_backward", 2*int64(a.D), a.DX, a.Leaves, a.DOut, a.DRes, a.X, a.W)
	return Grid{Kernel: name, X: blocks(int(a.T), LeafRows), Y: 1, Threads: normThreads(int(a.D)), Shared: 4 * 2 * 32}
}

func rmsNormDWGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*rmsNormBackwardArgs)(args)
	return Grid{X: blocks(int(a.D), leafColumns), Y: 1, Threads: leafColumns}
}

// leafColumns is how many columns a block adds the leaves of: few, so that there are many blocks.
const leafColumns = 32
