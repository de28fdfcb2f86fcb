// Package cuda is the device that runs on NVIDIA cards, or on whatever else speaks the driver's functions.
//
// The driver is opened when a device is, from a file: no header and no library of CUDA is needed to build, and the same
// binary starts on machines that have neither. Kernels are in the binary as images, chosen by the card's compute
// capability. A device is one card with one context, which its queues share; a queue is a stream.
//
// Any goroutine may call: the context is made current on whichever thread the call arrives. A queue still has one owner
// at a time.
package cuda

// #include <stdlib.h>
// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/cuda/telemetry"
)

// Config says which card, and how. The zero value is the first card of the installed driver.
type Config struct {
	Driver string // file of the driver; "" is Library
	Index  int    // of the card
	Images Images // kernels; the zero value is Embedded()
	Check  bool   // wait after every launch, and run what Repeat would replay: slow, and names the kernel that fails
	Forms  Forms  // of kernels that have one for Hopper
}

// A Device is a card with its context, memory and kernels.
type Device struct {
	card   Card
	driver *driver
	ctx    *C.tandem_cuda_context
	images Images
	check  bool
	chores C.CUstream // of the device itself
	atOpen int        // bytes that were free before modules and arenas
	forms  string     // why Hopper's are not used
	early  C.int      // blocks of a kernel are placed while the one before ends

	mu      sync.Mutex
	modules []C.CUmodule
	kernels map[string]*kernel
	arenas  []C.CUdeviceptr
	taken   int // bytes of all arenas
	meter   *telemetry.Monitor
	own     func() (bytes int, ok bool) // what of the card is this process's, as far as that is known; nil until it is asked
	pinned  []unsafe.Pointer
	shared  []unsafe.Pointer // whole pages of others
	queues  []*Queue
	closed  bool

	fault atomic.Pointer[error] // a kernel failed, and with it the context
}

// Open takes a card. An error that is ErrNone says that there is none that can be used; any other, that one is there and
// could not be taken.
func Open(cfg Config) (*Device, error) {
	d, err := open(cfg)
	if err != nil || !d.card.GPU.Hopper || cfg.Forms == Trusted || cfg.Forms == Usual && d.card.Emulated {
		return d, err
	}
	return d.proven(cfg)
}

func open(cfg Config) (*Device, error) {
	drv, err := openDriver(orInstalled(cfg.Driver))
	if err != nil {
		return nil, none(err)
	}
	d := &Device{driver: drv, images: cfg.Images, check: cfg.Check, kernels: map[string]*kernel{}}
	if err := d.open(cfg); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

func (d *Device) open(cfg Config) error {
	cards, err := d.driver.cards()
	if err != nil {
		return err
	}
	index := cfg.Index
	if index < 0 || index >= len(cards) {
		return fmt.Errorf("cuda: there is no card %d: %s has %d", index, d.driver.file, len(cards))
	}
	d.card = cards[index]
	if cfg.Forms == Plain {
		d.card.GPU.Hopper = false
	} else {
		d.early = 1
	}
	images, err := d.choose()
	if err != nil {
		return err
	}
	if err := d.retain(); err != nil {
		return err
	}
	if d.atOpen, err = d.FreeMemory(); err != nil {
		return err
	}
	if err := d.driver.check(C.tandem_cuda_create_stream(d.ctx, &d.chores), "cuStreamCreate", "make a stream"); err != nil {
		return err
	}
	for _, i := range images {
		if err := d.load(i); err != nil {
			return err
		}
	}
	return nil
}

// choose takes the images that run on the card; an emulated one has its own, and takes anything for a module.
func (d *Device) choose() ([]Image, error) {
	if d.card.Emulated {
		return []Image{{Name: "emulated", Data: []byte("emulated\x00")}}, nil
	}
	if len(d.images.List) == 0 {
		d.images = Embedded()
	}
	return d.images.choose(d.card)
}

// retain makes the card's context.
func (d *Device) retain() error {
	ctx := (*C.tandem_cuda_context)(C.calloc(1, C.sizeof_tandem_cuda_context))
	ctx.driver, ctx.device = d.driver.table, d.card.number
	r := C.tandem_cuda_retain(ctx)
	if r == 0 {
		d.ctx = ctx
		return nil
	}
	C.free(unsafe.Pointer(ctx))
	err := d.driver.fail(r, "cuDevicePrimaryCtxRetain", "make a context on "+d.card.String())
	switch {
	case r == C.CUDA_ERROR_OUT_OF_MEMORY:
		return fmt.Errorf("%w: other processes have filled the card; nvidia-smi lists them", err)
	case d.card.Mode == exclusive:
		return fmt.Errorf("%w: the card is in exclusive mode and another process has it", err)
	case d.card.Mode == prohibited:
		return fmt.Errorf("%w: the card is in a mode that lets no process compute (nvidia-smi -c 0 changes that)", err)
	}
	return err
}

// Name is the card's.
func (d *Device) Name() string {
	if d.card.Emulated {
		return fmt.Sprintf("cuda (emulated: %s)", d.card.Name)
	}
	return fmt.Sprintf("cuda (%s)", d.card.Name)
}

// Card is what the driver says of the card.
func (d *Device) Card() Card { return d.card }

// NewQueue makes a stream.
func (d *Device) NewQueue() (kernels.Queue, error) {
	q := &Queue{dev: d, kernels: map[string]*kernel{}, maps: map[kernels.Box]*tensorMap{}, graphs: map[int]*graph{}, rehearsed: map[int][]step{}}
	if err := d.driver.check(C.tandem_cuda_create_stream(d.ctx, &q.stream), "cuStreamCreate", "make a queue"); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queues = append(d.queues, q)
	return q, nil
}

// Close waits for all queues and gives everything back. Queues and memory of the device are void after it.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil
	}
	d.closed = true
	defer d.driver.free()
	if d.meter != nil {
		d.meter.Close()
	}
	if d.ctx == nil {
		return nil
	}
	var errs []error
	gives := func(r C.CUresult, call, what string) {
		errs = append(errs, d.driver.check(r, call, "give back %s", what))
	}
	gives(C.tandem_cuda_wait_all(d.ctx), "cuCtxSynchronize", "the card")
	for _, q := range d.queues {
		q.close(gives)
	}
	if d.chores != nil {
		gives(C.tandem_cuda_destroy_stream(d.ctx, d.chores), "cuStreamDestroy_v2", "a stream")
	}
	for _, m := range d.modules {
		gives(C.tandem_cuda_unload_module(d.ctx, m), "cuModuleUnload", "a module")
	}
	for _, p := range d.arenas {
		gives(C.tandem_cuda_free(d.ctx, p), "cuMemFree_v2", "an arena")
	}
	for _, p := range d.pinned {
		gives(C.tandem_cuda_free_host(d.ctx, p), "cuMemFreeHost", "pinned memory")
	}
	for _, p := range d.shared {
		gives(C.tandem_cuda_unshare(d.ctx, p), "cuMemHostUnregister", "shared memory")
	}
	gives(C.tandem_cuda_release(d.ctx), "cuDevicePrimaryCtxRelease_v2", "the context")
	C.free(unsafe.Pointer(d.ctx))
	if d.fault.Load() != nil {
		return nil // after a fault every call fails; the context takes all of it along
	}
	return errors.Join(errs...)
}
