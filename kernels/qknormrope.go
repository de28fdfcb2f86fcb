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
//	rstd      (T, H+K) F32     of the forward
//	qkv, wq, wk, pos, cos, sin as in the forward
func QKNormRopeBackward(q Queue, dqkv, dwq, dwk, rstd, qkv, wq, wk, pos, cos, sin Tensor) {
	b := dims{op: "QKNormRopeBackward"}
	b.want(rstd, "rstd", "T H+K", F32)
	a := qkNormRopeShapes(&b, rstd.Shape[1], qkv, wq, wk, pos, cos, sin)
	b.want(dqkv, "dqkv", "T H+2K E", qkv.DType)
	b.want(dwq, "dwq", "E", F32)
	b.want(dwk, "dwk", "E", F32)
	a.Out, a.Rstd, a.DWQ, a.DWK = dqkv.Ptr, rstd.Ptr, dwq.Ptr, dwk.Ptr
	launch(q, &qkNormRopeDWOp, 2*blocks(int(a.E)/2, pairTile), a) // first, since the gradients are overwritten
	launch(q, &qkNormRopeBackwardOp, blocks(int(a.T), rowBlock), a)
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
	Out   Ptr // (T, H+K, E); backward dqkv (T, H+2K, E)
	Rstd  Ptr // (T, H+K) or 0
	DWQ   Ptr // (E), backward
	DWK   Ptr // (E), backward
	QKV   Ptr // (T, H+2K, E)
	WQ    Ptr // (E)
	WK    Ptr // (E)
	Pos   Ptr // (T)
	Cos   Ptr // (N, E/2)
	Sin   Ptr // (N, E/2)
	T     int32
	H     int32
	K     int32
	E     int32
	N     int32
	DType int32
	Eps   float32
	_     int32
}

var (
	qkNormRopeOp         = Op{Name: "qknormrope", Size: unsafe.Sizeof(qkNormRopeArgs{}), CPU: qkNormRopeGo}
	qkNormRopeBackwardOp = Op{Name: "qknormrope_backward", Size: unsafe.Sizeof(qkNormRopeArgs{}), CPU: qkNormRopeBackwardGo}
	qkNormRopeDWOp       = Op{Name: "qknormrope_dw", Size: unsafe.Sizeof(qkNormRopeArgs{}), CPU: qkNormRopeDWGo}
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

func qkNormRopeBackwardGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*qkNormRopeArgs)(args)
	T, H, E, dt := int(a.T), int(a.H), int(a.E), DType(a.DType)
	M, N := H+int(a.K), H+2*int(a.K)
	w := [2][]float32{m.Load(a.WQ, dt, 0, E), m.Load(a.WK, dt, 0, E)}
	pos := m.I32(a.Pos, T)
	s := newHeadSums(m, M, E)
	g, dx := m.ScratchF32(M*E), m.ScratchF32(M*E)
	for t := lo * rowBlock; t < min(hi*rowBlock, T); t++ {
		at := m.Keep()
		clear(dx)
		if p := indexAt(pos, t, int(a.N), "position"); p >= 0 {
			cos, sin := m.F32(a.Cos+Ptr(4*p*E/2), E/2), m.F32(a.Sin+Ptr(4*p*E/2), E/2)
			x, dy := m.Load(a.QKV, dt, t*N*E, M*E), m.Load(a.Out, dt, t*N*E, M*E)
			for h := range M {
				turnBack(g[h*E:], dy[h*E:], w[side(h, H)], cos, sin)
			}
			rstd := m.F32(a.Rstd+Ptr(4*t*M), M)
			for h, sum := range s.of(g, x) {
				addNormGradient(dx[h*E:][:E], g[h*E:], x[h*E:], rstd[h], sum)
			}
		}
		m.Store(a.Out, dt, t*N*E, dx)
		m.Reset(at)
	}
}

// pairTile is how many pairs of columns an item of qknormrope_dw covers.
const pairTile = 16

// Items are the pair tiles of dwq, then those of dwk. A leaf is the sum over 16 rows from zero, heads ascending in each
// row, as in rmsnorm_dw.
func qkNormRopeDWGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*qkNormRopeArgs)(args)
	H, M, E := int(a.H), int(a.H+a.K), int(a.E)
	tiles := blocks(E/2, pairTile)
	for item := lo; item < hi; item++ {
		dw, h0, h1 := a.DWQ, 0, H
		if item >= tiles {
			dw, h0, h1 = a.DWK, H, M
		}
		at := m.Keep()
		i := item % tiles * pairTile
		n := min(pairTile, E/2-i)
		leaf := m.ScratchF32(2 * n)
		for t0 := 0; t0 < int(a.T); t0 += rowBlock {
			clear(leaf)
			for t := t0; t < min(t0+rowBlock, int(a.T)); t++ {
				qkNormRopeDWRow(m, a, leaf, t, h0, h1, i)
			}
			accumulate(m.F32(dw+Ptr(4*i), n), leaf[:n])
			accumulate(m.F32(dw+Ptr(4*(i+E/2)), n), leaf[n:])
		}
		m.Reset(at)
	}
}

// qkNormRopeDWRow adds what heads h0 to h1 of row t give to the pairs from i on.
func qkNormRopeDWRow(m *Memory, a *qkNormRopeArgs, leaf []float32, t, h0, h1, i int) {
	p := indexAt(m.I32(a.Pos, int(a.T)), t, int(a.N), "position")
	if p < 0 {
		return
	}
	n, M, N, E, dt := len(leaf)/2, int(a.H+a.K), int(a.H+2*a.K), int(a.E), DType(a.DType)
	cos, sin := m.F32(a.Cos+Ptr(4*(p*E/2+i)), n), m.F32(a.Sin+Ptr(4*(p*E/2+i)), n)
	rstd := m.F32(a.Rstd+Ptr(4*t*M), M)
	at := m.Keep()
	x, dy := m.Load(a.QKV, dt, (t*N+h0)*E, (h1-h0)*E), m.Load(a.Out, dt, (t*N+h0)*E, (h1-h0)*E)
	for h := h0; h < h1; h++ {
		k := (h-h0)*E + i
		addTurnedBack(leaf, x[k:], dy[k:], E/2, cos, sin, rstd[h])
	}
	m.Reset(at)
}

// addTurnedBack adds x·r times the gradient dy, turned back, for the pairs that lie half apart. leaf is first halves,
// then second ones.
func addTurnedBack(leaf, x, dy []float32, half int, cos, sin []float32, r float32) {
	n := len(cos)
	x0, x1, y0, y1, l0, l1, sin := x[:n], x[half:][:n], dy[:n], dy[half:][:n], leaf[:n], leaf[n:][:n], sin[:n]
	for j, c := range cos {
		a, b, s := y0[j], y1[j], sin[j]
		l0[j] += float32(float32(x0[j]*r) * (float32(a*c) + float32(b*s)))
		l1[j] += float32(float32(x1[j]*r) * (float32(b*c) - float32(a*s)))
	}
}
