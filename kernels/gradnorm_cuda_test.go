package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// Sums are float64 in another order: before the norm is rounded it is the CPU's to 2^-40 or so.
func TestGradNormCUDA(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, n := range []int{1, 3, 511, 4095, 4096, 4097, 50000} {
		r := kerneltest.Rand(t)
		x := values(r, kernels.F32, n+1)
		for name, last := range map[string]float32{"": 1, "NaN": nan, "infinity": -inf, "squares beyond float32": 3e30, "norm beyond float32": 3.4e38} {
			t.Run(fmt.Sprint(n, " ", name), func(t *testing.T) {
				x[n-1], x[n] = last, last
				kerneltest.Twin(t, kerneltest.Tols{"norm": {Rel: 0x1p-23}, "odd": {Rel: 0x1p-23}}, func(d *kerneltest.Device) kerneltest.Results {
					g, norm, odd := d.Put(kernels.F32, x, n+1), d.Tensor(kernels.F32, 1), d.Tensor(kernels.F32, 1)
					leaves := d.Tensor(kernels.U64, (n+kernels.NormLeaf-1)/kernels.NormLeaf)
					kernels.GradNorm(d.Q, norm, leaves, g.Rows(0, n))
					kernels.GradNorm(d.Q, odd, leaves, g.Rows(1, n+1))
					return kerneltest.Results{"norm": d.Get(norm), "odd": d.Get(odd)}
				})
			})
		}
	}
}
