package kernels_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// topLogProbs is TopLogProbs on one device, rows of N.
func topLogProbs(d *kerneltest.Device, logits kernels.Tensor, params []kernels.SampleParams, N int) (ids []int32, logp []float32) {
	R := len(params)
	p, id, lp := d.Tensor(kernels.U8, R, kernels.SampleParamsBytes), d.Tensor(kernels.I32, R, N), d.Tensor(kernels.F32, R, N)
	d.PutBytes(p, bytesOf(params))
	kernels.TopLogProbs(d.Q, id, lp, logits, p)
	return d.GetI32(id), d.Get(lp)
}

// TestTopLogProbs compares with sorting. The log-probs are those that Sample gives, bit for bit.
func TestTopLogProbs(t *testing.T) {
	const N = 20
	for _, V := range []int{1, 2, 19, 28, 1024, 1025, 4097} {
		t.Run(fmt.Sprint(V), func(t *testing.T) {
			r := kerneltest.Rand(t)
			R := min(60, max(3, 1<<16/V))
			logits := kerneltest.Normal(r, R*V, 1)
			params := make([]kernels.SampleParams, R)
			for i := range params {
				shape(r, logits[i*V:][:V])
				params[i] = randomParams(r, V)
				params[i].Top = int32(r.IntN(N + 3))
			}
			got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
				ids, logp := topLogProbs(d, d.Put(kernels.F32, logits, R, V), params, N)
				f := make([]float32, len(ids))
				for i, j := range ids {
					f[i] = float32(j)
				}
				return kerneltest.Results{"ids": f, "logp": logp}
			})
			d := kerneltest.CPU(t, kernels.CPUConfig{})
			for i, s := range params {
				row := logits[i*V:][:V]
				order := make([]int32, 0, V)
				for j, z := range row {
					if z != -inf {
						order = append(order, int32(j))
					}
				}
				slices.SortStableFunc(order, func(a, b int32) int {
					switch {
					case row[a] > row[b]:
						return -1
					case row[a] < row[b]:
						return 1
					}
					return 0
				})
				order = order[:min(len(order), N, int(s.Top))]
				for k := range N {
					want := float32(-1)
					if k < len(order) {
						want = float32(order[k])
					}
					if id := got["ids"][i*N+k]; id != want {
						t.Fatalf("row %d place %d of %d: token %v, want %v", i, k, s.Top, id, want)
					}
				}
				for k, id := range order {
					only := s
					only.TopK, only.TopP, only.MinP = 0, 1, 0
					_, lp := sampleLists(d, d.Put(kernels.F32, row, 1, V), []kernels.SampleParams{withAllowed(only)}, nil, []int32{id})
					kerneltest.Same(t, fmt.Sprintf("logp of row %d place %d", i, k), got["logp"][i*N+k:][:1], lp)
				}
			}
		})
	}
}

// TestTopLogProbsExtremes has rows that have less to tell than is asked for.
func TestTopLogProbsExtremes(t *testing.T) {
	const N = 3
	nan := float32(math.NaN())
	ask := plain(1, 0)
	ask.Top = N
	idle := ask
	idle.Pos = -1
	greedy := ask
	greedy.Greedy, greedy.InvT = 1, 0
	rows := []struct {
		name   string
		logits []float32
		s      kernels.SampleParams
		ids    []int32
		logp   []float64
	}{
		{"nothing asked", []float32{0, 0, 0, 0}, plain(1, 0), []int32{-1, -1, -1}, []float64{0, 0, 0}},
		{"idle", []float32{0, 0, 0, 0}, idle, []int32{-1, -1, -1}, []float64{0, 0, 0}},
		{"equal: lower ids first", []float32{0, 0, 0, 0}, ask, []int32{0, 1, 2}, []float64{-math.Log(4), -math.Log(4), -math.Log(4)}},
		{"zeros of both signs are equal", []float32{-1e9, float32(math.Copysign(0, -1)), 0, -inf}, ask, []int32{1, 2, 0}, []float64{-math.Ln2, -math.Ln2, -1e9}},
		{"the impossible are not listed", []float32{-inf, 5, -inf, -inf}, ask, []int32{1, -1, -1}, []float64{0, 0, 0}},
		{"the nearly impossible are", []float32{0, 500, -300, -1000}, ask, []int32{1, 0, 2}, []float64{0, -500, -800}},
		{"NaN", []float32{0, nan, 0, 0}, ask, []int32{-1, -1, -1}, []float64{0, 0, 0}},
		{"nothing possible", []float32{-inf, -inf, -inf, -inf}, ask, []int32{-1, -1, -1}, []float64{0, 0, 0}},
		{"greedy has temperature 1", []float32{0, 0, -1e9, -2e9}, greedy, []int32{0, 1, 2}, []float64{-math.Ln2, -math.Ln2, -1e9}},
	}
	var logits []float32
	var params []kernels.SampleParams
	for _, c := range rows {
		logits, params = append(logits, c.logits...), append(params, c.s)
	}
	for _, d := range kerneltest.Devices(t) {
		ids, logp := topLogProbs(d, d.Put(kernels.F32, logits, len(rows), 4), params, N)
		for i, c := range rows {
			if got := ids[i*N:][:N]; !slices.Equal(got, c.ids) {
				t.Errorf("%s: tokens %v, want %v", c.name, got, c.ids)
			}
			kerneltest.Near(t, c.name, logp[i*N:][:N], c.logp, kerneltest.Tol{Abs: 1e-6, Rel: 1e-6})
		}
	}
}
