package kernels

import (
	"fmt"
	"math"
	"unsafe"
)

// Attention is causal attention through the cache: a row at position p of its sequence attends the keys at positions 0
// to p, its own included (Append them first). Query heads k·H/K to (k+1)·H/K-1 share key and value head k.
//
//	out    (T, H, E)   = softmax(scale·q·kᵀ)·v, zero for padding rows
//	lse    (T, H) F32  = log2 Σ exp2(scale·log2 e·q·k), for the backward; optional; zero for padding rows
//	qk     (T, H+K, E)           q and k after norm and RoPE; the first H heads are read
//	kv     (L, pages, 2·K, 64·E)
//	scale  positive
//
// What a row gets depends on its query and its keys alone, in bits: neither on the rows beside it nor on which pages
// hold the keys. For a row and a head, c = scale·log2 e, and tiles of 128 keys from position 0 on:
//
//	s = q·k (dots);  m = max(m, max s·c);  p = exp2(fma(s, c, -m));  α = exp2(m before - m)
//	L[j%16] = L[j%16]·α, then + p, keys j ascending, on 16 lanes
//	O = O·α, then a chain over the keys of p, rounded to the dtype, times v
//
// and last out = O / fold(L), lse = m + log2 fold(L). Keys that a row does not see are left out, never added as zeros:
// what stale pages hold does not matter.
func Attention(q Queue, out, lse, qk, kv Tensor, b AttentionBatch, layer int, scale float32) {
	d := dims{op: "Attention"}
	a := attentionArgs{}
	a.rows, a.pages = attentionDims(&d, out, qk, kv, b, layer, scale)
	if lse.Ptr != 0 {
		d.want(lse, "lse", "T H", F32)
	}
	a.out, a.lse, a.qk = out.Ptr, lse.Ptr, qk.Ptr
	a.block = attentionRows
	if a.rows.T <= a.pages.S {
		a.block = 1 // decoding: rows of different sequences share nothing
	}
	launch(q, &attentionOp, blocks(int(a.rows.T), int(a.block))*int(a.pages.K), a)
}

// attentionDims holds what forward and backward share.
func attentionDims(d *dims, out, qk, kv Tensor, b AttentionBatch, layer int, scale float32) (rowsArgs, pagesArgs) {
	H, K, E := out.Shape[1], kv.Shape[2]/2, out.Shape[2]
	if K == 0 || H%K != 0 || !(scale > 0) {
		panic(fmt.Sprintf("%s: H=%d, K=%d, scale=%v: want H a multiple of K and a positive scale", d.op, H, K, scale))
	}
	d.bindHeads(H, K, E)
	d.want(out, "out", "T H E", F32, BF16)
	d.want(qk, "qk", "T H+K E", out.DType)
	pages := b.want(d, kv, layer, out.DType)
	rows := rowsArgs{pos: b.Pos.Ptr, seq: b.Seq.Ptr, T: int32(d.at["T"]), H: int32(H), scale: scale}
	rows.c = float32(float64(scale) * log2e)
	return rows, pages
}

const (
	// attentionTile keys lie between two rescalings. The bits depend on it.
	attentionTile = 128
	// attentionRows rows of the batch and one key head form an item, so that H/K·16 queries share a key in cache.
	attentionRows = 16
)

// rowsArgs is the part of an argument struct that says what the batch's rows are.
type rowsArgs struct {
	pos, seq Ptr // (T)
	T, H     int32
	scale, c float32 // c is scale·log2 e
}

type attentionArgs struct {
	out   Ptr // (T, H, E)
	lse   Ptr // (T, H) or 0
	qk    Ptr // (T, H+K, E)
	rows  rowsArgs
	pages pagesArgs
	block int32 // rows of an item
	_     int32
}

var attentionOp = Op{Name: "attention", Size: unsafe.Sizeof(attentionArgs{}), CPU: attentionGo, CUDA: attentionGrid}

