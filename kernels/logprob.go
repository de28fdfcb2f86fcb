package kernels

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// LogProb is the log-probability of each row's target under softmax(x·wᵀ·invT), with no (R, V) in memory. With
// u = dot(x, w_j)·invT, a tile being 1,024 rows of w:
//
//	top_t = max u                sum_t = Σ exp2((u - top_t)·log2e)      per tile, on 16 lanes
//	M     = max top_t            S     = Σ sum_t·exp2((top_t - M)·log2e)  tiles ascending
//	logp  = (u_target - M) - ln S      lse = M + ln S      entropy = -Σ p·ln p
//
// The sampler computes logp from the same logits by the same code. Targets of -1 are padding: logp, entropy and lse are
// 0. A row with a NaN or +Inf among its u, or nothing but -Inf, gives NaN. The entropy is accurate for rows that are
// nearly certain too.
//
//	logp    (R) =   F32
//	entropy (R) =   F32, or the zero Tensor
//	lse     (R) =   F32, saved for the backward, as is the entropy
//	x       (R, D)  BF16 or F32
//	w       (V, D)  x's dtype
//	target  (R)     I32
//	parts   (R, LogProbParts(V), 4) F32, scratch
func LogProb(q Queue, logp, entropy, lse, x, w, target Tensor, invT float32, parts Tensor) {
	d := dims{op: "LogProb"}
	d.want(x, "x", "R D", BF16, F32)
	d.want(w, "w", "V D", x.DType)
	d.want(target, "target", "R", I32)
	d.want(logp, "logp", "R", F32)
	d.want(lse, "lse", "R", F32)
	if entropy.Ptr != 0 {
		d.want(entropy, "entropy", "R", F32)
	}
	R, V, D := x.Shape[0], w.Shape[0], x.Shape[1]
	d.at["parts"] = LogProbParts(V)
	d.want(parts, "parts", "R parts 4", F32)
	rows := min(linearRows(R, D, x.DType), max(16, blocks(R, 16)*4)) // four blocks or more where R allows
	a := logProbArgs{
		logp: logp.Ptr, entropy: entropy.Ptr, lse: lse.Ptr, x: x.Ptr, w: w.Ptr, target: target.Ptr, parts: parts.Ptr,
		R: int32(R), V: int32(V), D: int32(D), rows: int32(rows), dtype: int32(x.DType), invT: invT,
	}
	launch(q, &logProbTilesOp, blocks(R, rows)*blocks(V, vocabTile), a)
	launch(q, &logProbOp, blocks(R, rowBlock), a)
}

// LogProbParts is how many quadruples LogProb keeps of a row: one for the target and one for every tile of the device that
// has the smallest.
func LogProbParts(V int) int { return 1 + blocks(V, cudaVocabTile) }

// cudaVocabTile is logprob.cu's tile.
const cudaVocabTile = 128

type logProbArgs struct {
	logp, entropy, lse Ptr // (R)
	x, w, target       Ptr // (R, D), (V, D), (R)
	parts              Ptr // (R, LogProbParts(V), 4)
	R, V, D            int32
	rows               int32 // per item
	dtype              int32
	invT               float32
}

var (
	logProbTilesOp = Op{Name: "logprob_tiles", Size: unsafe.Sizeof(logProbArgs{}), CPU: logProbTilesGo, CUDA: logProbTilesGrid}
	logProbOp      = Op{Name: "logprob", Size: unsafe.Sizeof(logProbArgs{}), CPU: logProbGo, CUDA: logProbGrid}
)

func logProbTilesGrid(gpu GPU, args unsafe.Pointer) Grid {
	a := (*logProbArgs)(args)
	if DType(a.dtype) != BF16 {
		return Grid{}
	}
	x, w := alongBox(a.x, a.R, a.D, a.D, gemmSM90.rows), alongBox(a.w, a.V, a.D, a.D, gemmSM90.cols)
	if g, ok := gemmSM90.boxed(gpu, "logprob_tiles_sm90", a.R, a.V, x, w); ok {
		return g
	}
	g := gemm128.grid("logprob_tiles", a.R, a.V)
	g.Kernel = ""
	return g
}

func logProbGrid(_ GPU, args unsafe.Pointer) Grid {
	const warps = 4 // a row each
	a := (*logProbArgs)(args)
	return Grid{X: blocks(int(a.R), warps), Y: 1, Threads: 32 * warps}
}

// row is what is kept of row r: in first the target's u, and the tiles' parts.
func (a *logProbArgs) row(m *Memory, r int) (first *[4]float32, parts [][4]float32) {
	n := LogProbParts(int(a.V))
	all := unsafe.Slice((*[4]float32)(unsafe.Pointer(&m.F32(a.parts+Ptr(16*r*n), 4*n)[0])), n)
	return &all[0], all[1 : 1+blocks(int(a.V), vocabTile)]
}

