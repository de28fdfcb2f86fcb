package kernels_test

import (
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// Elementwise: the CPU's bits.
func TestSwiGLUCUDA(t *testing.T) {
	eachCUDARowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		x := kerneltest.Round(c.DType, kerneltest.Normal(r, c.T*2*c.D, 4))
		copy(x, []float32{0, 88, -88, 100, -100, 1e30, -1e30})
		kerneltest.Twin(t, nil, c.swiglu(t, x))
		kerneltest.Twin(t, nil, c.swigluBackward(t, values(r, c.DType, c.T*c.D), x))
	})
}

// Every finite gate, and what is no number.
func TestSwiGLUGatesCUDA(t *testing.T) {
	const F = 1 << 16
	x, ones := make([]float32, 2*F), make([]float32, F)
	for i := range F {
		x[i], x[F+i], ones[i] = kernels.F32Of(uint16(i)), 1, 1
	}
	c := rowCase{1, F, kernels.BF16}
	kerneltest.Twin(t, nil, c.swiglu(t, x))
	kerneltest.Twin(t, nil, c.swigluBackward(t, ones, x))
}
