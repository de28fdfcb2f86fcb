package kernels

import (
	"fmt"
	"unsafe"
)

// LogProbBackward is the gradient of LogProb. It computes the logits again, in chunks of C of the vocabulary: the
// gradient dz of a chunk's logits is written, rounded to x's dtype, and goes into dx and dw from there.
//
//	p_j  = exp(u_j - lse)
//	dz_j = invT·(dlogp·([j = target] - p_j) - dentropy·p_j·(u_j - lse + entropy))
//	dx   = dz·w (R, D), one chain over the vocabulary in float32, rounded at the end
//	dw  += dzᵀ·x (V, D), a chain over the rows from its value on
//
// p is off by what lse was rounded by, half a unit in its last place. Rows whose target is -1, and rows whose dlogp and
// dentropy are both 0, have dz = 0 whatever their logits are.
//
//	dx       (R, D) =   x's dtype
//	dw       (V, D) +=  F32
//	dlogp    (R)        F32
//	dentropy (R)        F32, or the zero Tensor; then entropy may be it too
//	lse, entropy (R)    F32, from LogProb
//	x        (R, D)     BF16 or F32
//	w        (V, D)     x's dtype
//	target   (R)        I32
//	dz       (R, C)     scratch of x's dtype; C is even unless it covers the vocabulary
//	dxacc    (R, D)     scratch, F32
func LogProbBackward(q Queue, dx, dw, dlogp, dentropy, lse, entropy, x, w, target Tensor, invT float32, dz, dxacc Tensor) {
	d := dims{op: "LogProbBackward"}
	d.want(x, "x", "R D", BF16, F32)
	d.want(w, "w", "V D", x.DType)
	d.want(target, "target", "R", I32)
	d.want(dx, "dx", "R D", x.DType)
	d.want(dw, "dw", "V D", F32)
	d.want(dlogp, "dlogp", "R", F32)
	d.want(lse, "lse", "R", F32)
	if dentropy.Ptr != 0 {
		d.want(dentropy, "dentropy", "R", F32)
		d.want(entropy, "entropy", "R", F32)
	}
	d.want(dz, "dz", "R C", x.DType)
	d.want(dxacc, "dxacc", "R D", F32)
	R, V, D, C := x.Shape[0], w.Shape[0], x.Shape[1], dz.Shape[1]
	if C < V && C%2 != 0 {
		panic(fmt.Sprintf("LogProbBackward: dz is %v: a chunk of %d would split a pair of the chain over [V] = [%d]", dz.Dims(), C, V))
	}
	rows := linearRows(R, D, x.DType)
	for at := 0; at < V; at += C {
		ld, C := C, min(C, V-at)
		chunk, part := NewTensor(dz.Ptr, dz.DType, R, C), w.Rows(at, at+C) // whose rows are as far apart as dz's
		cols := linearCols(rows, C, D)
		launch(q, &logProbDZOp, blocks(R, rows)*blocks(C, cols), logProbDZArgs{
			dz: chunk.Ptr, dlogp: dlogp.Ptr, dentropy: dentropy.Ptr, lse: lse.Ptr, entropy: entropy.Ptr,
			x: x.Ptr, w: part.Ptr, target: target.Ptr,
			R: int32(R), C: int32(C), D: int32(D), ld: int32(ld), at: int32(at), rows: int32(rows), cols: int32(cols),
			dtype: int32(x.DType), invT: invT,
		})
		var last Tensor
		if at+C == V {
			last = dx
		}
		linearDX(q, last, dxacc, chunk, ld, part, at == 0)
		linearDW(q, dw.Rows(at, at+C), chunk, ld, x)
	}
}

type logProbDZArgs struct {
	dz, dlogp, dentropy, lse, entropy, x, w, target Ptr
	R, C, D                                         int32
	ld                                              int32 // between rows of dz
	at                                              int32 // the chunk's first token; w starts there
	rows, cols                                      int32 // of an item's part of dz
	dtype                                           int32
	invT                                            float32
	_                                               int32
}

var logProbDZOp = Op{Name: "logprob_dz", Size: unsafe.Sizeof(logProbDZArgs{}), CPU: logProbDZGo, CUDA: logProbDZGrid}

func logProbDZGrid(gpu GPU, args unsafe.Pointer) Grid {
	a := (*logProbDZArgs)(args)
	if DType(a.dtype) != BF16 {
		return Grid{}
	}
	x, w := alongBox(a.x, a.R, a.D, a.D, gemmSM90.rows), alongBox(a.w, a.C, a.D, a.D, gemmSM90.cols)
	if g, ok := gemmSM90.boxed(gpu, "logprob_dz_sm90", a.R, a.C, x, w); ok && a.C%2 == 0 && a.ld%2 == 0 && a.dz%4 == 0 {
		return g
	}
	g := gemm128.grid("logprob_dz", a.R, a.C)
	g.Kernel = ""
	return g
}

func logProbDZGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*logProbDZArgs)(args)
	C, D, d := int(a.C), int(a.D), DType(a.dtype)
	across := blocks(C, int(a.cols))
	for i := lo; i < hi; i++ {
		keep := m.Keep()
		r, c := i/across*int(a.rows), i%across*int(a.cols)
		n, cols := min(int(a.rows), int(a.R)-r), min(int(a.cols), C-c)
		ld := wholeLanes(cols)
		z := m.ScratchF32(n * ld)
		m.dots(z, ld, m.elems(a.x, d, r*D, n*D), D, m.elems(a.w, d, c*D, cols*D), D, n, cols, D)
		p := m.ScratchF32(ld)
		for j := range n {
			z := z[j*ld:][:cols]
			a.row(m, p, z, r+j, int(a.at)+c)
			m.elems(a.dz, d, (r+j)*int(a.ld)+c, cols).round(m, z)
		}
		m.Reset(keep)
	}
}

// row turns logits z of row r, the first of which is token first's, into their gradient. z has room for whole lanes.
func (a *logProbDZArgs) row(m *Memory, p, z []float32, r, first int) {
	at := Ptr(4 * r)
	target, dlogp := m.I32(a.target+at, 1)[0], m.F32(a.dlogp+at, 1)[0]*a.invT
	var dentropy, entropy float32
	if a.dentropy != 0 {
		dentropy, entropy = m.F32(a.dentropy+at, 1)[0]*a.invT, m.F32(a.entropy+at, 1)[0]
	}
	if target < 0 || dlogp == 0 && dentropy == 0 {
		clear(z)
		return
	}
	lse := m.F32(a.lse+at, 1)[0]
	for j, x := range z {
		v := float32(x*a.invT) - lse
		if v < floor {
			v = floor
		}
		z[j] = v
	}
	m.exps(p, z[:len(p)], len(z))
	own := int(target) - first
	if own < 0 || own >= len(z) {
		own = -1
	}
	for j, p := range p[:len(z)] {
		d := -float32(dlogp * p)
		if j == own {
			d = float32(dlogp * float32(1-p))
		}
		z[j] = d - float32(float32(dentropy*p)*float32(z[j]+entropy))
	}
}
