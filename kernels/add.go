package kernels

import (
	"fmt"
	"unsafe"
)

const addTile = 1 << 14 // elements per item

// Add is dst += src in float32, for gradients that were collected apart.
//
//	dst, src   F32, one shape
func Add(q Queue, dst, src Tensor) {
	if dst.Ptr == 0 || src.Ptr == 0 || dst.DType != F32 || src.DType != F32 || dst.Shape != src.Shape {
		panic(fmt.Sprintf("Add: dst is %v %v, src is %v %v, want float32 of one shape", dst.DType, dst.Dims(), src.DType, src.Dims()))
	}
	launch(q, &addOp, blocks(dst.Len(), addTile), addArgs{Dst: dst.Ptr, Src: src.Ptr, N: int64(dst.Len())})
}

type addArgs struct {
	Dst Ptr // (N)
	Src Ptr // (N)
	N   int64
}

var addOp = Op{Name: "add", Size: unsafe.Sizeof(addArgs{}), CPU: addGo, CUDA: addGrid}

func addGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*addArgs)(args)
	at := lo * addTile
	n := min(hi*addTile, int(a.N)) - at
	accumulate(m.F32(a.Dst+Ptr(4*at), n), m.F32(a.Src+Ptr(4*at), n))
}

func addGrid(gpu GPU, args unsafe.Pointer) Grid {
	return stridedGrid(gpu, blocks(int((*addArgs)(args).N), 16*gpuThreads))
}

// accumulate is dst += src.
func accumulate(dst, src []float32) {
	src = src[:len(dst)]
	for i, v := range src {
		dst[i] += v
	}
}
