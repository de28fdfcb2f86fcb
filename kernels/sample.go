package kernels

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// SampleParams says how to draw the token of one row. It lies in memory that the device reads, so that a recorded step
// can be replayed with other values.
type SampleParams struct {
	Seed   uint64  // of the request: Philox's key
	InvT   float32 // 1/temperature, finite and positive; unused if Greedy
	TopP   float32 // keep the fewest tokens with this much of what TopK left; 1 keeps all, 0 one
	MinP   float32 // keep tokens with at least this fraction of the largest probability; 0 keeps all
	TopK   int32   // keep this many; 0 keeps all
	Pos    int32   // absolute position that the token will have: Philox's counter; -1 for an idle row
	Greedy int32   // not 0: the first of the largest logits, with the log-probability at temperature 1
	_      [4]int32
}

// SampleParamsBytes is the size of a SampleParams, the rows of Sample's params.
const SampleParamsBytes = int(unsafe.Sizeof(SampleParams{}))

// Purposes keep what is drawn for one position apart: they are the second word of Philox's counter.
const purposeToken = 0

// Sample draws a token per row. Filters apply in the order temperature, top-k, top-p (on what top-k left,
// renormalised), min-p; the largest logit always stays, and of equal logits the lower ids. The draw is the inverse CDF
// at one uniform number, Philox(Seed; Pos, 0), over tiles of 1,024 tokens and then within one, and so a function of the
// row and its params alone. A token of probability 0 is never drawn.
//
// logp is the token's log-probability under the whole distribution at the row's temperature (at 1 if Greedy), whatever
// the filters: LogProb's formula, and its bits for logits by Linear. A row without a distribution (a NaN or +Inf, or
// nothing but -Inf) gives token -1 and logp NaN, an idle row -1 and 0.
//
//	tokens (R) =    I32
//	logp   (R) =    F32
//	logits (R, V)   F32
//	params (R, 48)  U8: SampleParams
func Sample(q Queue, tokens, logp, logits, params Tensor) {
	d := dims{op: "Sample"}
	d.want(logits, "logits", "R V", F32)
	d.want(tokens, "tokens", "R", I32)
	d.want(logp, "logp", "R", F32)
	d.want(params, "params", fmt.Sprint("R ", SampleParamsBytes), U8)
	R, V := logits.Shape[0], logits.Shape[1]
	rows := min(R, max(1, 20000/(300+3*V))) // about 20 µs of work, at 300 ns a row and 3 a logit
	launch(q, &sampleOp, blocks(R, rows), sampleArgs{
		tokens: tokens.Ptr, logp: logp.Ptr, logits: logits.Ptr, params: params.Ptr,
		R: int32(R), V: int32(V), rows: int32(rows),
	})
}

type sampleArgs struct {
	tokens, logp, logits, params Ptr
	R, V                         int32
	rows                         int32 // per item
	_                            int32
}

var sampleOp = Op{Name: "sample", Size: unsafe.Sizeof(sampleArgs{}), CPU: sampleGo}

func sampleGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*sampleArgs)(args)
	V, first, end := int(a.V), lo*int(a.rows), min(hi*int(a.rows), int(a.R))
	n := end - first
	tokens, logp := m.I32(a.tokens+Ptr(4*first), n), m.F32(a.logp+Ptr(4*first), n)
	words := m.U64(a.params+Ptr(first*SampleParamsBytes), n*SampleParamsBytes/8)
	params := unsafe.Slice((*SampleParams)(unsafe.Pointer(&words[0])), n)
	for i := range params {
		if params[i].Pos < 0 {
			tokens[i], logp[i] = -1, 0
			continue
		}
		keep := m.Keep()
		tokens[i], logp[i] = m.sampleRow(m.F32(a.logits+Ptr(4*(first+i)*V), V), &params[i])
		m.Reset(keep)
	}
}

// A sampleRow is one row's logits with their softmax by tiles.
type sampleRow struct {
	logits []float32 // (V)
	invT   float32
	parts  []partial
	top    float32
	sum    float32
	p      []float32 // of a tile, as fill leaves it
	held   int       // the tile whose whole p is in p, or -1
}

