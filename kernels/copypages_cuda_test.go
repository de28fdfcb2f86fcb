package kernels_test

import (
	"fmt"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// Pages of 24 KB, so that a block's part ends inside a page, and of 128 bytes times 2 heads.
func TestCopyPagesCUDA(t *testing.T) {
	const L, pages = 3, 7
	for _, shape := range [][2]int{{3, 32}, {1, 2}} {
		K, E := shape[0], shape[1]
		kv := values(kerneltest.Rand(t), kernels.BF16, L*pages*2*K*kernels.PageTokens*E)
		for _, pairs := range [][]int32{{2, 5}, {0, 6, 0, 1, 0, 3}, {-1, 4, -1, -1, 6, 0, 3, -1}} {
			t.Run(fmt.Sprint(shape, pairs), func(t *testing.T) {
				kerneltest.Twin(t, nil, func(d *kerneltest.Device) kerneltest.Results {
					x := d.Put(kernels.BF16, kv, L, pages, 2*K, kernels.PageTokens*E)
					kernels.CopyPages(d.Q, x, d.PutI32(pairs, len(pairs)/2, 2))
					return kerneltest.Results{"kv": d.Get(x)}
				})
			})
		}
	}
}
