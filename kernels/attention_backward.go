package kernels

import "unsafe"

// AttentionBackward is the gradient of Attention for whole sequences: their first row in the batch has position 0. With
// p = exp2(fma(s, c, -lse)) and the s of the forward,
//
//	delta   (T, H) F32        = dout·out (dots); scratch
//	dv                        = Σ p·dout
//	ds                        = p·(dout·v - delta)·scale
//	dq, dk                    = Σ ds·k, Σ ds·q
//	dqkv    (T, H+2·K, E)     = dq, dk, dv: the gradients of the roped q, the roped k, and v; zero for padding rows
//
// where p and ds are rounded to the dtype before the three sums, which are chains in float32 that are rounded once. That
// of dq takes the keys in order. Those of dk and dv take the rows that see the key in order, and of a row its H/K heads
// in order; in bfloat16 pairs begin anew at every sixteenth row of the sequence and at the first row that sees the key.
// A sequence's gradient does not depend on what else is in the batch.
//
//	dout  (T, H, E); out, lse, qk, kv, b, layer, scale as they were in Attention
func AttentionBackward(q Queue, dqkv, dout, out, lse, qk, kv Tensor, b AttentionBatch, layer int, scale float32, delta Tensor) {
	d := dims{op: "AttentionBackward"}
	a := attentionBackwardArgs{}
	a.rows, a.pages = attentionDims(&d, out, qk, kv, b, layer, scale)
	d.want(dqkv, "dqkv", "T H+2K E", out.DType)
	d.want(dout, "dout", "T H E", out.DType)
	d.want(lse, "lse", "T H", F32)
	d.want(delta, "delta", "T H", F32)
	a.dqkv, a.delta, a.dout, a.out, a.lse, a.qk = dqkv.Ptr, delta.Ptr, dout.Ptr, out.Ptr, lse.Ptr, qk.Ptr
	a.first, a.count = b.First.Ptr, b.Count.Ptr
	launch(q, &attentionDeltaOp, blocks(int(a.rows.T), attentionRows), a)
	launch(q, &attentionBackwardOp, int(a.pages.S*a.pages.K), a)
}

type attentionBackwardArgs struct {
	dqkv         Ptr // (T, H+2K, E)
	delta        Ptr // (T, H)
	dout, out    Ptr // (T, H, E)
	lse          Ptr // (T, H)
	qk           Ptr // (T, H+K, E)
	first, count Ptr // (S)
	rows         rowsArgs
	pages        pagesArgs
}

var (
	attentionDeltaOp    = Op{Name: "attention_delta", Size: unsafe.Sizeof(attentionBackwardArgs{}), CPU: attentionDeltaGo, CUDA: attentionDeltaGrid}
	attentionBackwardOp = Op{Name: "attention_backward", Size: unsafe.Sizeof(attentionBackwardArgs{}), CPU: attentionBackwardGo, CUDA: attentionBackwardGrid}
)

func attentionDeltaGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*attentionBackwardArgs)(args)
	if _, E := headSuffix(&a.pages); E == 0 {
		return Grid{}
	}
	return Grid{X: int(a.rows.T), Y: 1, Threads: 128}
}

// attentionBackwardGrid has a block for every page of keys, then one for every window of rows, of every key head.
func attentionBackwardGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*attentionBackwardArgs)(args)
	suffix, E := headSuffix(&a.pages)
	G := int(a.rows.H / a.pages.K)
	if E == 0 || G > attentionQueries {
		return Grid{}
	}
	const stages = 2
	return Grid{
		Kernel: "attention_backward" + suffix, X: int(a.pages.S*a.pages.N) + blocks(int(a.rows.T), attentionQueries/G), Y: int(a.pages.K), Threads: 128,
		Shared: (2+2*stages)*attentionQueries*E*2 + stages*2*attentionQueries*4,
	}
}

// attentionDeltaGo also writes the padding rows' gradients, since no sequence owns them.
func attentionDeltaGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*attentionBackwardArgs)(args)
	T, H, E, dtype := int(a.rows.T), int(a.rows.H), int(a.pages.E), DType(a.pages.dtype)
	width := (H + 2*int(a.pages.K)) * E
	seq, delta := m.I32(a.rows.seq, T), m.F32(a.delta, T*H)
	for t := lo * attentionRows; t < min(hi*attentionRows, T); t++ {
		if seq[t] < 0 {
			m.elems(a.dqkv, dtype, t*width, width).zero()
			clear(delta[t*H:][:H])
			continue
		}
		for h := range H {
			dout, out := m.elems(a.dout, dtype, (t*H+h)*E, E), m.elems(a.out, dtype, (t*H+h)*E, E)
			m.dots(delta[t*H+h:], 1, dout, E, out, E, 1, 1, E)
		}
	}
}

