package kernels

import (
	"encoding/binary"
	"fmt"
	"math"
)

// A Transfer moves data between the host and a device, through a piece of pinned memory and a queue of its own. Work on
// other queues that touches what is moved must be over.
type Transfer struct {
	q    Queue
	ptr  Ptr
	host []byte
}

// TransferBytes is the pinned memory of a Transfer, enough to keep a bus busy; larger moves go in pieces.
const TransferBytes = 4 << 20

// NewTransfer takes the memory and the queue.
func NewTransfer(dev Device) (*Transfer, error) {
	p, host, err := dev.Pinned(TransferBytes)
	if err != nil {
		return nil, fmt.Errorf("transfer to the device: %w", err)
	}
	q, err := dev.NewQueue()
	if err != nil {
		return nil, fmt.Errorf("transfer to the device: %w", err)
	}
	return &Transfer{q, p, host}, nil
}

// Up copies n bytes to dst, as they are. fill is called for consecutive pieces and writes each whole.
func (x *Transfer) Up(dst Ptr, n int, fill func(piece []byte) error) error {
	for at := 0; at < n; at += TransferBytes {
		piece := x.host[:min(n-at, TransferBytes)]
		if err := fill(piece); err != nil {
			return err
		}
		x.q.Copy(dst+Ptr(at), x.ptr, len(piece))
		if err := x.q.Sync(); err != nil { // the next fill writes where this copy reads
			return err
		}
	}
	return nil
}

// Down copies n bytes from src and hands them to use in consecutive pieces.
func (x *Transfer) Down(src Ptr, n int, use func(piece []byte) error) error {
	for at := 0; at < n; at += TransferBytes {
		piece := x.host[:min(n-at, TransferBytes)]
		x.q.Copy(x.ptr, src+Ptr(at), len(piece))
		if err := x.q.Sync(); err != nil {
			return err
		}
		if err := use(piece); err != nil {
			return err
		}
	}
	return nil
}

// Put rounds src to the type of dst, F32 or BF16, and writes it from element off on.
func (x *Transfer) Put(dst Tensor, off int, src []float32) error {
	size := dst.DType.Size()
	return x.Up(dst.Ptr+Ptr(off*size), len(src)*size, func(piece []byte) error {
		n := len(piece) / size
		for i, v := range src[:n] {
			if dst.DType == BF16 {
				binary.LittleEndian.PutUint16(piece[2*i:], BF16Of(v))
			} else {
				binary.LittleEndian.PutUint32(piece[4*i:], math.Float32bits(v))
			}
		}
		src = src[n:]
		return nil
	})
}

// Get reads elements of src, F32 or BF16, from off on.
func (x *Transfer) Get(dst []float32, src Tensor, off int) error {
	size := src.DType.Size()
	return x.Down(src.Ptr+Ptr(off*size), len(dst)*size, func(piece []byte) error {
		n := len(piece) / size
		for i := range dst[:n] {
			if src.DType == BF16 {
				dst[i] = F32Of(binary.LittleEndian.Uint16(piece[2*i:]))
			} else {
				dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(piece[4*i:]))
			}
		}
		dst = dst[n:]
		return nil
	})
}
