package kernels

import (
	"math"
	"slices"
)

// A cut is what a row's filters leave: the tokens up to the place last whose u is at least least. Each filter keeps a
// prefix of one order, so this says all of it.
type cut struct {
	last  place
	least float32
}

// uncut leaves everything.
var uncut = cut{last: math.MaxUint64, least: float32(math.Inf(-1))}

// keeps reports whether a token stays.
func (c cut) keeps(z, u float32, id int) bool { return u >= c.least && placeOf(z, id) <= c.last }

// A place is where a token stands in its row: by logit descending, then by id ascending. The logits decide, not u, so
// that top-k 1 is greedy even where two u are rounded to one.
type place uint64

// placeOf maps the logit to an unsigned integer that falls as it rises.
func placeOf(z float32, id int) place {
	b := math.Float32bits(z + 0) // -0 is 0
	if b>>31 == 0 {
		b = ^b & math.MaxInt32
	}
	return place(b)<<32 | place(id)
}

func (p place) id() int { return int(uint32(p)) }

// slack widens top-p and min-p by what probabilities lose in float32: 0.5 and 0.3 reach a top-p of 0.8.
const slack = 1e-6

// topK is how many tokens top-k leaves of V.
func (s *SampleParams) topK(V int) int {
	if s.TopK <= 0 || int(s.TopK) >= V {
		return math.MaxInt
	}
	return int(s.TopK)
}

// cut is what the filters leave of r: top-k, then top-p of what that left, then min-p.
func (r *sampleRow) cut(m *Memory, s *SampleParams) cut {
	c := uncut
	if k := s.topK(len(r.logits)); k < math.MaxInt || s.TopP < 1 {
		h := r.histogram(m)
		last, mass := r.prefix(m, h, k, math.Inf(1))
		if s.TopP < 1 {
			last, _ = r.prefix(m, h, k, mass*(float64(s.TopP)-slack))
		}
		c.last = last
		if last != uncut.last {
			c.least = r.u(last.id())
		}
	}
	if s.MinP > 0 {
		least := float32(float64(r.top) + math.Log(float64(s.MinP)) - slack)
		c.least = max(c.least, min(least, r.top))
	}
	return c
}

// A bucket is a part of an octave of M - u, a 64th or an 8th, counted from the top. Only the bucket in which a prefix
// ends is ever put in order, and few tokens share one at any temperature.
type bucket struct {
	count int
	mass  float64 // relative to the row's maximum, as softmaxRow's sum
}

// A histogram has the tokens of positive probability. The others need no order: they are never drawn.
type histogram struct {
	shift   int // of a float32's bits: the exponent and the first of the mantissa stay
	first   int
	buckets []bucket
}

// bucketOf is the bucket of a token at this distance from the maximum.
func (h histogram) bucketOf(distance float32) int {
	b := math.Float32bits(distance) & math.MaxInt32 // equal zeros may be -0 apart
	return min(max(0, int(b>>h.shift)-h.first), len(h.buckets)-1)
}

// histogram has buckets from 2^-20 on, what is nearer being in the first, to 2^8: beyond 2·126·ln 2 a probability is 0.
func (r *sampleRow) histogram(m *Memory) histogram {
	h := histogram{shift: 17}
	if len(r.parts) == 1 {
		h.shift = 20 // few tokens need few buckets
	}
	h.first = (127 - 20) << 23 >> h.shift
	h.buckets = scratch[bucket](m, (127+8)<<23>>h.shift-h.first)
	clear(h.buckets)
	for t := range r.parts {
		weight, z := r.weight(t), r.tile(t)
		if weight == 0 {
			continue
		}
		r.fill(m, t, uncut)
		for j, p := range r.p[:len(z)] {
			if p != 0 {
				b := &h.buckets[h.bucketOf(r.top-float32(z[j]*r.invT))]
				b.count++
				b.mass += float64(weight * float64(p))
			}
		}
	}
	return h
}

// prefix is the last place of the shortest prefix that has k tokens or at least the mass, and its mass. It has a token
// at least, and all of positive probability if neither is reached.
func (r *sampleRow) prefix(m *Memory, h histogram, k int, goal float64) (last place, mass float64) {
	for i, b := range h.buckets {
		if b.count == 0 {
			continue
		}
		if b.count < k && mass+b.mass < goal {
			k -= b.count
			mass += b.mass
			continue
		}
		for _, at := range r.sorted(m, h, i) {
			last = at
			mass += r.mass(at.id())
			k--
			if k == 0 || mass >= goal {
				break
			}
		}
		return last, mass
	}
	return uncut.last, mass
}

// sorted is the places in bucket i, in order.
func (r *sampleRow) sorted(m *Memory, h histogram, i int) []place {
	places := scratch[place](m, h.buckets[i].count)[:0]
	for t, part := range r.parts {
		if r.weight(t) == 0 || h.bucketOf(r.top-part.top) > i {
			continue
		}
		for j, z := range r.tile(t) {
			u := float32(z * r.invT)
			if h.bucketOf(r.top-u) == i && expTile(u, part.top) != 0 {
				places = append(places, placeOf(z, t*vocabTile+j))
			}
		}
	}
	slices.Sort(places)
	return places
}

// mass is what token id counts for in the histogram.
func (r *sampleRow) mass(id int) float64 {
	t := id / vocabTile
	return r.weight(t) * float64(expTile(r.u(id), r.parts[t].top))
}
