package kernels

import "unsafe"

// columnTile is how many columns an item covers where every output sums over all rows.
const columnTile = 64

// Embedding looks tokens up: out[t] = w[tokens[t]], exact. Token -1 gives zeros.
//
//	out     (T, D)      =
//	tokens  (T) I32
//	w       (V, D)      out's dtype
func Embedding(q Queue, out, tokens, w Tensor) {
	b := dims{op: "Embedding"}
	b.want(out, "out", "T D", F32, BF16)
	b.want(tokens, "tokens", "T", I32)
	b.want(w, "w", "V D", out.DType)
	launch(q, &embeddingOp, blocks(out.Shape[0], rowBlock), embeddingArgs{
		Out: out.Ptr, Tokens: tokens.Ptr, W: w.Ptr,
		T: int32(out.Shape[0]), D: int32(out.Shape[1]), V: int32(w.Shape[0]), DType: int32(out.DType),
	})
}

// EmbeddingBackward adds every row's gradient to its token's: dw[tokens[t]] += dout[t], t ascending.
//
//	dw      (V, D) F32  +=
//	dout    (T, D)
//	tokens  (T) I32     -1 is skipped
func EmbeddingBackward(q Queue, dw, dout, tokens Tensor) {
	b := dims{op: "EmbeddingBackward"}
	b.want(dw, "dw", "V D", F32)
	b.want(dout, "dout", "T D", F32, BF16)
	b.want(tokens, "tokens", "T", I32)
	launch(q, &embeddingBackwardOp, blocks(dw.Shape[1], columnTile), embeddingArgs{
		Out: dout.Ptr, Tokens: tokens.Ptr, W: dw.Ptr,
		T: int32(dout.Shape[0]), D: int32(dout.Shape[1]), V: int32(dw.Shape[0]), DType: int32(dout.DType),
	})
}

type embeddingArgs struct {
	Out    Ptr // (T, D); backward dout
	Tokens Ptr // (T)
	W      Ptr // (V, D); backward dw
	T      int32
	D      int32
	V      int32
	DType  int32
}

var (
	embeddingOp         = Op{Name: "embedding", Size: unsafe.Sizeof(embeddingArgs{}), CPU: embeddingGo, CUDA: embeddingGrid}
	embeddingBackwardOp = Op{Name: "embedding_backward", Size: unsafe.Sizeof(embeddingArgs{}), CPU: embeddingBackwardGo, CUDA: embeddingBackwardGrid}
)

func embeddingGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*embeddingArgs)(args)
	T, size := int(a.T), int(a.D)*DType(a.DType).Size()
	tokens := m.I32(a.Tokens, T)
	for t := lo * rowBlock; t < min(hi*rowBlock, T); t++ {
		copyRow(m, a.Out, t, a.W, indexAt(tokens, t, int(a.V), "token"), size)
	}
}

// Items are columns: tokens repeat, so rows of dw can't be shared out.
func embeddingBackwardGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*embeddingArgs)(args)
	D, d := int(a.D), lo*columnTile
	n := min(hi*columnTile, D) - d
	tokens := m.I32(a.Tokens, int(a.T))
	for t := range tokens {
		v := indexAt(tokens, t, int(a.V), "token")
		if v < 0 {
			continue
		}
		at := m.Keep()
		accumulate(m.F32(a.W+Ptr(4*(v*D+d)), n), m.Load(a.Out, DType(a.DType), t*D+d, n))
		m.Reset(at)
	}
}

func embeddingGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*embeddingArgs)(args)
	return copyGrid("embedding", int(a.T), int(a.D)*DType(a.DType).Size(), a.Out, a.W)
}

func embeddingBackwardGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*embeddingArgs)(args)
	if DType(a.DType) != BF16 {
		return Grid{}
	}
	return Grid{
		Kernel: wide("embedding_backward", 2*int64(a.D), a.Out, a.W),
		X:      int(a.T), Y: blocks(int(a.D), 8*gpuThreads), Threads: gpuThreads, Shared: 4 * 2 * 32,
	}
}
