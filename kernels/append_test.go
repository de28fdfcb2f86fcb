package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// TestAppend appends chunks that start and end inside pages, and compares the whole cache: slots hold exactly what was
// appended, everything else (other layers, other pages, other slots) is untouched.
func TestAppend(t *testing.T) {
	for _, dtype := range kerneltest.DTypes {
		for _, shape := range [][3]int{{1, 1, 16}, {6, 2, 32}, {5, 1, 80}} {
			H, K, E := shape[0], shape[1], shape[2]
			t.Run(fmt.Sprint(dtype, " ", shape), func(t *testing.T) {
				r := kerneltest.Rand(t)
				seqs := appended(r, dtype, H, K, E)
				seed := r.Uint64()
				var table []int32
				got := kerneltest.Agree(t, appendSteps(seqs, seed, &table))
				kerneltest.Same(t, "kv", got["kv"], wantCache(seqs, table, len(got["kv"])))
			})
		}
	}
}

// appended is sequences of a whole page, less, more, and nothing.
func appended(r *rand.Rand, dtype kernels.DType, H, K, E int) (seqs []*sequence) {
	for _, n := range []int{130, 1, 0, 64} {
		seqs = append(seqs, randomSequence(r, dtype, n, H, K, E))
	}
	return seqs
}

// appendSteps appends them in chunks, among padding rows, and sets the table to where their pages are.
func appendSteps(seqs []*sequence, seed uint64, table *[]int32) func(d *kerneltest.Device) kerneltest.Results {
	return func(d *kerneltest.Device) kerneltest.Results {
		c := newCache(d, seqs, rand.New(rand.NewPCG(seed, 0)))
		*table = c.table
		for _, pieces := range [][]piece{
			{{0, 0, 60}, {-1, 0, 1}, {3, 0, 64}},
			{{1, 0, 1}, {0, 60, 61}},
			{{-1, 0, 20}, {0, 61, 130}},
		} {
			b := c.pack(seqs, pieces)
			kernels.Append(d.Q, c.kv, b.qk, b.qkv, b.AttentionBatch, cacheLayer)
			d.Sync()
		}
		return kerneltest.Results{"kv": d.Get(c.kv)}
	}
}

// wantCache is the cache with n elements in which all of seqs was appended to the layer.
func wantCache(seqs []*sequence, table []int32, n int) []float32 {
	kv := nanValues(n)
	K, E := seqs[0].K, seqs[0].E
	N := len(table) / len(seqs)
	for i, s := range seqs {
		for j := range s.n {
			page := int(table[i*N+j/kernels.PageTokens])
			for k := range K {
				at := cacheLayer*n/cacheLayers + ((page*2*K+k)*kernels.PageTokens+j%kernels.PageTokens)*E
				copy(kv[at:], float32s(s.k[(j*K+k)*E:][:E]))
				copy(kv[at+K*kernels.PageTokens*E:], float32s(s.v[(j*K+k)*E:][:E]))
			}
		}
	}
	return kv
}

// TestAppendMisuse: a row without a page fails the queue with its position, and shapes are checked.
func TestAppendMisuse(t *testing.T) {
	r := kerneltest.Rand(t)
	seqs := []*sequence{randomSequence(r, kernels.F32, 65, 2, 1, 16)}
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
	c := newCache(d, seqs, r)
	b := c.pack(seqs, wholeSequences(seqs))
	b.Table = d.PutI32(c.table[:1], 1, 1)
	kernels.Append(d.Q, c.kv, b.qk, b.qkv, b.AttentionBatch, cacheLayer)
	want := "kernel append: sequence 0, position 64: the page table is 1 sequences of 1 pages"
	if err := d.Q.Sync(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to say %q", err, want)
	}
	defer func() {
		if got, want := fmt.Sprint(recover()), "Append: qkv is"; !strings.Contains(got, want) {
			t.Errorf("panic %q, want it to say %q", got, want)
		}
	}()
	kernels.Append(d.Q, c.kv, b.qk, b.qk, b.AttentionBatch, cacheLayer)
}

// BenchmarkAppend is a prefill's chunk of one layer at the heads of Qwen3-4B.
func BenchmarkAppend(bm *testing.B) {
	const n, H, K, E = 512, 32, 8, 128
	c, b := benchmarkBatch(bm, kernels.BF16, []int{n}, H, K, E)
	for bm.Loop() {
		kernels.Append(c.d.Q, c.kv, b.qk, b.qkv, b.AttentionBatch, cacheLayer)
	}
	reportRate(bm, 2*2*2*n*K*E, "GB/s")
}
