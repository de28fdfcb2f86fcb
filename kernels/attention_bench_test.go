package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// benchmarkBatch is whole sequences, appended and attended.
func benchmarkBatch(bm *testing.B, dtype kernels.DType, lengths []int, H, K, E int) (*pagedCache, *packed) {
	bm.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	var seqs []*sequence
	for _, n := range lengths {
		seqs = append(seqs, randomSequence(r, dtype, n, H, K, E))
	}
	c := newCache(kerneltest.CPU(bm, kernels.CPUConfig{}), seqs, r)
	b := c.pack(seqs, wholeSequences(seqs))
	c.forward(b, seqs[0].scale)
	return c, b
}

// reportRate reports n bytes or operations an iteration.
func reportRate(bm *testing.B, n int, unit string) {
	bm.ReportMetric(float64(n)*float64(bm.N)/bm.Elapsed().Seconds()/1e9, unit)
}

// reportBest runs f, which is n bytes or operations, and reports the rate of the quickest run: the one that was left
// alone where the machine is shared.
func reportBest(bm *testing.B, n int, unit string, f func()) {
	best := time.Duration(math.MaxInt64)
	for bm.Loop() {
		at := time.Now()
		f()
		best = min(best, time.Since(at))
	}
	bm.ReportMetric(float64(n)/best.Seconds()/1e9, unit)
}

const benchScale = 0.088

// BenchmarkAttention is a prefill at a head dimension of 128 with 1, 2 and 4 query heads a key head.
func BenchmarkAttention(bm *testing.B) {
	for _, dtype := range kerneltest.DTypes {
		for _, G := range []int{1, 2, 4} {
			const n, K, E = 1024, 1, 128
			H := K * G
			bm.Run(fmt.Sprintf("%v/G=%d", dtype, G), func(bm *testing.B) {
				c, b := benchmarkBatch(bm, dtype, []int{n}, H, K, E)
				reportBest(bm, 2*2*H*E*n*(n+1)/2, "GFLOP/s", func() {
					kernels.Attention(c.d.Q, b.out, b.lse, b.qk, c.kv, b.AttentionBatch, cacheLayer, benchScale)
				})
			})
		}
	}
}

// BenchmarkAttentionBackward counts the five products of the backward.
func BenchmarkAttentionBackward(bm *testing.B) {
	for _, dtype := range kerneltest.DTypes {
		for _, G := range []int{1, 2, 4} {
			const n, K, E = 1024, 1, 128
			H := K * G
			bm.Run(fmt.Sprintf("%v/G=%d", dtype, G), func(bm *testing.B) {
				c, b := benchmarkBatch(bm, dtype, []int{n}, H, K, E)
				reportBest(bm, 5*2*H*E*n*(n+1)/2, "GFLOP/s", func() {
					kernels.AttentionBackward(c.d.Q, b.dqkv, b.dout, b.out, b.lse, b.qk, c.kv, b.AttentionBatch, cacheLayer, benchScale, b.delta)
				})
			})
		}
	}
}

// BenchmarkAttentionDecode is one row of each sequence against 1,024 keys: what is read is the cache.
func BenchmarkAttentionDecode(bm *testing.B) {
	for _, dtype := range kerneltest.DTypes {
		for _, S := range []int{1, 8, 32} {
			const n, K, E, G = 1024, 8, 128, 4
			bm.Run(fmt.Sprintf("%v/S=%d", dtype, S), func(bm *testing.B) {
				c, b := decodeBatch(bm, dtype, S, n, K*G, K, E)
				reportBest(bm, S*n*2*K*E*dtype.Size(), "GB/s", func() {
					kernels.Attention(c.d.Q, b.out, kernels.Tensor{}, b.qk, c.kv, b.AttentionBatch, cacheLayer, benchScale)
				})
			})
		}
	}
}

// decodeBatch is the last row of S sequences of n whose caches are full.
func decodeBatch(bm *testing.B, dtype kernels.DType, S, n, H, K, E int) (*pagedCache, *packed) {
	bm.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	s := randomSequence(r, dtype, n, H, K, E)
	var seqs []*sequence
	var last []piece
	for i := range S {
		seqs = append(seqs, s)
		last = append(last, piece{i, n - 1, n})
	}
	c := newCache(kerneltest.CPU(bm, kernels.CPUConfig{}), seqs, r)
	for i := range S {
		b := c.pack(seqs, []piece{{i, 0, n}})
		kernels.Append(c.d.Q, c.kv, b.qk, b.qkv, b.AttentionBatch, cacheLayer)
	}
	return c, c.pack(seqs, last)
}
