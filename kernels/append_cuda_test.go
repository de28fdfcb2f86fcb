package kernels_test

import (
	"fmt"
	"testing"

	"tandem/kernels/kerneltest"
)

func TestAppendCUDA(t *testing.T) {
	for _, dtype := range kerneltest.DTypes {
		for _, shape := range [][3]int{{1, 1, 16}, {6, 2, 32}, {5, 1, 2}, {2, 2, 20}, {4, 2, 128}} {
			t.Run(fmt.Sprint(dtype, " ", shape), func(t *testing.T) {
				r := kerneltest.Rand(t)
				var table []int32
				kerneltest.Twin(t, nil, appendSteps(appended(r, dtype, shape[0], shape[1], shape[2]), r.Uint64(), &table))
			})
		}
	}
}
