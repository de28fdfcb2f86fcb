package kernels_test

import (
	"fmt"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

func TestZero(t *testing.T) {
	for _, dt := range []kernels.DType{kernels.F32, kernels.BF16, kernels.I32, kernels.U64, kernels.U8} {
		for _, shape := range [][]int{{1}, {3, 5}, {1 << 16}, {7, 9, 11, 257}} {
			t.Run(fmt.Sprint(dt, shape), func(t *testing.T) {
				for _, d := range kerneltest.Devices(t) {
					x := d.Tensor(dt, shape...)
					kernels.Zero(d.Q, x)
					for i, b := range d.GetBytes(x) {
						if b != 0 {
							t.Fatalf("%s: byte %d is %d", d.Name(), i, b)
						}
					}
					d.Close()
				}
			})
		}
	}
}

func BenchmarkZero(b *testing.B) {
	d := kerneltest.CPU(b, kernels.CPUConfig{})
	x := d.Zeros(kernels.F32, 1<<24)
	for b.Loop() {
		kernels.Zero(d.Q, x)
	}
	reportGBs(b, x.Bytes())
}