// attentionGrid has a block for every key head and every window of rows that make as many queries as a block has; single
// rows have one each.
func attentionGrid(gpu GPU, args unsafe.Pointer) Grid {
	a := (*attentionArgs)(args)
	suffix, E := headSuffix(&a.pages)
	G := int(a.rows.H / a.pages.K)
	if E == 0 || G > attentionQueries {
		return Grid{}
	}
	g := Grid{Kernel: "attention" + suffix, X: blocks(int(a.rows.T), attentionQueries/G), Y: int(a.pages.K), Threads: 128}
	if a.block == 1 && G <= 16 {
		g.Kernel, g.X = "attention_decode"+suffix, int(a.rows.T)
		g.Shared = 16*E*2 + 16*attentionTile*2 + 4*16*4*2 + 3*attentionTile*E*2
	} else if gpu.Hopper && a.pages.E == 128 && a.pages.kv%16 == 0 && a.qk%16 == 0 {
		g.Kernel, g.X, g.Threads, g.Shared = "attention_sm90", blocks(int(a.rows.T), 2*attentionQueries/G), 384, 1024+2*attentionQueries*E*2+4*attentionTile*E*2
		rows := int(a.pages.pages) * 2 * int(a.pages.K) * PageTokens
		g.Boxes[0] = Box{Ptr: a.pages.kv, Rows: rows, Cols: E, Line: E, BoxRows: PageTokens}
	} else {
		g.Shared = attentionQueries*E*2 + 4*PageTokens*E*2
	}
	return g
}

// attentionQueries is how many queries a block of attention.cu has.
const attentionQueries = 64

// headSuffix is the width of head that a kernel is built for, which may be wider than the model's; 0 if there is none.
func headSuffix(a *pagesArgs) (suffix string, E int) {
	switch {
	case DType(a.dtype) != BF16 || a.E > 128:
		return "", 0
	case a.E > 64:
		return "_128", 128
	}
	return "_64", 64
}

func attentionGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*attentionArgs)(args)
	T := int(a.rows.T)
	pos, seq := m.I32(a.rows.pos, T), m.I32(a.rows.seq, T)
	block := int(a.block)
	n := blocks(T, block)
	for i := lo; i < hi; i++ {
		// A head's blocks follow each other, so that its keys stay in cache; the last, longest ones come first.
		k, t := i/n, (n-1-i%n)*block
		for end := min(t+block, T); t < end; {
			R := 1
			for t+R < end && seq[t+R] == seq[t] && pos[t+R] == pos[t]+int32(R) {
				R++
			}
			if seq[t] < 0 {
				R = 1
				a.skip(m, t, k)
			} else {
				at := m.Keep()
				a.attend(m, t, R, k, int(seq[t]), int(pos[t]))
				m.Reset(at)
			}
			t += R
		}
	}
}

// skip writes the zeros of a padding row.
func (a *attentionArgs) skip(m *Memory, t, k int) {
	H, E := int(a.rows.H), int(a.pages.E)
	G := H / int(a.pages.K)
	m.elems(a.out, DType(a.pages.dtype), (t*H+k*G)*E, G*E).zero()
	if a.lse != 0 {
		clear(m.F32(a.lse+Ptr(4*(t*H+k*G)), G))
	}
}

// attend computes rows t to t+R of sequence s, at positions pos and on, for the G heads of key head k. Query r·G+g of
// the R·G is row t+r's head k·G+g.
func (a *attentionArgs) attend(m *Memory, t, R, k, s, pos int) {
	H, E := int(a.rows.H), int(a.pages.E)
	G := H / int(a.pages.K)
	o := softmax{
		scores: m.ScratchF32(R * G * attentionTile),
		out:    m.ScratchF32(R * G * E), sums: m.ScratchF32(R * G * 16), tops: m.ScratchF32(R * G),
		c: a.rows.c, E: E,
	}
	o.probs.f32 = o.scores
	if DType(a.pages.dtype) == BF16 {
		o.probs = m.scratchElems(BF16, R*G*attentionTile)
	}
	clear(o.out)
	clear(o.sums)
	for i := range o.tops {
		o.tops[i] = float32(math.Inf(-1))
	}
	q := gather(m, a.qk, DType(a.pages.dtype), t, R, (H+int(a.pages.K))*E, k*G*E, G*E)
	keys := pos + R // of the longest row
	for j := 0; j < keys; j += attentionTile {
		for h := j; h < min(j+attentionTile, keys); h += PageTokens {
			page := a.pages.plane(m, s, h/PageTokens, 0, k)
			m.dots(o.scores[h-j:], attentionTile, q, E, page, E, R*G, min(PageTokens, keys-h), E)
		}
		for r := max(0, j-pos); r < R; r++ {
			for i := r * G; i < (r+1)*G; i++ {
				o.add(m, i, min(attentionTile, pos+r+1-j))
			}
		}
		for h := j; h < min(j+attentionTile, keys); h += PageTokens {
			page := a.pages.plane(m, s, h/PageTokens, 1, k)
			causalChain(m, o.out, o.probs.from(h-j), attentionTile, page, R, G, E, pos+1-h)
		}
	}
	for r := range R {
		for i := r * G; i < (r+1)*G; i++ {
			lse := o.finish(i)
			if a.lse != 0 {
				m.F32(a.lse+Ptr(4*((t+r)*H+k*G)), G)[i-r*G] = lse
			}
		}
		m.Store(a.out, DType(a.pages.dtype), ((t+r)*H+k*G)*E, o.out[r*G*E:][:G*E])
	}
}

