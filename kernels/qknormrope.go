package kernels

import (
	"fmt"
	"unsafe"
)

// QKNormRope normalises every query and key head as RMSNorm does, with the weights wq or wk, and turns it by its
// position: with x the normalised head, i < E/2 and the row of the tables for pos[t],
//
//	y[i] = x[i]·cos[i] - x[i+E/2]·sin[i]        y[i+E/2] = x[i+E/2]·cos[i] + x[i]·sin[i]
//
// and one rounding for both. Backward needs qkv and rstd. A row of position -1 gives zeros.
//
//	out       (T, H+K, E)      =
//	rstd      (T, H+K) F32     = the zero Tensor if nobody asks
//	qkv       (T, H+2K, E)     queries, keys, values (not read); out's dtype
//	wq, wk    (E)              out's dtype
//	pos       (T) I32
//	cos, sin  (N, E/2) F32
func QKNormRope(q Queue, out, rstd, qkv, wq, wk, pos, cos, sin Tensor, eps float32) {
	b := dims{op: "QKNormRope"}
	b.want(out, "out", "T H+K E", F32, BF16)
	a := qkNormRopeShapes(&b, out.Shape[1], qkv, wq, wk, pos, cos, sin)
	if rstd.Ptr != 0 {
		b.want(rstd, "rstd", "T H+K", F32)
	}
	a.Out, a.Rstd, a.Eps = out.Ptr, rstd.Ptr, eps
	launch(q, &qkNormRopeOp, blocks(int(a.T), rowBlock), a)
}

// QKNormRopeBackward turns the gradients back and takes them through the norm, in place.
//
//	dqkv      (T, H+2K, E)     on entry of the turned queries and keys, on exit of the raw ones; values stay
//	dwq, dwk  (E) F32          += in leaves of 16 rows
//	leaves    (⌈T/16⌉, 2, E) F32 = scratch
//	rstd      (T, H+K) F32     of the forward
//	qkv, wq, wk, pos, cos, sin as in the forward
func QKNormRopeBackward(q Queue, dqkv, dwq, dwk, leaves, rstd, qkv, wq, wk, pos, cos, sin Tensor) {
	b := dims{op: "QKNormRopeBackward"}
	b.want(rstd, "rstd", "T H+K", F32)
	a := qkNormRopeShapes(&b, rstd.Shape[1], qkv, wq, wk, pos, cos, sin)
	b.want(dqkv, "dqkv", "T H+2K E", qkv.DType)
	b.want(dwq, "dwq", "E", F32)
	b.want(dwk, "dwk", "E", F32)
	b.at["T/16"] = blocks(int(a.T), LeafRows)
	b.want(leaves, "leaves", "T/16 2 E", F32)
	a.Out, a.Rstd, a.DWQ, a.DWK, a.Leaves = dqkv.Ptr, rstd.Ptr, dwq.Ptr, dwk.Ptr, leaves.Ptr
	launch(q, &qkNormRopeBackwardOp, blocks(int(a.T), LeafRows), a)
	launch(q, &qkNormRopeDWOp, 2, a)
}

// qkNormRopeShapes checks what both directions read; heads is H+K.
func qkNormRopeShapes(b *dims, heads int, qkv, wq, wk, pos, cos, sin Tensor) qkNormRopeArgs {
	b.want(qkv, "qkv", "T H+2K E", F32, BF16)
	T, all, E := qkv.Shape[0], qkv.Shape[1], qkv.Shape[2]
	if K := all - heads; K < 1 || K >= heads || E%2 != 0 {
		panic(fmt.Sprintf("%s: H+K=%d H+2K=%d E=%d, want H >= 1, K >= 1 and E even", b.op, heads, all, E))
	}
	b.want(wq, "wq", "E", qkv.DType)
	b.want(wk, "wk", "E", qkv.DType)
	b.want(pos, "pos", "T", I32)
	b.at["E/2"] = E / 2
	b.want(cos, "cos", "N E/2", F32)
	b.want(sin, "sin", "N E/2", F32)
	return qkNormRopeArgs{
		QKV: qkv.Ptr, WQ: wq.Ptr, WK: wk.Ptr, Pos: pos.Ptr, Cos: cos.Ptr, Sin: sin.Ptr,
		T: int32(T), H: int32(2*heads - all), K: int32(all - heads), E: int32(E), N: int32(cos.Shape[0]), DType: int32(qkv.DType),
	}
}

