package kernels_test

import (
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// Copies and sums in the CPU's order: the CPU's bits.
func TestEmbeddingCUDA(t *testing.T) {
	eachCUDARowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		tokens := someRows(r, c.T, tokenKinds)
		kerneltest.Twin(t, nil, c.embedding(tokens, values(r, c.DType, tokenKinds*c.D)))
		kerneltest.Twin(t, nil, c.embeddingBackward(t, values(r, c.DType, c.T*c.D), tokens, values(r, kernels.F32, tokenKinds*c.D)))
	})
}

// More rows than a block looks at between barriers; one token in most of them, one only in the last.
func TestEmbeddingBackwardManyRowsCUDA(t *testing.T) {
	const T, D = 2*1024 + 70, 16
	r := kerneltest.Rand(t)
	tokens := make([]int32, T)
	for i := range tokens {
		if tokens[i] = 3; r.IntN(4) == 0 {
			tokens[i] = int32(r.IntN(tokenKinds-1)) - 1
		}
	}
	tokens[T-1] = tokenKinds - 1
	dout, before := values(r, kernels.BF16, T*D), values(r, kernels.F32, tokenKinds*D)
	kerneltest.Twin(t, nil, func(d *kerneltest.Device) kerneltest.Results {
		dw := d.Put(kernels.F32, before, tokenKinds, D)
		kernels.EmbeddingBackward(d.Q, dw, d.Put(kernels.BF16, dout, T, D), d.PutI32(tokens, T))
		return kerneltest.Results{"dw": d.Get(dw)}
	})
}
