package kernels_test

import (
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// TestAttentionCUDA compares whole sequences on a GPU, forward and backward, with the float64 reference.
func TestAttentionCUDA(t *testing.T) {
	for _, c := range attentionCases {
		t.Run(c.name, func(t *testing.T) {
			r := kerneltest.Rand(t)
			var seqs []*sequence
			for _, n := range c.lengths {
				s := randomSequence(r, kernels.BF16, n, c.H, c.K, c.E)
				s.solve()
				seqs = append(seqs, s)
			}
			seed := r.Uint64()
			for _, d := range kerneltest.GPU(t) {
				cache := newCache(d, seqs, rand.New(rand.NewPCG(seed, 0)))
				b := cache.pack(seqs, wholeSequences(seqs))
				cache.forward(b, seqs[0].scale)
				compareBatch(t, seqs, b.pieces, kerneltest.Results{"out": b.outputs, "lse": b.logSumExps, "dqkv": cache.backward(b, seqs[0].scale)})
			}
		})
	}
}

// TestAttentionRowAloneCUDA says that a row's bits do not depend on what it is computed with: whole sequences, in pieces
// beside those of others, and one by one, which is another kernel.
func TestAttentionRowAloneCUDA(t *testing.T) {
	for _, c := range []struct{ H, K, E int }{{4, 1, 128}, {2, 2, 64}, {10, 2, 16}} {
		r := kerneltest.Rand(t)
		var seqs []*sequence
		for _, n := range []int{130, 1, 67} {
			seqs = append(seqs, randomSequence(r, kernels.BF16, n, c.H, c.K, c.E))
		}
		seed := r.Uint64()
		chunks := chunkSteps(seqs, r)
		for _, d := range kerneltest.GPU(t) {
			run := func(steps [][]piece) []attended { return attendIn(d, seqs, rand.New(rand.NewPCG(seed, 0)), steps) }
			whole := run([][]piece{wholeSequences(seqs)})
			capability(t, "10.0") // without Hopper's form
			other := attendIn(kerneltest.GPU(t)[0], seqs, rand.New(rand.NewPCG(seed, 0)), [][]piece{wholeSequences(seqs)})
			for i := range seqs {
				kerneltest.Same(t, "another form: out", other[i].out, whole[i].out)
				kerneltest.Same(t, "another form: lse", other[i].lse, whole[i].lse)
			}
			for name, got := range map[string][]attended{"in pieces": run(chunks), "row by row": run(decodeSteps(seqs))} {
				for i := range seqs {
					kerneltest.Same(t, name+": out", got[i].out, whole[i].out)
					kerneltest.Same(t, name+": lse", got[i].lse, whole[i].lse)
				}
			}
		}
	}
}

// TestAttentionWindowCUDA says so of chunks that begin within the rows of one block.
func TestAttentionWindowCUDA(t *testing.T) {
	r := kerneltest.Rand(t)
	seqs := windowed(r)
	seed := r.Uint64()
	for _, d := range kerneltest.GPU(t) {
		run := func(steps [][]piece) []attended { return attendIn(d, seqs, rand.New(rand.NewPCG(seed, 0)), steps) }
		whole, got := run([][]piece{wholeSequences(seqs)}), run(windowSteps)
		for i := range seqs {
			kerneltest.Same(t, "out", got[i].out, whole[i].out)
			kerneltest.Same(t, "lse", got[i].lse, whole[i].lse)
		}
	}
}

// windowed are the sequences of windowSteps, in which chunks follow each other within 32 rows, between rows of padding.
func windowed(r *rand.Rand) (seqs []*sequence) {
	for _, n := range []int{128, 5, 1, 129} {
		seqs = append(seqs, randomSequence(r, kernels.BF16, n, 4, 1, 128))
	}
	return seqs
}

var windowSteps = [][]piece{
	{{0, 0, 117}, {3, 0, 126}},
	{{-1, 0, 1}, {0, 117, 128}, {1, 0, 5}, {-1, 0, 2}, {2, 0, 1}, {3, 126, 129}},
}

// TestAttentionBackwardAloneCUDA says the same of a sequence's gradient.
func TestAttentionBackwardAloneCUDA(t *testing.T) {
	const H, K, E = 4, 2, 64
	r := kerneltest.Rand(t)
	var seqs []*sequence
	for _, n := range []int{97, 20, 64} {
		seqs = append(seqs, randomSequence(r, kernels.BF16, n, H, K, E))
	}
	for _, d := range kerneltest.GPU(t) {
		gradient := func(seqs []*sequence) [][]float32 {
			cache := newCache(d, seqs, r)
			b := cache.pack(seqs, wholeSequences(seqs))
			cache.forward(b, seqs[0].scale)
			all := cache.backward(b, seqs[0].scale)
			var each [][]float32
			for i, p := range b.pieces {
				if p.seq >= 0 {
					each = append(each, rowsOf(all, (H+2*K)*E, b.rowOfPiece[i], p.hi-p.lo))
				}
			}
			return each
		}
		together := gradient(seqs)
		for i := range seqs {
			kerneltest.Same(t, "dqkv alone", gradient(seqs[i : i+1])[0], together[i])
		}
	}
}
