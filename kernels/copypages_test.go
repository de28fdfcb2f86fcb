package kernels_test

import (
	"fmt"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

func TestCopyPages(t *testing.T) {
	const L, pages, K, E = 3, 7, 2, 16
	for _, dtype := range kerneltest.DTypes {
		for _, c := range []struct {
			name  string
			pairs []int32
		}{
			{"one", []int32{2, 5}},
			{"one source to several", []int32{0, 6, 0, 1, 0, 3}},
			{"idle", []int32{-1, 4, -1, -1, 6, 0, 3, -1}},
			{"all idle", []int32{-1, -1}},
		} {
			t.Run(fmt.Sprint(c.name, " ", dtype), func(t *testing.T) {
				page := 2 * K * kernels.PageTokens * E
				kv := kerneltest.Round(dtype, kerneltest.Normal(kerneltest.Rand(t), L*pages*page, 1))
				kv[5] = nanValues(1)[0] // stale slots are copied too
				got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
					x := d.Put(dtype, kv, L, pages, 2*K, kernels.PageTokens*E)
					kernels.CopyPages(d.Q, x, d.PutI32(c.pairs, len(c.pairs)/2, 2))
					return kerneltest.Results{"kv": d.Get(x)}
				})
				want := append([]float32(nil), kv...)
				for l := range L {
					for i := 0; i < len(c.pairs); i += 2 {
						if src, dst := int(c.pairs[i]), int(c.pairs[i+1]); src >= 0 && dst >= 0 {
							copy(want[(l*pages+dst)*page:][:page], kv[(l*pages+src)*page:])
						}
					}
				}
				kerneltest.Same(t, "kv", got["kv"], want)
			})
		}
	}
}

func TestCopyPagesOutside(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
	kernels.CopyPages(d.Q, d.Zeros(kernels.BF16, 1, 3, 2, 64*16), d.PutI32([]int32{0, 1, 2, 3}, 2, 2))
	want := "kernel copypages: pair 1: page 2 to 3 of 3"
	if err := d.Q.Sync(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want it to say %q", err, want)
	}
}

// BenchmarkCopyPages copies a page of Qwen3-4B, 36 layers.
func BenchmarkCopyPages(bm *testing.B) {
	d := kerneltest.CPU(bm, kernels.CPUConfig{})
	kv := d.Zeros(kernels.BF16, 36, 4, 2*8, kernels.PageTokens*128)
	pairs := d.PutI32([]int32{0, 3}, 1, 2)
	for bm.Loop() {
		kernels.CopyPages(d.Q, kv, pairs)
	}
	reportRate(bm, kv.Bytes()/4*2, "GB/s")
}
