package kernels_test

import (
	"fmt"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

func TestAddCUDA(t *testing.T) {
	for _, n := range []int{1, 15, 4095, 4096, 4097, 20001} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := kerneltest.Rand(t)
			x, y := values(r, kernels.F32, n+1), values(r, kernels.F32, n+1)
			kerneltest.Twin(t, nil, func(d *kerneltest.Device) kerneltest.Results {
				dst, src, odd := d.Put(kernels.F32, x, n+1), d.Put(kernels.F32, y, n+1), d.Put(kernels.F32, x, n+1)
				kernels.Add(d.Q, dst.Rows(0, n), src.Rows(0, n))
				kernels.Add(d.Q, odd.Rows(1, n+1), src.Rows(0, n)) // no multiple of 16 bytes
				return kerneltest.Results{"dst": d.Get(dst), "odd": d.Get(odd)}
			})
		})
	}
}
