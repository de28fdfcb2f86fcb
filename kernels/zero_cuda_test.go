package kernels_test

import (
	"fmt"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// Any bytes at any address, and none beside them.
func TestZeroCUDA(t *testing.T) {
	ds := kerneltest.GPU(t)
	for _, n := range []int{1, 5, 16, 31, 4096, 100003} {
		for _, at := range []int{0, 1, 15} {
			t.Run(fmt.Sprint(n, " bytes at ", at), func(t *testing.T) {
				for _, d := range ds {
					x := d.Tensor(kernels.U8, n+48)
					before := d.GetBytes(x)
					kernels.Zero(d.Q, x.Rows(at, at+n))
					for i, b := range d.GetBytes(x) {
						want := before[i]
						if i >= at && i < at+n {
							want = 0
						}
						if b != want {
							t.Fatalf("%s: byte %d is %d, want %d", d.Name(), i-at, b, want)
						}
					}
				}
			})
		}
	}
}
