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
func LogProb(q Queue, logp, entropy, lse, x, w, target Tensor, invT float32) {
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
	rows := min(linearRows(R, D, x.DType), max(16, blocks(R, 16)*4)) // four items or more where R allows
	launch(q, &logProbOp, blocks(R, rows), logProbArgs{
		logp: logp.Ptr, entropy: entropy.Ptr, lse: lse.Ptr, x: x.Ptr, w: w.Ptr, target: target.Ptr,
		R: int32(R), V: int32(V), D: int32(D), rows: int32(rows), dtype: int32(x.DType), invT: invT,
	})
}

type logProbArgs struct {
	logp, entropy, lse, x, w, target Ptr
	R, V, D, rows                    int32 // rows per item
	dtype                            int32
	invT                             float32
}

var logProbOp = Op{Name: "logprob", Size: unsafe.Sizeof(logProbArgs{}), CPU: logProbGo}

func logProbGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*logProbArgs)(args)
	R, D, d := int(a.R), int(a.D), DType(a.dtype)
	for i := lo; i < hi; i++ {
		keep := m.Keep()
		r := i * int(a.rows)
		n := min(int(a.rows), R-r)
		target := m.I32(a.target+Ptr(4*r), n)
		b := logProbBlock{target: target, tiles: blocks(int(a.V), vocabTile), V: int(a.V), invT: a.invT}
		if slices.Max(target) >= 0 { // else all padding
			b.walk(m, m.elems(a.x, d, r*D, n*D), m.elems(a.w, d, 0, b.V*D), D, a.entropy != 0)
		}
		logp, lse := m.F32(a.logp+Ptr(4*r), n), m.F32(a.lse+Ptr(4*r), n)
		var entropy []float32
		if a.entropy != 0 {
			entropy = m.F32(a.entropy+Ptr(4*r), n)
		}
		for j := range target {
			b.finish(j, logp, entropy, lse)
		}
		m.Reset(keep)
	}
}

// A logProbBlock is what an item keeps of its rows' logits.
type logProbBlock struct {
	target  []int32
	tiles   int
	V       int
	invT    float32
	u       []float32 // the targets' u
	parts   []partial // (rows, tiles)
	spreads []spread  // (rows, tiles), only for the entropy
}

// walk computes the logits of all rows tile by tile.
func (b *logProbBlock) walk(m *Memory, x, w elems, D int, entropy bool) {
	n := len(b.target)
	b.u = m.ScratchF32(n)
	b.parts = scratch[partial](m, n*b.tiles)
	if entropy {
		b.spreads = scratch[spread](m, n*b.tiles)
	}
	z, p := m.ScratchF32(n*vocabTile), m.ScratchF32(vocabTile)
	v := m.ScratchF32(2 * vocabTile)
	for j := range vocabTile {
		v[vocabTile+j] = 1 // see spreadTile
	}
	for t := range b.tiles {
		at := t * vocabTile
		C := min(vocabTile, b.V-at)
		m.dots(z, C, x, D, w.from(at*D), D, n, C, D)
		for r, target := range b.target {
			if target < 0 {
				continue
			}
			if int(target) >= b.V {
				panic(fmt.Sprintf("target %d is outside the vocabulary of %d", target, b.V))
			}
			z := z[r*C:][:C]
			if j := int(target) - at; j >= 0 && j < C {
				b.u[r] = float32(z[j] * b.invT)
			}
			part := m.softmaxTile(p, v, z, b.invT)
			b.parts[r*b.tiles+t] = part
			if entropy && part.sum > 0 {
				b.spreads[r*b.tiles+t] = m.spreadTile(p, v, C)
			}
		}
	}
}

// finish writes row r's results; entropy may be nil.
func (b *logProbBlock) finish(r int, logp, entropy, lse []float32) {
	if b.target[r] < 0 {
		logp[r], lse[r] = 0, 0
		if entropy != nil {
			entropy[r] = 0
		}
		return
	}
	top, sum := softmaxRow(b.parts[r*b.tiles:][:b.tiles])
	logp[r], lse[r] = logProb(b.u[r], top, sum), top+ln(sum)
	if entropy != nil {
		entropy[r] = b.entropy(r, top, sum)
	}
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

// entropy of row r is ln S - Σ e·(u - M)/S with e = exp(u - M) and S = Σ e: all terms are positive, and ln S is taken of
// S - 1, so that nothing cancels in a row that is nearly certain.
func (b *logProbBlock) entropy(r int, top, sum float32) float32 {
	if sum != sum {
		return sum
	}
	var rest, mean float64
	seen := false // the row's largest term
	for t, p := range b.parts[r*b.tiles:][:b.tiles] {
		if p.sum == 0 {
			continue
		}
		s, weight := b.spreads[r*b.tiles+t], float64(p.weight(top))
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
