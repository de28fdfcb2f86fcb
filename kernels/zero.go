package kernels

import "unsafe"

const zeroBytes = 1 << 16 // per item

// Zero clears x, a tensor of any dtype and shape.
func Zero(q Queue, x Tensor) {
	if x.Ptr == 0 {
		panic("Zero: x has no memory")
	}
	launch(q, &zeroOp, blocks(x.Bytes(), zeroBytes), zeroArgs{X: x.Ptr, Bytes: int64(x.Bytes())})
}

type zeroArgs struct {
	X     Ptr // any shape
	Bytes int64
}

var zeroOp = Op{Name: "zero", Size: unsafe.Sizeof(zeroArgs{}), CPU: zeroGo, CUDA: zeroGrid}

func zeroGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*zeroArgs)(args)
	at := lo * zeroBytes
	clear(raw(m, a.X+Ptr(at), min(hi*zeroBytes, int(a.Bytes))-at))
}

func zeroGrid(gpu GPU, args unsafe.Pointer) Grid {
	return stridedGrid(gpu, blocks(int((*zeroArgs)(args).Bytes), 16*4*gpuThreads))
}
