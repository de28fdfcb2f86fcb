package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

func eachCUDARopeCase(t *testing.T, f func(t *testing.T, c *ropeCase)) {
	for _, s := range [][4]int{
		{1, 4, 2, 128}, {15, 1, 1, 16}, {16, 6, 2, 32}, {17, 5, 1, 64}, {17, 2, 2, 128}, {33, 4, 2, 40}, {63, 3, 1, 2}, {65, 16, 8, 128}, {129, 3, 2, 64}, {3, 2, 1, 512},
	} {
		T, H, K, E := s[0], s[1], s[2], s[3]
		t.Run(fmt.Sprintf("T%d H%d K%d E%d", T, H, K, E), func(t *testing.T) {
			f(t, newRopeCase(kerneltest.Rand(t), T, H, K, E, kernels.BF16))
		})
	}
}

func TestQKNormRopeCUDA(t *testing.T) {
	eachCUDARopeCase(t, func(t *testing.T, c *ropeCase) {
		out, _ := c.forward(kerneltest.F64(c.qkv), kerneltest.F64(c.wq), kerneltest.F64(c.wk))
		tols := kerneltest.Tols{"out": kerneltest.Rounded(c.dt, 2*maxAbs(out...)*c.units()), "rstd": {Rel: 2 * dotUnits(c.E)}}
		kerneltest.Twin(t, tols, c.run(t))
	})
}

func TestQKNormRopeBackwardCUDA(t *testing.T) {
	eachCUDARopeCase(t, func(t *testing.T, c *ropeCase) {
		_, _, _, size := c.backward(kerneltest.F64(c.qkv), kerneltest.F64(c.wq), kerneltest.F64(c.wk))
		// A term of dw is at most about 2·|dout|·|x·r| <= 2·5·√E; a leaf has 16·H of them, which the devices add in different
		// orders: their errors are those of walks of as many steps.
		terms := float64(c.T * c.H)
		dw := kerneltest.Tol{Abs: 4 * 10 * math.Sqrt(float64(c.E)) * math.Sqrt(terms) * math.Sqrt(terms+16) * 0x1p-24}
		tols := kerneltest.Tols{"dqkv": kerneltest.Rounded(c.dt, 2*size*c.units()), "dwq": dw, "dwk": dw}
		kerneltest.Twin(t, tols, c.runBackward(t))
	})
}
