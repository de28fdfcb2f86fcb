package kernels_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

func TestRMSNormCUDA(t *testing.T) {
	eachCUDARowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		x, w := values(r, c.DType, c.T*c.D), values(r, c.DType, c.D)
		clear(x[(c.T-1)*c.D:]) // a padding row
		tols := kerneltest.Tols{"rstd": {Rel: 2 * dotUnits(c.D)}, "out": near(2 * dotUnits(c.D))}
		kerneltest.Twin(t, tols, c.rmsNorm(t, x, w))
	})
}

// The sum has the CPU's bits.
func TestAddRMSNormCUDA(t *testing.T) {
	eachCUDARowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		x, res, w := values(r, c.DType, c.T*c.D), values(r, c.DType, c.T*c.D), values(r, c.DType, c.D)
		kerneltest.Twin(t, kerneltest.Tols{"out": near(2 * dotUnits(c.D))}, c.addRMSNorm(t, x, res, w))
	})
}

// The weight's gradient has the CPU's bits: both add the rows of a leaf, then leaves.
func TestRMSNormBackwardCUDA(t *testing.T) {
	eachCUDARowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		T, D, dt := c.T, c.D, c.DType
		x, w, dout, dres := values(r, dt, T*D), values(r, dt, D), values(r, dt, T*D), values(r, dt, T*D)
		_, rstd64 := rmsNorm(kerneltest.F64(x), kerneltest.F64(w), D, eps)
		rstd := make([]float32, T)
		for i := range rstd {
			rstd[i] = float32(rstd64[i])
		}
		_, _, size, _ := rmsNormBackward(kerneltest.F64(dout), kerneltest.F64(rstd), kerneltest.F64(x), kerneltest.F64(w))
		tol := kerneltest.Rounded(dt, size*2*dotUnits(D))
		kerneltest.Twin(t, kerneltest.Tols{"dx": tol, "bare": tol}, c.rmsNormBackward(t, dout, dres, rstd, x, w, values(r, kernels.F32, D)))
	})
}

// A row too wide for a block's registers has no kernel, and the queue says which it was.
func TestRMSNormTooWideCUDA(t *testing.T) {
	for _, d := range kerneltest.GPU(t) {
		x := d.Zeros(kernels.BF16, 1, 8193)
		kernels.RMSNorm(d.Q, x, kernels.Tensor{}, x, d.Zeros(kernels.BF16, 8193), eps)
		if err := d.Q.Sync(); err == nil || !strings.Contains(err.Error(), "rmsnorm") {
			t.Errorf("%s: a row of 8193: %v", d.Name(), err)
		}
	}
}
