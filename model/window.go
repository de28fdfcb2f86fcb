package model

import (
	"fmt"

	"tandem/kernels"
)

// A Window is pinned memory, and a queue of its own, through which weights move between files and a device as they are,
// byte for byte. Work on other queues that touches what is moved must be over.
type Window struct {
	q    kernels.Queue
	ptr  kernels.Ptr
	host []byte
}

// windowBytes is the size of a window: enough to keep a bus busy.
const windowBytes = 4 << 20

// NewWindow takes the memory and the queue.
func NewWindow(dev kernels.Device) (*Window, error) {
	p, host, err := dev.Pinned(windowBytes)
	if err != nil {
		return nil, fmt.Errorf("window to the device: %w", err)
	}
	q, err := dev.NewQueue()
	if err != nil {
		return nil, fmt.Errorf("window to the device: %w", err)
	}
	return &Window{q, p, host}, nil
}

// up copies n bytes to dst. fill is called for consecutive pieces and writes each whole.
func (w *Window) up(dst kernels.Ptr, n int, fill func(piece []byte) error) error {
	for at := 0; at < n; at += windowBytes {
		piece := w.host[:min(n-at, windowBytes)]
		if err := fill(piece); err != nil {
			return err
		}
		w.q.Copy(dst+kernels.Ptr(at), w.ptr, len(piece))
		if err := w.q.Sync(); err != nil { // the next fill writes where this copy reads
			return err
		}
	}
	return nil
}

// down copies n bytes from src and hands them to use in consecutive pieces.
func (w *Window) down(src kernels.Ptr, n int, use func(piece []byte) error) error {
	for at := 0; at < n; at += windowBytes {
		piece := w.host[:min(n-at, windowBytes)]
		w.q.Copy(w.ptr, src+kernels.Ptr(at), len(piece))
		if err := w.q.Sync(); err != nil {
			return err
		}
		if err := use(piece); err != nil {
			return err
		}
	}
	return nil
}
