package kernels

import (
	"math"
	"unsafe"
)

// vocabTile is the vocabulary that a partial sum of the softmax covers. It is part of the result's bits: the trainer and
// the sampler both sum tile by tile.
const vocabTile = 1024

// floor replaces every u - top below it, -Inf too: exp2 gives 0 from -126/log2e = -87.3 down, and 0 times a finite
// number is the 0 that an entropy wants.
const floor = -128

// partial is the softmax of one tile, relative to the tile's own maximum so that one pass suffices.
type partial struct {
	top float32 // max u
	sum float32 // Σ exp2((u - top)·log2e); 0 if every u is -Inf, NaN if any is NaN or +Inf
}

// softmaxTile turns logits z of one tile into u = z·invT, v = max(u - top, floor) and p = exp2(v·log2e). Subtracting
// before scaling keeps the largest p exactly 1 however large the logits are. v may be p; both have room for whole lanes.
func (m *Memory) softmaxTile(p, v, z []float32, invT float32) partial {
	own := v[:len(z)]
	top, bad := float32(math.Inf(-1)), false
	for j, x := range z {
		u := float32(x * invT)
		own[j] = u
		if u > top {
			top = u
		} else if u != u {
			bad = true
		}
	}
	if bad || top > math.MaxFloat32 {
		return partial{top, float32(math.NaN())}
	}
	if top < -math.MaxFloat32 {
		return partial{top, 0}
	}
	for j, u := range own {
		d := u - top
		if d < floor {
			d = floor
		}
		own[j] = d
	}
	return partial{top, m.exps(p, v, len(z))}
}

// wholeLanes is n rounded up to what the 16 lanes take at a time.
func wholeLanes(n int) int { return (n + 15) &^ 15 }

// exps is the sum of p = exp2(v·log2e) over the first n, lane by lane and then folded. It fills v up to whole lanes with
// what gives 0, which changes no sum: a tail would take longer than a vector.
func (m *Memory) exps(p, v []float32, n int) float32 {
	N := wholeLanes(n)
	for j := n; j < N; j++ {
		v[j] = floor
	}
	keep := m.Keep()
	lanes := (*[16]float32)(m.ScratchF32(16)) // a variable would go to the heap
	*lanes = [16]float32{}
	m.vec.exp2Sum(p[:N], v[:N], log2e, 0, lanes)
	m.Reset(keep)
	return fold(lanes)
}

// expTile is softmaxTile's p of one u.
func expTile(u, top float32) float32 {
	return exp2(max(float32(u-top), floor) * log2e)
}

// weight is what a unit of a tile's sum is worth beside the row's maximum.
func (t partial) weight(top float32) float32 {
	if t.top == top {
		return 1 // as exp2(0)
	}
	return exp2(float32(t.top-top) * log2e)
}

// softmaxRow joins a row's tiles in order: the maximum, and the sum relative to it, which is NaN if the row has no
// distribution (a NaN or +Inf in it, or nothing but -Inf).
func softmaxRow(tiles []partial) (top, sum float32) {
	top = float32(math.Inf(-1))
	for _, t := range tiles {
		top = max(top, t.top)
	}
	if top < -math.MaxFloat32 {
		return top, float32(math.NaN())
	}
	for _, t := range tiles {
		if t.sum != 0 {
			sum += float32(t.sum * t.weight(top))
		}
	}
	return top, sum
}

// logProb is the log-probability of a token with u in a row of the given maximum and sum.
func logProb(u, top, sum float32) float32 {
	return float32(u-top) - ln(sum)
}

// ln is the natural logarithm, computed in float64 and rounded once.
func ln(x float32) float32 { return float32(math.Log(float64(x))) }

// scratch is n values of the worker's own, as ScratchF32. E holds no Go pointers.
func scratch[E any](m *Memory, n int) []E {
	var e E
	return unsafe.Slice((*E)(m.take(n*int(unsafe.Sizeof(e)))), n)
}
