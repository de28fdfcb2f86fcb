package kernels_test

import (
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// Rows and pages that begin beyond 2³¹ elements, in memory that nobody else touches.
func TestFarCUDA(t *testing.T) {
	const D, far = 1024, 1<<21 + 130
	row := values(kerneltest.Rand(t), kernels.BF16, D)
	kerneltest.Twin(t, nil, func(d *kerneltest.Device) kerneltest.Results {
		alloc := func(shape ...int) kernels.Tensor {
			x := kernels.NewTensor(0, kernels.BF16, shape...)
			p, err := d.Alloc(x.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			x.Ptr = p
			return x
		}
		x := alloc(far+1, D)
		d.Q.Copy(x.Rows(far, far+1).Ptr, d.Put(kernels.BF16, row, 1, D).Ptr, 2*D)
		out, embedded := d.Tensor(kernels.BF16, 2, D), d.Tensor(kernels.BF16, 1, D)
		kernels.Gather(d.Q, out, x, d.PutI32([]int32{far, 1}, 2))
		kernels.Embedding(d.Q, embedded, d.PutI32([]int32{far}, 1), x)

		// A page is 64 rows of x.
		const pages = far / kernels.PageTokens
		kv := x.Rows(0, pages*kernels.PageTokens).View(1, pages, 2, kernels.PageTokens*D/2)
		last := x.Rows((pages-1)*kernels.PageTokens, (pages-1)*kernels.PageTokens+1)
		d.Q.Copy(x.Ptr, d.Put(kernels.BF16, row, 1, D).Ptr, 2*D)
		kernels.CopyPages(d.Q, kv, d.PutI32([]int32{0, pages - 1}, 1, 2))
		return kerneltest.Results{"gathered": d.Get(out), "embedded": d.Get(embedded), "page": d.Get(last)}
	})
}
