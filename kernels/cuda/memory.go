package cuda

// #include "driver.h"
import "C"

import (
	"fmt"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/cuda/telemetry"
)

// Alloc takes memory of the card, zeroed and aligned to 256 bytes.
func (d *Device) Alloc(bytes int) (kernels.Ptr, error) {
	if bytes < 0 {
		return 0, fmt.Errorf("cuda: allocate %d bytes", bytes)
	}
	n := C.size_t(max(bytes, 1)) // the driver gives no address for nothing
	var p C.CUdeviceptr
	if r := C.tandem_cuda_alloc(d.ctx, n, &p); r != 0 {
		return 0, d.full(d.driver.fail(r, "cuMemAlloc_v2", fmt.Sprintf("allocate %d bytes (%s)", bytes, gib(bytes))))
	}
	d.mu.Lock()
	d.arenas = append(d.arenas, p)
	d.taken += int(n)
	d.mu.Unlock()
	if err := d.driver.check(C.tandem_cuda_zero(d.ctx, p, n, d.chores), "cuMemsetD8Async", "zero %d bytes", bytes); err != nil {
		return 0, err
	}
	if err := d.driver.check(C.tandem_cuda_wait(d.ctx, d.chores), "cuStreamSynchronize", "zero %d bytes", bytes); err != nil {
		return 0, err
	}
	return kernels.Ptr(p), nil
}

// full adds to an error for want of memory how much there is.
func (d *Device) full(err *Error) error {
	if err.Code != C.CUDA_ERROR_OUT_OF_MEMORY {
		return err
	}
	free, e := d.FreeMemory()
	if e != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return fmt.Errorf("%w: %s of %s are free on %s; this process holds %s, and others may hold some", err, gib(free), gib(d.card.Memory), d.card.Name, gib(d.taken))
}

// Pinned takes memory of the host, zeroed, that the card reads and writes at the address given.
func (d *Device) Pinned(bytes int) (kernels.Ptr, []byte, error) {
	if bytes < 0 {
		return 0, nil, fmt.Errorf("cuda: allocate %d bytes of pinned memory", bytes)
	}
	n := max(bytes, 1)
	var host unsafe.Pointer
	var p C.CUdeviceptr
	if err := d.driver.check(C.tandem_cuda_alloc_host(d.ctx, C.size_t(n), &host, &p), "cuMemHostAlloc", "allocate %d bytes of pinned host memory", bytes); err != nil {
		return 0, nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.pinned = append(d.pinned, host)
	return kernels.Ptr(p), unsafe.Slice((*byte)(host), n)[:bytes:bytes], nil
}

// FreeMemory is the bytes of the card that nobody has taken.
func (d *Device) FreeMemory() (int, error) {
	var free, total C.size_t
	err := d.driver.check(C.tandem_cuda_memory(d.ctx, &free, &total), "cuMemGetInfo_v2", "ask how much memory is free")
	return int(free), err
}

// Taken is the bytes of all arenas.
func (d *Device) Taken() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken
}

// Usage is what the card's memory has gone to. What the driver has taken for this process is known by the management
// library where that lists the process; else from how much was free when the context had been made.
func (d *Device) Usage() (kernels.Usage, error) {
	free, err := d.FreeMemory()
	if err != nil {
		return kernels.Usage{}, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	u := kernels.Usage{Free: free, Taken: d.taken, Beyond: max(0, d.atOpen-free-d.taken)}
	if d.own == nil {
		d.own = func() (int, bool) { return 0, false }
		if !d.card.Emulated {
			if m, err := telemetry.Open(d.card.Bus); err == nil {
				d.meter, d.own = m, m.Own
			}
		}
	}
	if own, ok := d.own(); ok {
		u.Beyond, u.Exact = max(0, own-d.taken), true
	}
	return u, nil
}