// logProbTilesGo computes items of some rows and one tile; neighbours share the tile.
func logProbTilesGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*logProbArgs)(args)
	R, V, D, d := int(a.R), int(a.V), int(a.D), DType(a.dtype)
	down := blocks(R, int(a.rows))
	for i := lo; i < hi; i++ {
		t, r := i/down, i%down*int(a.rows)
		n, at := min(int(a.rows), R-r), t*vocabTile
		C := min(vocabTile, V-at)
		target := m.I32(a.target+Ptr(4*r), n)
		if slices.Max(target) < 0 {
			continue // all padding
		}
		keep := m.Keep()
		z, p, v := m.ScratchF32(n*C), m.ScratchF32(vocabTile), m.ScratchF32(2*vocabTile)
		for j := range vocabTile {
			v[vocabTile+j] = 1 // see spreadTile
		}
		m.dots(z, C, m.elems(a.x, d, r*D, n*D), D, m.elems(a.w, d, at*D, C*D), D, n, C, D)
		for j, target := range target {
			if target < 0 {
				continue
			}
			if int(target) >= V {
				panic(fmt.Sprintf("target %d is outside the vocabulary of %d", target, V))
			}
			first, parts := a.row(m, r+j)
			z := z[j*C:][:C]
			if own := int(target) - at; own >= 0 && own < C {
				first[0] = float32(z[own] * a.invT)
			}
			part, s := m.softmaxTile(p, v, z, a.invT), spread{}
			if a.entropy != 0 && part.sum > 0 {
				s = m.spreadTile(p, v, C)
			}
			parts[t] = [4]float32{part.top, part.sum, s.rest, s.mean}
		}
		m.Reset(keep)
	}
}

func logProbGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*logProbArgs)(args)
	R, tiles := int(a.R), blocks(int(a.V), vocabTile)
	target, logp, lse := m.I32(a.target, R), m.F32(a.logp, R), m.F32(a.lse, R)
	var entropy []float32
	if a.entropy != 0 {
		entropy = m.F32(a.entropy, R)
	}
	row := logProbRow{parts: scratch[partial](m, tiles), spreads: scratch[spread](m, tiles)}
	for r := lo * rowBlock; r < min(hi*rowBlock, R); r++ {
		if target[r] < 0 {
			logp[r], lse[r] = 0, 0
			if entropy != nil {
				entropy[r] = 0
			}
			continue
		}
		first, parts := a.row(m, r)
		for t, p := range parts {
			row.parts[t], row.spreads[t] = partial{p[0], p[1]}, spread{p[2], p[3]}
		}
		top, sum := softmaxRow(row.parts)
		logp[r], lse[r] = logProb(first[0], top, sum), top+ln(sum)
		if entropy != nil {
			entropy[r] = row.entropy(top, sum)
		}
	}
}

// A logProbRow is what an item keeps of a row's logits.
type logProbRow struct {
	parts   []partial // (tiles)
	spreads []spread  // (tiles), only for the entropy
}

// spread is what the entropy needs of a tile beside its partial sum.
type spread struct {
	rest float32 // the sum without its largest term, which is 1: so small a rest is lost in the sum
	mean float32 // Σ exp2((u - top)·log2e)·(u - top)
}

// spreadTile takes p and v as softmaxTile leaves them, and v goes on with as many ones: both sums are dots with p.
func (m *Memory) spreadTile(p, v []float32, C int) spread {
	p[slices.Index(v[:C], 0)] = 0 // its v is 0, so that the mean does not miss it
	keep := m.Keep()
	out := m.ScratchF32(2)
	m.vec.dotsF32(out, 2, p, vocabTile, v, vocabTile, 1, 2, wholeLanes(C)) // beyond C, p is 0
	m.Reset(keep)
	return spread{mean: out[0], rest: out[1]}
}

// entropy is ln S - Σ e·(u - M)/S with e = exp(u - M) and S = Σ e: all terms are positive, and ln S is taken of
// S - 1, so that nothing cancels in a row that is nearly certain.
func (b *logProbRow) entropy(top, sum float32) float32 {
	if sum != sum {
		return sum
	}
	var rest, mean float64
	seen := false // the row's largest term
	for t, p := range b.parts {
		if p.sum == 0 {
			continue
		}
		s, weight := b.spreads[t], float64(p.weight(top))
		rest += float64(weight * float64(s.rest))
		if seen || p.top != top {
			rest += weight
		} else {
			seen = true
		}
		mean += float64(weight * (float64(s.mean) + float64(float64(p.sum)*float64(p.top-top))))
	}
	return float32(math.Log1p(rest) - mean/(1+rest))
}
