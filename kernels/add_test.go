package kernels_test

import (
	"fmt"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

func TestAdd(t *testing.T) {
	for _, shape := range [][]int{{1}, {17}, {3, 5, 7}, {1 << 14}, {1<<14 + 1}, {2, 3, 5, 1237}} {
		t.Run(fmt.Sprint(shape), func(t *testing.T) {
			r := kerneltest.Rand(t)
			n := kernels.NewTensor(0, kernels.F32, shape...).Len()
			x, y := values(r, kernels.F32, n), values(r, kernels.F32, n)
			got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
				dst := d.Put(kernels.F32, x, shape...)
				kernels.Add(d.Q, dst, d.Put(kernels.F32, y, shape...))
				return kerneltest.Results{"dst": d.Get(dst)}
			})
			for i := range x {
				x[i] += y[i]
			}
			kerneltest.Same(t, "dst", got["dst"], x)
		})
	}
}

func BenchmarkAdd(b *testing.B) {
	d := kerneltest.CPU(b, kernels.CPUConfig{})
	dst, src := d.Zeros(kernels.F32, 1<<22), d.Zeros(kernels.F32, 1<<22)
	for b.Loop() {
		kernels.Add(d.Q, dst, src)
	}
	reportGBs(b, 3*dst.Bytes())
}
