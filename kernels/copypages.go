package kernels

import (
	"fmt"
	"unsafe"
)

// CopyPages copies whole pages of the cache, for all layers. No page may be the destination of one pair and appear in
// another.
//
//	kv     (L, pages, 2·K, 64·E)
//	pairs  (N, 2) I32             source page, destination page; a pair with a -1 is idle
func CopyPages(q Queue, kv, pairs Tensor) {
	d := dims{op: "CopyPages"}
	d.want(kv, "kv", "L pages planes plane", F32, BF16)
	d.want(pairs, "pairs", "N 2", I32)
	a := copyPagesArgs{kv: kv.Ptr, pairs: pairs.Ptr, L: int32(d.at["L"]), N: int32(d.at["N"]), pages: int32(d.at["pages"])}
	a.page = int64(d.at["planes"] * d.at["plane"] * kv.DType.Size())
	launch(q, &copyPagesOp, d.at["L"]*d.at["N"], a)
}

type copyPagesArgs struct {
	kv          Ptr   // (L, pages, page)
	pairs       Ptr   // (N, 2)
	page        int64 // bytes of a page of one layer
	L, N, pages int32
	_           int32
}

var copyPagesOp = Op{Name: "copypages", Size: unsafe.Sizeof(copyPagesArgs{}), CPU: copyPagesGo, CUDA: copyPagesGrid}

func copyPagesGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*copyPagesArgs)(args)
	N, pages, words := int(a.N), int(a.pages), int(a.page)/4
	pairs := m.I32(a.pairs, 2*N)
	for i := lo; i < hi; i++ {
		layer, src, dst := i/N, int(pairs[i%N*2]), int(pairs[i%N*2+1])
		if src < 0 || dst < 0 {
			continue
		}
		if src >= pages || dst >= pages {
			panic(fmt.Sprintf("pair %d: page %d to %d of %d", i%N, src, dst, pages))
		}
		kv := m.I32(a.kv+Ptr(int64(layer*pages)*a.page), pages*words)
		copy(kv[dst*words:][:words], kv[src*words:])
	}
}

// copyPagesGrid gives a block 16 KB. A page is 64 tokens, so its bytes are a multiple of 16 whatever the rest.
func copyPagesGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*copyPagesArgs)(args)
	if a.kv%16 != 0 {
		return Grid{}
	}
	return Grid{X: int(a.L) * int(a.N) * blocks(int(a.page), 1<<14), Y: 1, Threads: gpuThreads}
}
