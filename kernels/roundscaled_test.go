package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

var roundedSizes = []int{1, 7, 8, 9, 2047, 2048, 2049, 4095, 4096, 4097, 20001}

func TestRoundScaled(t *testing.T) {
	for _, n := range roundedSizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			x, scale := gradients(t, n), float32(0.37)
			got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results { return roundScaled(d, x, scale) })
			want := make([]float32, n)
			for i, v := range x {
				want[i] = kernels.F32Of(kernels.BF16Of(v * scale))
			}
			kerneltest.Same(t, "out", got["out"], want)
			kerneltest.Same(t, "out at an odd address", got["odd"], want)
		})
	}
}

func TestRoundScaledCUDA(t *testing.T) {
	for _, n := range roundedSizes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			x := gradients(t, n)
			kerneltest.Twin(t, nil, func(d *kerneltest.Device) kerneltest.Results { return roundScaled(d, x, 0.37) })
		})
	}
}

// gradients are of many scales, with what lies half way between two bfloat16 and what has no bfloat16 of its size.
func gradients(t *testing.T, n int) []float32 {
	r := kerneltest.Rand(t)
	x := kerneltest.Normal(r, n, 1)
	for i := range x {
		switch r.IntN(6) {
		case 0:
			x[i] *= 1e-6
		case 1:
			x[i] = math.Float32frombits(math.Float32bits(x[i])&^0xffff|0x8000) / 0.37
		case 2:
			x[i] = []float32{0, float32(math.Copysign(0, -1)), 1e-40, -1e-45, math.MaxFloat32}[r.IntN(5)]
		}
	}
	return x
}

// roundScaled does it at an even address and at an odd one.
func roundScaled(d *kerneltest.Device, x []float32, scale float32) kerneltest.Results {
	n := len(x)
	in, out := d.Put(kernels.F32, x, n), d.Tensor(kernels.BF16, n)
	kernels.RoundScaled(d.Q, out, in, scale)
	odd := d.Tensor(kernels.BF16, n+1)
	kernels.RoundScaled(d.Q, odd.Rows(1, n+1), in, scale)
	return kerneltest.Results{"out": d.Get(out), "odd": d.Get(odd.Rows(1, n+1))}
}