func (m *Memory) sampleRow(logits []float32, s *SampleParams) (token int32, logp float32) {
	r := sampleRow{logits: logits, invT: s.InvT, p: m.ScratchF32(vocabTile)}
	if s.Greedy != 0 {
		r.invT = 1
	}
	r.parts = scratch[partial](m, blocks(len(logits), vocabTile))
	for t := range r.parts {
		r.parts[t] = m.softmaxTile(r.p, r.p, r.tile(t), r.invT)
		r.held = t
	}
	r.top, r.sum = softmaxRow(r.parts)
	if r.sum != r.sum {
		return -1, r.sum
	}
	j := 0
	if s.Greedy != 0 {
		j = r.largest()
	} else {
		j = r.draw(m, uniform(Philox(s.Seed, uint32(s.Pos), purposeToken, 0, 0)), s)
	}
	return int32(j), logProb(r.u(j), r.top, r.sum)
}

// tile is the logits of tile t.
func (r *sampleRow) tile(t int) []float32 {
	at := t * vocabTile
	return r.logits[at:min(at+vocabTile, len(r.logits))]
}

// largest is the first of the largest logits.
func (r *sampleRow) largest() int {
	for t, p := range r.parts {
		if p.top == r.top {
			return t*vocabTile + slices.Index(r.tile(t), r.top)
		}
	}
	panic("no logit is the maximum")
}

// u is token j's logit at the row's temperature.
func (r *sampleRow) u(j int) float32 { return float32(r.logits[j] * r.invT) }

// draw is the first of the tokens that s leaves at which the cumulated probability exceeds u.
func (r *sampleRow) draw(m *Memory, u float64, s *SampleParams) int {
	c := r.cut(m, s)
	masses := scratch[float64](m, len(r.parts))
	for t := range masses {
		masses[t] = r.kept(m, t, c)
	}
	t, left := pick(masses, u)
	r.fill(m, t, c)
	return t*vocabTile + walk(r.p[:len(r.tile(t))], left/r.weight(t))
}

// kept is the mass of what c leaves of tile t.
func (r *sampleRow) kept(m *Memory, t int, c cut) float64 {
	weight, mass := r.weight(t), 0.0
	switch {
	case weight == 0 || r.parts[t].top < c.least:
		return 0
	case c == uncut:
		mass = float64(r.parts[t].sum)
	default:
		r.fill(m, t, c)
		for _, p := range r.p[:len(r.tile(t))] {
			mass += float64(p)
		}
	}
	return weight * mass
}

// fill sets r.p to tile t's exp2((u - top_t)·log2e), 0 for what c drops.
func (r *sampleRow) fill(m *Memory, t int, c cut) {
	z := r.tile(t)
	if r.held != t {
		m.softmaxTile(r.p, r.p, z, r.invT)
		r.held = t
	}
	if c == uncut {
		return
	}
	r.held = -1
	for j, z := range z {
		if !c.keeps(z, float32(z*r.invT), t*vocabTile+j) {
			r.p[j] = 0
		}
	}
}

// weight is what r.p counts for in tile t; 0 if nothing in it can be drawn.
func (r *sampleRow) weight(t int) float64 {
	if r.parts[t].sum == 0 {
		return 0
	}
	return float64(r.parts[t].weight(r.top))
}

// pick is the first index at which the cumulated masses exceed u times their sum, and what is left of that there.
func pick(masses []float64, u float64) (t int, left float64) {
	total := 0.0
	for _, w := range masses {
		total += w
	}
	left = float64(u * total)
	last := 0
	for t, w := range masses {
		if left < w {
			return t, left
		}
		if w > 0 {
			last = t
			left -= w
		}
	}
	return last, math.Inf(1) // u·total rounded up to the total
}

// walk is the first index at which the cumulated p exceeds goal, or the last p that is not 0.
func walk(p []float32, goal float64) int {
	last, sum := 0, 0.0
	for j, x := range p {
		if x == 0 {
			continue
		}
		last = j
		if sum += float64(x); sum > goal {
			break
		}
	}
	return last
}
