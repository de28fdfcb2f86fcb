package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// A pagedCache is pages on a device, poisoned where nothing was appended, and a table that scatters sequences over them.
type pagedCache struct {
	d       *kerneltest.Device
	kv      kernels.Tensor // (L, pages, 2K, 64E)
	table   []int32        // (S, N), -1 beyond a sequence's end
	S, N    int
	H, K, E int
}

const cacheLayers, cacheLayer = 2, 1

// newCache scatters the sequences' pages by perm, a source of its own so that every device gets the same layout.
func newCache(d *kerneltest.Device, seqs []*sequence, perm *rand.Rand) *pagedCache {
	c := &pagedCache{d: d, S: len(seqs), N: 1, H: seqs[0].H, K: seqs[0].K, E: seqs[0].E}
	pages := 1
	for _, s := range seqs {
		c.N = max(c.N, (s.n+kernels.PageTokens-1)/kernels.PageTokens)
	}
	pages += c.S * c.N
	free := perm.Perm(pages)
	for _, s := range seqs {
		for i := range c.N {
			page := int32(-1)
			if i*kernels.PageTokens < s.n {
				page, free = int32(free[0]), free[1:]
			}
			c.table = append(c.table, page)
		}
	}
	c.kv = d.Tensor(seqs[0].dtype, cacheLayers, pages, 2*c.K, kernels.PageTokens*c.E)
	return c
}

// A piece is rows lo to hi of a sequence; sequence -1 is hi-lo padding rows.
type piece struct{ seq, lo, hi int }

// wholeSequences packs whole sequences as training does: each starts at a multiple of 16 rows.
func wholeSequences(seqs []*sequence) []piece {
	var ps []piece
	for i, s := range seqs {
		ps = append(ps, piece{i, 0, s.n})
		if pad := -s.n & 15; pad > 0 {
			ps = append(ps, piece{-1, 0, pad})
		}
	}
	return ps
}

// A packed is a batch on a device.
type packed struct {
	kernels.AttentionBatch
	T, H, K, E          int
	qk, qkv, dout       kernels.Tensor // (T, H+K, E), (T, H+2K, E), (T, H, E)
	out, lse            kernels.Tensor // (T, H, E), (T, H)
	dqkv, delta         kernels.Tensor // (T, H+2K, E), (T, H)
	pieces              []piece
	rowOfPiece          []int
	outputs, logSumExps []float32
}

// pack puts the pieces into a batch one behind the other. Padding rows of the inputs are NaN.
func (c *pagedCache) pack(seqs []*sequence, pieces []piece) *packed {
	b := &packed{H: c.H, K: c.K, E: c.E, pieces: pieces}
	var pos, seq []int32
	first, count := make([]int32, c.S), make([]int32, c.S)
	var qk, qkv, dout []float32
	for _, p := range pieces {
		b.rowOfPiece = append(b.rowOfPiece, len(pos))
		if p.seq >= 0 {
			first[p.seq], count[p.seq] = int32(len(pos)), int32(p.hi-p.lo)
		}
		for i := p.lo; i < p.hi; i++ {
			pos, seq = append(pos, int32(i)), append(seq, int32(p.seq))
			q, do, k, v := nanValues(c.H*c.E), nanValues(c.H*c.E), nanValues(c.K*c.E), nanValues(c.K*c.E)
			if p.seq >= 0 {
				s := seqs[p.seq]
				q, do = float32s(s.q[i*c.H*c.E:][:c.H*c.E]), float32s(s.dout[i*c.H*c.E:][:c.H*c.E])
				k, v = float32s(s.k[i*c.K*c.E:][:c.K*c.E]), float32s(s.v[i*c.K*c.E:][:c.K*c.E])
			}
			qk = append(append(qk, q...), k...)
			qkv = append(append(append(qkv, nanValues(c.H*c.E)...), nanValues(c.K*c.E)...), v...) // the raw q and k are not read
			dout = append(dout, do...)
		}
	}
	d, T, dtype := c.d, len(pos), c.kv.DType
	b.T = T
	b.Pos, b.Seq = d.PutI32(pos, T), d.PutI32(seq, T)
	b.First, b.Count = d.PutI32(first, c.S), d.PutI32(count, c.S)
	b.Table = d.PutI32(c.table, c.S, c.N)
	b.qk, b.qkv = d.Put(dtype, qk, T, c.H+c.K, c.E), d.Put(dtype, qkv, T, c.H+2*c.K, c.E)
	b.dout, b.out = d.Put(dtype, dout, T, c.H, c.E), d.Tensor(dtype, T, c.H, c.E)
	b.lse, b.delta = d.Tensor(kernels.F32, T, c.H), d.Tensor(kernels.F32, T, c.H)
	b.dqkv = d.Tensor(dtype, T, c.H+2*c.K, c.E)
	return b
}

// forward appends and attends.
func (c *pagedCache) forward(b *packed, scale float64) {
	kernels.Append(c.d.Q, c.kv, b.qk, b.qkv, b.AttentionBatch, cacheLayer)
	kernels.Attention(c.d.Q, b.out, b.lse, b.qk, c.kv, b.AttentionBatch, cacheLayer, float32(scale))
	b.outputs, b.logSumExps = c.d.Get(b.out), c.d.Get(b.lse)
}

// backward follows forward.
func (c *pagedCache) backward(b *packed, scale float64) []float32 {
	kernels.AttentionBackward(c.d.Q, b.dqkv, b.dout, b.out, b.lse, b.qk, c.kv, b.AttentionBatch, cacheLayer, float32(scale), b.delta)
	return c.d.Get(b.dqkv)
}

// rowsOf is the part of x (T, width) of rows [at, at+n).
func rowsOf(x []float32, width, at, n int) []float32 { return x[at*width : (at+n)*width] }

// headsOf is heads lo to hi of x (n, H, E).
func headsOf(x []float32, n, H, E, lo, hi int) []float32 {
	var y []float32
	for i := range n {
		y = append(y, x[(i*H+lo)*E:(i*H+hi)*E]...)
	}
	return y
}

func float32s(x []float64) []float32 {
	y := make([]float32, len(x))
	for i := range x {
		y[i] = float32(x[i])
	}
	return y
}

func nanValues(n int) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(math.NaN())
	}
	return x
}

// wantZeros fails unless x is zeros.
func wantZeros(t *testing.T, name string, x []float32) {
	t.Helper()
	kerneltest.Same(t, name, x, make([]float32, len(x)))
}
