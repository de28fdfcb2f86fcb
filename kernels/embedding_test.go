package kernels_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// tokenKinds is the size of the vocabulary of these tests: tokens repeat.
const tokenKinds = 11

func TestEmbedding(t *testing.T) {
	eachRowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		T, D, dt := c.T, c.D, c.DType
		w, tokens := values(r, dt, tokenKinds*D), someRows(r, T, tokenKinds)
		got := kerneltest.Agree(t, c.embedding(tokens, w))
		kerneltest.Same(t, "out", got["out"], pickRows(w, tokens, D))
	})
}

func (c rowCase) embedding(tokens []int32, w []float32) func(d *kerneltest.Device) kerneltest.Results {
	T, D, dt := c.T, c.D, c.DType
	return func(d *kerneltest.Device) kerneltest.Results {
		out := d.Tensor(dt, T, D)
		kernels.Embedding(d.Q, out, d.PutI32(tokens, T), d.Put(dt, w, tokenKinds, D))
		return kerneltest.Results{"out": d.Get(out)}
	}
}

func TestEmbeddingBackward(t *testing.T) {
	eachRowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		T, D, dt := c.T, c.D, c.DType
		dout, tokens, before := values(r, dt, T*D), someRows(r, T, tokenKinds), values(r, kernels.F32, tokenKinds*D)
		got := kerneltest.Agree(t, c.embeddingBackward(t, dout, tokens, before))
		want := append([]float32(nil), before...)
		for i, v := range tokens {
			for j := range D {
				if v >= 0 {
					want[int(v)*D+j] += dout[i*D+j]
				}
			}
		}
		kerneltest.Same(t, "dw", got["dw"], want)
	})
}

func (c rowCase) embeddingBackward(t *testing.T, dout []float32, tokens []int32, before []float32) func(d *kerneltest.Device) kerneltest.Results {
	T, D, dt := c.T, c.D, c.DType
	return func(d *kerneltest.Device) kerneltest.Results {
		dw, in, at := d.Put(kernels.F32, before, tokenKinds, D), d.Put(dt, dout, T, D), d.PutI32(tokens, T)
		kernels.EmbeddingBackward(d.Q, dw, in, at)
		alone := d.Put(kernels.F32, before, tokenKinds, D)
		for i := range T {
			kernels.EmbeddingBackward(d.Q, alone, in.Rows(i, i+1), at.Rows(i, i+1))
		}
		kerneltest.Same(t, "dw row by row", d.Get(alone), d.Get(dw))
		return kerneltest.Results{"dw": d.Get(dw)}
	}
}

func TestEmbeddingGolden(t *testing.T) {
	g := golden(t).Embedding
	d, T := kerneltest.Devices(t)[0], len(g.Tokens)
	tokens, out, dw := d.PutI32(g.Tokens, T), d.Tensor(kernels.F32, T, g.D), d.Zeros(kernels.F32, g.V, g.D)
	kernels.Embedding(d.Q, out, tokens, d.Put(kernels.F32, g.W, g.V, g.D))
	kernels.EmbeddingBackward(d.Q, dw, d.Put(kernels.F32, g.DOut, T, g.D), tokens)
	kerneltest.Near(t, "out", d.Get(out), g.Out, kerneltest.Tol{Rel: 1e-8})
	kerneltest.Near(t, "dw", d.Get(dw), g.DW, kerneltest.Tol{Abs: 3 * 0x1p-24, Rel: 3 * 0x1p-24})
}

func TestEmbeddingOutsideVocabulary(t *testing.T) {
	for _, d := range kerneltest.Devices(t) {
		kernels.Embedding(d.Q, d.Tensor(kernels.F32, 2, 3), d.PutI32([]int32{0, 7}, 2), d.Zeros(kernels.F32, 7, 3))
		if err := d.Q.Sync(); err == nil || !strings.Contains(err.Error(), "embedding: token 7 at 1 is outside of 7") {
			t.Errorf("%s: error is %v", d.Name(), err)
		}
	}
}

// someRows is n rows below limit, the first of them -1 where there are more.
func someRows(r *rand.Rand, n, limit int) []int32 {
	rows := make([]int32, n)
	for i := range rows {
		rows[i] = int32(r.IntN(limit))
	}
	if n > 1 {
		rows[0], rows[r.IntN(n)] = -1, -1
	}
	return rows
}

// pickRows is x[rows], zeros for -1.
func pickRows(x []float32, rows []int32, D int) []float32 {
	out := make([]float32, len(rows)*D)
	for i, row := range rows {
		if row >= 0 {
			copy(out[i*D:][:D], x[int(row)*D:])
		}
	}
	return out
}

func BenchmarkEmbeddingBackward(b *testing.B) {
	for _, c := range normBenchmarks {
		b.Run(c.name, func(b *testing.B) {
			const V = 1000
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			tokens := make([]int32, c.T)
			for i := range tokens {
				tokens[i] = int32(i * 617 % V)
			}
			dw, dout, at := d.Zeros(kernels.F32, V, c.D), d.Zeros(kernels.BF16, c.T, c.D), d.PutI32(tokens, c.T)
			for b.Loop() {
				kernels.EmbeddingBackward(d.Q, dw, dout, at)
			}
			reportGBs(b, 5*dout.Bytes())
		})
	}
}
