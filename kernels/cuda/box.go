package cuda

// #include "driver.h"
import "C"

import (
	"fmt"
	"unsafe"

	"tandem/kernels"
)

// A tensorMap is what the driver makes of a Box; where it lies in a kernel's arguments is a multiple of its alignment.
type tensorMap [kernels.BoxBytes]byte

const tensorMapAlign = 64

// boxed is a launch's arguments with the tensor maps of its boxes behind them. It is the queue's own memory, good until the
// next launch.
func (q *Queue) boxed(g kernels.Grid, args []byte) ([]byte, error) {
	at := (len(args) + tensorMapAlign - 1) / tensorMapAlign * tensorMapAlign
	n := at
	for _, b := range g.Boxes {
		if b != (kernels.Box{}) {
			n += kernels.BoxBytes
		}
	}
	if n == at {
		return args, nil
	}
	if len(q.args) < n+tensorMapAlign {
		q.args = make([]byte, n+tensorMapAlign)
	}
	skip := -uintptr(unsafe.Pointer(&q.args[0])) & (tensorMapAlign - 1) // the driver copies from what is aligned
	all := q.args[skip:][:n]
	copy(all, args)
	for i, b := range g.Boxes {
		if b == (kernels.Box{}) {
			continue
		}
		m, err := q.tensorMap(b)
		if err != nil {
			return nil, err
		}
		copy(all[at+i*kernels.BoxBytes:], m[:])
	}
	return all, nil
}

// mostMaps are more than a step has: two for each of its products. Rows differ from step to step, so that old ones pile up.
const mostMaps = 4096

// tensorMap encodes a box and remembers it.
func (q *Queue) tensorMap(b kernels.Box) (*tensorMap, error) {
	if m := q.maps[b]; m != nil {
		return m, nil
	}
	buffer := make([]byte, kernels.BoxBytes+tensorMapAlign)
	skip := -uintptr(unsafe.Pointer(&buffer[0])) & (tensorMapAlign - 1)
	r := C.tandem_cuda_box(q.dev.ctx, unsafe.Pointer(&buffer[skip]), C.CUdeviceptr(b.Ptr), C.uint64_t(b.Rows), C.uint64_t(b.Cols), C.uint64_t(b.Line), C.uint(b.BoxRows))
	if r != 0 {
		return nil, q.dev.driver.fail(r, "cuTensorMapEncodeTiled", fmt.Sprintf("describe boxes of %d rows of a (%d, %d) matrix", b.BoxRows, b.Rows, b.Cols))
	}
	if len(q.maps) >= mostMaps {
		clear(q.maps)
	}
	m := (*tensorMap)(buffer[skip:])
	q.maps[b] = m
	return m, nil
}
