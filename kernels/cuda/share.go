package cuda

// #include "driver.h"
import "C"

import (
	"fmt"
	"os"
	"slices"
	"unsafe"

	"tandem/kernels"
)

// Share pins memory of the host that is not the card's, as kernels.Sharer says: the pages that hold it.
func (d *Device) Share(host []byte) (kernels.Ptr, error) {
	if len(host) == 0 {
		return 0, fmt.Errorf("cuda: share no memory")
	}
	first, off, n := pages(host)
	var p C.CUdeviceptr
	if err := d.driver.check(C.tandem_cuda_share(d.ctx, first, C.size_t(n), &p), "cuMemHostRegister_v2", "share %d bytes (%s) of the host's memory", len(host), gib(len(host))); err != nil {
		return 0, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.shared = append(d.shared, first)
	return kernels.Ptr(p) + kernels.Ptr(off), nil
}

// Unshare undoes Share, of the same memory. After Close there is nothing to undo.
func (d *Device) Unshare(host []byte) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	at := -1
	if len(host) > 0 {
		first, _, _ := pages(host)
		at = slices.Index(d.shared, first)
	}
	if at < 0 {
		return fmt.Errorf("cuda: unshare %d bytes that are not shared", len(host))
	}
	first := d.shared[at]
	d.shared = slices.Delete(d.shared, at, at+1)
	return d.driver.check(C.tandem_cuda_unshare(d.ctx, first), "cuMemHostUnregister", "unshare %d bytes of the host's memory", len(host))
}

// pages are those that hold the bytes: the first, how far into it they begin, and the bytes of all pages.
func pages(host []byte) (first unsafe.Pointer, off, n int) {
	size := os.Getpagesize()
	at := unsafe.Pointer(unsafe.SliceData(host))
	off = int(uintptr(at) % uintptr(size))
	return unsafe.Add(at, -off), off, (off + len(host) + size - 1) / size * size
}
