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

	Repetition, Presence, Frequency float32 // see Edit; unused without edits
	Top                             int32   // see TopLogProbs

	// The row's part of the lists: edits, and the only tokens that may be drawn. None is 0 entries.
	FirstEdit, Edits      int32
	FirstAllowed, Allowed int32
}

// SampleParamsBytes is the size of a SampleParams, the rows of Sample's params.
const SampleParamsBytes = int(unsafe.Sizeof(SampleParams{}))

// Purposes keep what is drawn for one position apart: they are the second word of Philox's counter.
const purposeToken = 0

// Sample draws a token per row. The row's edits and its list of allowed tokens come first, then the filters, in the order
// temperature, top-k, top-p (on what top-k left, renormalised), min-p; the largest logit always stays, and of equal logits
// the lower ids. The draw is the inverse CDF at one uniform number, Philox(Seed; Pos, 0), over tiles of 1,024 tokens and
// then within one, and so a function of the row, its params and its lists alone. A token of probability 0 is never drawn.
//
// logp is the token's log-probability under the whole distribution of the logits as they are given, at the row's
// temperature (at 1 if Greedy), whatever the edits and the filters: LogProb's formula, and its bits for logits by Linear.
// A row without a distribution (a NaN or +Inf, or nothing but -Inf) gives token -1 and logp NaN, one of which the edits
// and the list leave nothing -1 and -Inf, an idle row -1 and 0.
//
// The lists of a row ascend and name no token twice, so that whoever has a tile of the row at hand finds the tile's part.
//
//	tokens  (R) =    I32
//	logp    (R) =    F32
//	logits  (R, V)   F32
//	params  (R, 64)  U8: SampleParams
//	edits   (N, 12)  U8: Edit, of all rows; or the zero Tensor if no row has any
//	allowed (N)      I32, likewise
func Sample(q Queue, tokens, logp, logits, params, edits, allowed Tensor) {
	d := dims{op: "Sample"}
	d.want(logits, "logits", "R V", F32)
	d.want(tokens, "tokens", "R", I32)
	d.want(logp, "logp", "R", F32)
	d.want(params, "params", fmt.Sprint("R ", SampleParamsBytes), U8)
	if edits.Ptr != 0 {
		d.want(edits, "edits", fmt.Sprint("N ", EditBytes), U8)
	}
	if allowed.Ptr != 0 {
		d.want(allowed, "allowed", "A", I32)
	}
	R, V := logits.Shape[0], logits.Shape[1]
	rows := sampleRows(R, V)
	launch(q, &sampleOp, blocks(R, rows), sampleArgs{
		tokens: tokens.Ptr, logp: logp.Ptr, logits: logits.Ptr, params: params.Ptr, edits: edits.Ptr, allowed: allowed.Ptr,
		R: int32(R), V: int32(V), rows: int32(rows),
	})
}

// sampleRows is rows of about 20 µs of work, at 300 ns a row and 3 a logit.
func sampleRows(R, V int) int { return min(R, max(1, 20000/(300+3*V))) }

type sampleArgs struct {
	tokens, logp, logits, params, edits, allowed Ptr
	R, V                                         int32
	rows                                         int32 // per item
	_                                            int32
}

var sampleOp = Op{Name: "sample", Size: unsafe.Sizeof(sampleArgs{}), CPU: sampleGo, CUDA: sampleGrid}

func sampleGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*sampleArgs)(args)
	return rowGrid(a.R, a.V)
}

// rowGrid has a block for every row of logits (V), with the tiles' masses and two sets of their sums beside the counts
// of digits in shared memory.
func rowGrid(R, V int32) Grid {
	return Grid{X: int(R), Y: 1, Threads: 512, Shared: 16 + 256*(8+4) + 3*8*blocks(int(V), cudaVocabTile)}
}

func sampleGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*sampleArgs)(args)
	V, first, end := int(a.V), lo*int(a.rows), min(hi*int(a.rows), int(a.R))
	n := end - first
	tokens, logp := m.I32(a.tokens+Ptr(4*first), n), m.F32(a.logp+Ptr(4*first), n)
	params := m.sampleParams(a.params, first, n)
	for i := range params {
		s := &params[i]
		if s.Pos < 0 {
			tokens[i], logp[i] = -1, 0
			continue
		}
		keep := m.Keep()
		logits := m.F32(a.logits+Ptr(4*(first+i)*V), V)
		var whole, edited sampleRow
		whole.softmax(m, logits, s)
		from := &whole
		if s.Edits > 0 || s.Allowed > 0 {
			edited.softmax(m, a.edited(m, logits, s), s)
			from = &edited
		}
		tokens[i], logp[i] = whole.sample(m, from, s)
		m.Reset(keep)
	}
}

// sampleParams is the params of n rows from the first on.
func (m *Memory) sampleParams(p Ptr, first, n int) []SampleParams {
	words := m.U64(p+Ptr(first*SampleParamsBytes), n*SampleParamsBytes/8)
	return unsafe.Slice((*SampleParams)(unsafe.Pointer(&words[0])), n)
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

func (r *sampleRow) softmax(m *Memory, logits []float32, s *SampleParams) {
	r.logits, r.invT, r.p = logits, s.InvT, m.ScratchF32(vocabTile)
	if s.Greedy != 0 {
		r.invT = 1
	}
	r.parts = scratch[partial](m, blocks(len(logits), vocabTile))
	for t := range r.parts {
		r.parts[t] = m.softmaxTile(r.p, r.p, r.tile(t), r.invT)
		r.held = t
	}
	r.top, r.sum = softmaxRow(r.parts)
}

// sample draws from one row and gives the token's log-probability in r.
func (r *sampleRow) sample(m *Memory, from *sampleRow, s *SampleParams) (token int32, logp float32) {
	if r.sum != r.sum {
		return -1, r.sum
	}
	if from.sum != from.sum {
		return -1, float32(math.Inf(-1))
	}
	j := 0
	if s.Greedy != 0 {
		j = from.largest()
	} else {
		j = from.draw(m, uniform(Philox(s.Seed, uint32(s.Pos), purposeToken, 0, 0)), s)
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