// attentionBackwardGo computes items of one sequence and one key head. A worker needs 8·n·E bytes for the gradients of
// the keys and values of n rows, and nothing that grows with n².
func attentionBackwardGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*attentionBackwardArgs)(args)
	S, K, E, dtype := int(a.pages.S), int(a.pages.K), int(a.pages.E), DType(a.pages.dtype)
	H := int(a.rows.H)
	first, count := m.I32(a.first, S), m.I32(a.count, S)
	for i := lo; i < hi; i++ {
		s, k := i/K, i%K
		t, n := int(first[s]), int(count[s])
		if n == 0 {
			continue
		}
		at := m.Keep()
		dk, dv := m.ScratchF32(n*E), m.ScratchF32(n*E)
		clear(dk)
		clear(dv)
		g := attentionGrad{attentionBackwardArgs: a, m: m, G: H / K, E: E, s: s, k: k}
		g.allocate(min(n, attentionRows))
		for r := 0; r < n; r += attentionRows {
			g.rows16(dk, dv, t, r, min(attentionRows, n-r))
		}
		for r := range n {
			m.Store(a.dqkv, dtype, ((t+r)*(H+2*K)+H+k)*E, dk[r*E:][:E])
			m.Store(a.dqkv, dtype, ((t+r)*(H+2*K)+H+K+k)*E, dv[r*E:][:E])
		}
		m.Reset(at)
	}
}

// attentionGrad is what an item keeps between blocks of rows. A block has R·G queries; query r·G+g is head k·G+g of the
// block's row r.
type attentionGrad struct {
	*attentionBackwardArgs
	m          *Memory
	G, E, s, k int

	sums  []float32 // (16): of p, not needed since lse is known
	dq    []float32 // (queries, E)
	p     []float32 // (queries, 64): scores, then probabilities, for a page of keys
	ds    []float32 // (queries, 64): dout·v, then the gradient of the scaled scores
	row   elems     // (64): p of one query, rounded
	dsRow elems     // (queries, 64): ds, rounded
	pT    elems     // (64, queries): p, rounded
	dsT   elems     // (64, queries): ds, rounded
}

func (g *attentionGrad) allocate(R int) {
	m, dtype, n := g.m, DType(g.pages.dtype), R*g.G
	g.sums = m.ScratchF32(16)
	clear(g.sums)
	g.dq = m.ScratchF32(n * g.E)
	g.p, g.ds = m.ScratchF32(n*PageTokens), m.ScratchF32(n*PageTokens)
	g.row, g.dsRow = m.scratchElems(dtype, PageTokens), m.scratchElems(dtype, n*PageTokens)
	g.pT, g.dsT = m.scratchElems(dtype, n*PageTokens), m.scratchElems(dtype, n*PageTokens)
}

// rows16 takes R rows of the sequence from row r on, whose first row in the batch is t: it writes their dq and adds to
// dk and dv (n, E) of all keys that they see.
func (g *attentionGrad) rows16(dk, dv []float32, t, r, R int) {
	m, G, E, dtype := g.m, g.G, g.E, DType(g.pages.dtype)
	H, K, n := int(g.attentionBackwardArgs.rows.H), int(g.pages.K), R*g.G
	at := m.Keep()
	q := gather(m, g.qk, dtype, t+r, R, (H+K)*E, g.k*G*E, G*E)
	dout := gather(m, g.dout, dtype, t+r, R, H*E, g.k*G*E, G*E)
	clear(g.dq[:n*E])
	for j := 0; j < r+R; j += PageTokens {
		keys, values := g.pages.plane(m, g.s, j/PageTokens, 0, g.k), g.pages.plane(m, g.s, j/PageTokens, 1, g.k)
		N := min(PageTokens, r+R-j)
		m.dots(g.p, PageTokens, q, E, keys, E, n, N, E)
		m.dots(g.ds, PageTokens, dout, E, values, E, n, N, E)
		for i := range R {
			g.row16(t+r+i, i, min(N, r+i+1-j), n)
		}
		causalChain(m, g.dq, g.dsRow, PageTokens, keys, R, G, E, r+1-j)
		all := min(max(r+1-j, 0), N) // keys that every row of the block sees
		m.chain(dv[j*E:], E, g.pT, n, dout, E, all, E, n)
		m.chain(dk[j*E:], E, g.dsT, n, q, E, all, E, n)
		for key := all; key < N; key++ {
			from := (j + key - r) * G
			m.chain(dv[(j+key)*E:], E, g.pT.from(key*n+from), n, dout.from(from*E), E, 1, E, n-from)
			m.chain(dk[(j+key)*E:], E, g.dsT.from(key*n+from), n, q.from(from*E), E, 1, E, n-from)
		}
	}
	for i := range R {
		m.Store(g.dqkv, dtype, ((t+r+i)*(H+2*K)+g.k*G)*E, g.dq[i*G*E:][:G*E])
	}
	m.Reset(at)
}

// row16 turns the scores and dout·v of the block's row i, row t of the batch, into p and ds for the first N keys of the
// page, and leaves them rounded: ds as rows, both transposed with n queries to a key.
func (g *attentionGrad) row16(t, i, N, n int) {
	if N <= 0 {
		return
	}
	a, m := g.attentionBackwardArgs, g.m
	for h := range g.G {
		query, head := i*g.G+h, t*int(a.rows.H)+g.k*g.G+h
		lse, delta := m.F32(a.lse+Ptr(4*head), 1)[0], m.F32(a.delta+Ptr(4*head), 1)[0]
		p, ds := g.p[query*PageTokens:][:N], g.ds[query*PageTokens:][:N]
		m.vec.exp2Sum(p, p, a.rows.c, -lse, (*[16]float32)(g.sums))
		for j := range ds {
			ds[j] = float32(p[j]*(ds[j]-delta)) * a.rows.scale
		}
		g.row.round(m, p)
		g.dsRow.from(query*PageTokens).round(m, ds)
		g.pT.from(query).column(n, g.row, N)
		g.dsT.from(query).column(n, g.dsRow.from(query*PageTokens), N)
	}
}