type qkNormRopeArgs struct {
	Out    Ptr // (T, H+K, E); backward dqkv (T, H+2K, E)
	Rstd   Ptr // (T, H+K) or 0
	DWQ    Ptr // (E), backward
	DWK    Ptr // (E), backward
	Leaves Ptr // (⌈T/16⌉, 2, E), backward
	QKV    Ptr // (T, H+2K, E)
	WQ     Ptr // (E)
	WK     Ptr // (E)
	Pos    Ptr // (T)
	Cos    Ptr // (N, E/2)
	Sin    Ptr // (N, E/2)
	T      int32
	H      int32
	K      int32
	E      int32
	N      int32
	DType  int32
	Eps    float32
	_      int32
}

var (
	qkNormRopeOp         = Op{Name: "qknormrope", Size: unsafe.Sizeof(qkNormRopeArgs{}), CPU: qkNormRopeGo, CUDA: qkNormRopeGrid}
	qkNormRopeBackwardOp = Op{Name: "qknormrope_backward", Size: unsafe.Sizeof(qkNormRopeArgs{}), CPU: qkNormRopeBackwardGo, CUDA: qkNormRopeBackwardGrid}
	qkNormRopeDWOp       = Op{Name: "qknormrope_dw", Size: unsafe.Sizeof(qkNormRopeArgs{}), CPU: qkNormRopeDWGo, CUDA: qkNormRopeDWGrid}
)

func qkNormRopeGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*qkNormRopeArgs)(args)
	T, H, E, dt := int(a.T), int(a.H), int(a.E), DType(a.DType)
	M, N := H+int(a.K), H+2*int(a.K)
	w := [2][]float32{m.Load(a.WQ, dt, 0, E), m.Load(a.WK, dt, 0, E)}
	pos := m.I32(a.Pos, T)
	s := newHeadSums(m, M, E)
	out, rstd := m.ScratchF32(M*E), m.ScratchF32(M)
	for t := lo * rowBlock; t < min(hi*rowBlock, T); t++ {
		at := m.Keep()
		if p := indexAt(pos, t, int(a.N), "position"); p < 0 {
			clear(out)
			clear(rstd)
		} else {
			cos, sin := m.F32(a.Cos+Ptr(4*p*E/2), E/2), m.F32(a.Sin+Ptr(4*p*E/2), E/2)
			x := m.Load(a.QKV, dt, t*N*E, M*E)
			for h, sum := range s.of(x, x) {
				rstd[h] = invRoot(sum, E, a.Eps)
				turn(out[h*E:], x[h*E:], w[side(h, H)], rstd[h], cos, sin)
			}
		}
		m.Store(a.Out, dt, t*M*E, out)
		if a.Rstd != 0 {
			copy(m.F32(a.Rstd+Ptr(4*t*M), M), rstd)
		}
		m.Reset(at)
	}
}

// side is 0 for a query head and 1 for a key head.
func side(h, H int) int {
	if h < H {
		return 0
	}
	return 1
}

// headSums forms Σ x·y of every head of a row: the products, rounded, then their dots with ones, which for many short
// heads is faster than a dot for each.
type headSums struct {
	m                    *Memory
	ones, products, sums []float32 // (E), (H+K, E), (H+K)
}

func newHeadSums(m *Memory, heads, E int) headSums {
	s := headSums{m, m.ScratchF32(E), m.ScratchF32(heads * E), m.ScratchF32(heads)}
	for i := range s.ones {
		s.ones[i] = 1
	}
	return s
}

func (s headSums) of(x, y []float32) []float32 {
	s.m.vec.scale(s.products, x, y, 1)
	E := len(s.ones)
	s.m.vec.dotsF32(s.sums, len(s.sums), s.ones, E, s.products, E, 1, len(s.sums), E)
	return s.sums
}

// turn is x·r·w, of which it rotates the pairs i and i+E/2.
func turn(out, x, w []float32, r float32, cos, sin []float32) {
	n := len(cos)
	x0, x1, w0, w1, y0, y1, sin := x[:n], x[n:][:n], w[:n], w[n:][:n], out[:n], out[n:][:n], sin[:n]
	for i, c := range cos {
		a, b, s := float32(x0[i]*r)*w0[i], float32(x1[i]*r)*w1[i], sin[i]
		y0[i] = float32(a*c) - float32(b*s)
		y1[i] = float32(b*c) + float32(a*s)
	}
}

// turnBack rotates the pairs of the gradient by the opposite angle and multiplies by w.
func turnBack(g, dy, w []float32, cos, sin []float32) {
	n := len(cos)
	y0, y1, w0, w1, g0, g1, sin := dy[:n], dy[n:][:n], w[:n], w[n:][:n], g[:n], g[n:][:n], sin[:n]
	for i, c := range cos {
		a, b, s := y0[i], y1[i], sin[i]
		g0[i] = (float32(a*c) + float32(b*s)) * w0[i]
		g1[i] = (float32(b*c) - float32(a*s)) * w1[i]
	}
}