// gather copies R pieces of n elements, the one of row t at off of the row's width, one behind the other.
func gather(m *Memory, p Ptr, d DType, t, R, width, off, n int) elems {
	x := m.scratchElems(d, R*n)
	for r := range R {
		x.from(r * n).copy(m.elems(p, d, (t+r)*width+off, n))
	}
	return x
}

// causalChain is acc (R·G, E) += w (R·G, 64)·page (64, E), where the G queries of row r take the page's first n+r keys;
// n may be negative, or more than the page has. What w and the page hold beyond is not read.
func causalChain(m *Memory, acc []float32, w elems, ldw int, page elems, R, G, E, n int) {
	all := min(max(n, 0), PageTokens) &^ 1 // even, so that a pair of keys is the same pair in every row
	if all > 0 {
		m.chain(acc, E, w, ldw, page, E, R*G, E, all)
	}
	for r := range R {
		if own := min(n+r, PageTokens); own > all {
			m.chain(acc[r*G*E:], E, w.from(r*G*ldw+all), ldw, page.from(all*E), E, G, E, own-all)
		}
	}
}

// softmax is the running state of a block of queries.
type softmax struct {
	scores []float32 // (queries, 128) of the tile
	probs  elems     // (queries, 128) of the tile, in the dtype; the memory of scores in F32
	out    []float32 // (queries, E), not yet divided
	sums   []float32 // (queries, 16)
	tops   []float32 // (queries): largest score so far
	c      float32
	E      int
}

// add takes the first n scores of query i into its sums and leaves their probabilities.
func (o *softmax) add(m *Memory, i, n int) {
	s := o.scores[i*attentionTile:][:n]
	sums := (*[16]float32)(o.sums[i*16:])
	if top := largest(o.tops[i], s); top > o.tops[i] {
		α := exp2(float32(o.tops[i]*o.c) - float32(top*o.c))
		o.tops[i] = top
		for j := range sums {
			sums[j] *= α
		}
		out := o.out[i*o.E:][:o.E]
		for e := range out {
			out[e] *= α
		}
	}
	m.vec.exp2Sum(s, s, o.c, -float32(o.tops[i]*o.c), sums)
	if o.probs.bf16 != nil {
		m.vec.pack(o.probs.bf16[i*attentionTile:][:n], s)
	}
}

// finish divides query i's output by its sum and returns its log-sum-exp.
func (o *softmax) finish(i int) float32 {
	sum := fold((*[16]float32)(o.sums[i*16:]))
	out := o.out[i*o.E:][:o.E]
	for e := range out {
		out[e] /= sum
	}
	return float32(o.tops[i]*o.c) + float32(math.Log2(float64(sum)))
}

// largest is the maximum of top and s; NaN are passed over (they stay in the sums). That the largest score so far comes
// in makes the branches predictable.
func largest(top float32, s []float32) float32 {
	for ; len(s) >= 4; s = s[4:] {
		if s[0] > top {
			top = s[0]
		}
		if s[1] > top {
			top = s[1]
		}
		if s[2] > top {
			top = s[2]
		}
		if s[3] > top {
			top = s[3]
		}
	}
	for _, x := range s {
		if x > top {
			top = x
		}
	}
	return top
}
