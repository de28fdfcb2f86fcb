package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// What the tests of row-wise kernels share: those of a GPU run what the CPU's tests run, and are held to the CPU's results.

var cudaRowCases = []rowCase{
	{1, 1024, kernels.BF16}, {2, 4096 + 8, kernels.BF16}, {15, 1, kernels.BF16}, {15, 16, kernels.BF16}, {16, 40, kernels.BF16},
	{17, 7, kernels.BF16}, {63, 65, kernels.BF16}, {64, 64, kernels.BF16}, {65, 200, kernels.BF16}, {17, 520, kernels.BF16},
	{129, 128, kernels.BF16}, {1, 8192, kernels.BF16},
}

func eachCUDARowCase(t *testing.T, f func(t *testing.T, c rowCase, r *rand.Rand)) {
	for _, c := range cudaRowCases {
		t.Run(fmt.Sprintf("%dx%d", c.T, c.D), func(t *testing.T) { f(t, c, kerneltest.Rand(t)) })
	}
}

// near is the tolerance of a value that both devices compute with a relative error before they round it to bfloat16.
func near(error float64) kerneltest.Tol {
	return kerneltest.Tol{Rel: 2*kerneltest.Unit(kernels.BF16) + error}
}
