package kernels

import (
	"fmt"
	"unsafe"
)

// A Transfer moves float32 values between the host and tensors of any float type, through a piece of pinned memory. Work
// on other queues that touches the tensors must be over.
type Transfer struct {
	q    Queue
	ptr  Ptr
	host []byte
}

// TransferBytes is the pinned memory of a Transfer; larger moves go in pieces.
const TransferBytes = 4 << 20

// NewTransfer takes the pinned memory and a queue.
func NewTransfer(dev Device) (*Transfer, error) {
	p, host, err := dev.Pinned(TransferBytes)
	if err != nil {
		return nil, fmt.Errorf("transfer buffer: %w", err)
	}
	q, err := dev.NewQueue()
	return &Transfer{q, p, host}, err
}

// Put rounds src to dst's type and writes it from element off on.
func (x *Transfer) Put(dst Tensor, off int, src []float32) error {
	for size := dst.DType.Size(); len(src) > 0; {
		n := min(len(src), TransferBytes/size)
		if dst.DType == BF16 {
			to := unsafe.Slice((*uint16)(unsafe.Pointer(&x.host[0])), n)
			for i := range to {
				to[i] = BF16Of(src[i])
			}
		} else {
			copy(unsafe.Slice((*float32)(unsafe.Pointer(&x.host[0])), n), src)
		}
		x.q.Copy(dst.Ptr+Ptr(off*size), x.ptr, n*size)
		if err := x.q.Sync(); err != nil {
			return err
		}
		src, off = src[n:], off+n
	}
	return nil
}

// Get reads elements of src from off on.
func (x *Transfer) Get(dst []float32, src Tensor, off int) error {
	for size := src.DType.Size(); len(dst) > 0; {
		n := min(len(dst), TransferBytes/size)
		x.q.Copy(x.ptr, src.Ptr+Ptr(off*size), n*size)
		if err := x.q.Sync(); err != nil {
			return err
		}
		if src.DType == BF16 {
			for i, v := range unsafe.Slice((*uint16)(unsafe.Pointer(&x.host[0])), n) {
				dst[i] = F32Of(v)
			}
		} else {
			copy(dst[:n], unsafe.Slice((*float32)(unsafe.Pointer(&x.host[0])), n))
		}
		dst, off = dst[n:], off+n
	}
	return nil
}