// An item is 16 rows, whose terms of dwq and dwk it adds up from zero, heads ascending in each row, as rmsnorm_backward
// does.
func qkNormRopeBackwardGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*qkNormRopeArgs)(args)
	T, H, E, dt := int(a.T), int(a.H), int(a.E), DType(a.DType)
	M, N := H+int(a.K), H+2*int(a.K)
	w := [2][]float32{m.Load(a.WQ, dt, 0, E), m.Load(a.WK, dt, 0, E)}
	pos := m.I32(a.Pos, T)
	s := newHeadSums(m, M, E)
	g, dx := m.ScratchF32(M*E), m.ScratchF32(M*E)
	for i := lo; i < hi; i++ {
		leaf := m.F32(a.Leaves+Ptr(4*i*2*E), 2*E)
		clear(leaf)
		for t := i * LeafRows; t < min((i+1)*LeafRows, T); t++ {
			at := m.Keep()
			clear(dx)
			if p := indexAt(pos, t, int(a.N), "position"); p >= 0 {
				cos, sin := m.F32(a.Cos+Ptr(4*p*E/2), E/2), m.F32(a.Sin+Ptr(4*p*E/2), E/2)
				x, dy := m.Load(a.QKV, dt, t*N*E, M*E), m.Load(a.Out, dt, t*N*E, M*E)
				rstd := m.F32(a.Rstd+Ptr(4*t*M), M)
				for h := range M {
					turnBack(g[h*E:], dy[h*E:], w[side(h, H)], cos, sin)
					addTurnedBack(leaf[side(h, H)*E:], x[h*E:], dy[h*E:], cos, sin, rstd[h])
				}
				for h, sum := range s.of(g, x) {
					addNormGradient(dx[h*E:][:E], g[h*E:], x[h*E:], rstd[h], sum)
				}
			}
			m.Store(a.Out, dt, t*N*E, dx)
			m.Reset(at)
		}
	}
}

// addTurnedBack adds x·r times the gradient dy, turned back, to a leaf.
func addTurnedBack(leaf, x, dy []float32, cos, sin []float32, r float32) {
	n := len(cos)
	x0, x1, y0, y1, l0, l1, sin := x[:n], x[n:][:n], dy[:n], dy[n:][:n], leaf[:n], leaf[n:][:n], sin[:n]
	for j, c := range cos {
		a, b, s := y0[j], y1[j], sin[j]
		l0[j] += float32(float32(x0[j]*r) * (float32(a*c) + float32(b*s)))
		l1[j] += float32(float32(x1[j]*r) * (float32(b*c) - float32(a*s)))
	}
}

// Items are dwq and dwk.
func qkNormRopeDWGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*qkNormRopeArgs)(args)
	E, N := int(a.E), blocks(int(a.T), LeafRows)
	for i := lo; i < hi; i++ {
		addLeaves(m, m.F32([]Ptr{a.DWQ, a.DWK}[i], E), m.F32(a.Leaves+Ptr(4*i*E), (2*N-i)*E), 2*E, N)
	}
}

// ropeLanes is how many threads of a GPU share a head: a power of two, each with at most 16 elements.
func ropeLanes(E int) int {
	lanes := 1
	for 16*lanes < E {
		lanes *= 2
	}
	return lanes
}

func qkNormRopeGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*qkNormRopeArgs)(args)
	name := ropeKernel("qknormrope", a)
	if name == "" {
		return Grid{}
	}
	heads := 2 * gpuThreads / ropeLanes(int(a.E)) // two for each group of threads
	return Grid{Kernel: name, X: blocks(int(a.T*(a.H+a.K)), heads), Y: 1, Threads: gpuThreads}
}

func qkNormRopeBackwardGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*qkNormRopeArgs)(args)
	name := ropeKernel("qknormrope_backward", a)
	if name == "" {
		return Grid{}
	}
	E := int(a.E)
	return Grid{Kernel: name, X: blocks(int(a.T), LeafRows), Y: 1, Threads: gpuThreads, Shared: 4 * E * (gpuThreads / ropeLanes(E))}
}

// ropeKernel names the entry for a width of heads: those of real models have their own. "" is too wide for a warp.
func ropeKernel(name string, a *qkNormRopeArgs) string {
	if DType(a.DType) != BF16 || a.E > 512 {
		return ""
	}
	if own := wide(name, 0, a.Out, a.QKV, a.WQ, a.WK, a.Cos, a.Sin); own == name && (a.E == 64 || a.E == 128) {
		return fmt.Sprintf("%s_%d", name, a.E)
	}
	return name + "_narrow"
}

func qkNormRopeDWGrid(_ GPU, args unsafe.Pointer) Grid {
	return Grid{X: blocks(2*int((*qkNormRopeArgs)(args).E), leafColumns), Y: 1, Threads: leafColumns}
}
