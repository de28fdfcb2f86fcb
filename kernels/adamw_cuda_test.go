package kernels_test

import (
	"fmt"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// Every kind of masters and moments, three steps, with the CPU's bits; also from addresses that 16 bytes don't divide.
func TestAdamWCUDA(t *testing.T) {
	for _, n := range []int{1, 63, 64, 65, 2048, 3*2048 + 5} {
		for _, moments := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16} {
			for _, masters := range []string{"float32", "float32 alone", "low halves", "beside float32 weights"} {
				t.Run(fmt.Sprint(n, " ", moments, " ", masters), func(t *testing.T) {
					r := kerneltest.Rand(t)
					w := values(r, kernels.F32, n)
					var gs [3][]float32
					for i := range gs {
						gs[i] = kerneltest.Normal(r, n, 1)
						for j := range gs[i] { // many scales in a block of 64, and zeros
							gs[i][j] *= []float32{1, 1e-3, 1e-7, 0, 1e-20}[r.IntN(5)]
						}
					}
					kerneltest.Twin(t, nil, func(d *kerneltest.Device) kerneltest.Results {
						o := newOptimizer(d, kernels.BF16, moments, w)
						switch masters {
						case "float32 alone":
							o.w = o.master
						case "low halves":
							o = splitOptimizer(d, moments, w)
						case "beside float32 weights":
							o.w = d.Tensor(kernels.F32, n)
						}
						for i, g := range gs {
							if i == 1 { // once with rounded gradients
								o.g = d.Tensor(kernels.BF16, n)
							}
							o.step(g, kernels.AdamWConfig{LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Scale: 0.5, Step: i + 1})
						}
						return o.results()
					})
				})
			}
		}
	}
}
