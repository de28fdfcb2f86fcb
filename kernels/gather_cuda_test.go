package kernels_test

import (
	"math/rand/v2"
	"testing"

	"tandem/kernels/kerneltest"
)

func TestGatherCUDA(t *testing.T) {
	eachCUDARowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		for _, c.DType = range kerneltest.DTypes {
			kerneltest.Twin(t, nil, c.gather(values(r, c.DType, gathered*c.D), someRows(r, c.T, gathered)))
			rows := make([]int32, (c.T+1)/2)
			for i, row := range r.Perm(c.T)[:len(rows)] {
				if rows[i] = int32(row); i%5 == 4 {
					rows[i] = -1
				}
			}
			kerneltest.Twin(t, nil, c.gatherBackward(values(r, c.DType, len(rows)*c.D), rows))
		}
	})
}
