package kernels

import (
	"fmt"
	"math"
	"slices"
	"unsafe"
)

// TopLogProbs is the Top most probable tokens of each row, at most N, by logit descending, of equal ones the lower ids
// first, each with its log-probability: Sample's logp, of the logits as they are given, at the row's temperature (at 1 if
// Greedy). Places that are left, for tokens of -Inf are not listed, and rows without a distribution have id -1 and 0.
//
//	ids    (R, N) =  I32
//	logp   (R, N) =  F32
//	logits (R, V)    F32
//	params (R, 64)   U8: SampleParams
func TopLogProbs(q Queue, ids, logp, logits, params Tensor) {
	d := dims{op: "TopLogProbs"}
	d.want(logits, "logits", "R V", F32)
	d.want(ids, "ids", "R N", I32)
	d.want(logp, "logp", "R N", F32)
	d.want(params, "params", fmt.Sprint("R ", SampleParamsBytes), U8)
	R, V := logits.Shape[0], logits.Shape[1]
	rows := sampleRows(R, V)
	launch(q, &topLogProbsOp, blocks(R, rows), topLogProbsArgs{
		ids: ids.Ptr, logp: logp.Ptr, logits: logits.Ptr, params: params.Ptr,
		R: int32(R), V: int32(V), N: int32(ids.Shape[1]), rows: int32(rows),
	})
}

type topLogProbsArgs struct {
	ids, logp, logits, params Ptr
	R, V, N                   int32
	rows                      int32 // per item
}

var topLogProbsOp = Op{Name: "toplogprobs", Size: unsafe.Sizeof(topLogProbsArgs{}), CPU: topLogProbsGo, CUDA: topLogProbsGrid}

func topLogProbsGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*topLogProbsArgs)(args)
	return rowGrid(a.R, a.V)
}

func topLogProbsGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*topLogProbsArgs)(args)
	V, N, first, end := int(a.V), int(a.N), lo*int(a.rows), min(hi*int(a.rows), int(a.R))
	n := end - first
	ids, logp := m.I32(a.ids+Ptr(4*first*N), n*N), m.F32(a.logp+Ptr(4*first*N), n*N)
	for i, s := range m.sampleParams(a.params, first, n) {
		ids, logp := ids[i*N:][:N], logp[i*N:][:N]
		found := 0
		if s.Pos >= 0 && s.Top > 0 {
			keep := m.Keep()
			var r sampleRow
			r.softmax(m, m.F32(a.logits+Ptr(4*(first+i)*V), V), &s)
			for _, at := range r.first(m, min(N, int(s.Top))) {
				j := at.id()
				ids[found], logp[found] = int32(j), logProb(r.u(j), r.top, r.sum)
				found++
			}
			m.Reset(keep)
		}
		for ; found < N; found++ {
			ids[found], logp[found] = -1, 0
		}
	}
}

// first is the first k places of the row, in order, without those of -Inf.
func (r *sampleRow) first(m *Memory, k int) []place {
	places := scratch[place](m, k)[:0]
	if r.sum != r.sum {
		return places
	}
	worst := float32(math.Inf(-1)) // the last of k places' logit: what is under it need not be looked at
	for t, part := range r.parts {
		if part.sum == 0 || part.top < float32(worst*r.invT) {
			continue
		}
		for j, z := range r.tile(t) {
			if z < worst || z < -math.MaxFloat32 {
				continue
			}
			p := placeOf(z, t*vocabTile+j)
			at, _ := slices.BinarySearch(places, p)
			if at == k {
				continue
			}
			if len(places) == k {
				places = places[:k-1]
			}
			places = slices.Insert(places, at, p) // has room
			if len(places) == k {
				worst = r.logits[places[k-1].id()]
			}
		}
	}
	return places
}
