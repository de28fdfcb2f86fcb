package kerneltest

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"

	"tandem/kernels"
)

// A Device has one queue and remembers what was allocated.
type Device struct {
	kernels.Device
	Q kernels.Queue

	t       testing.TB
	tensors []kernels.Tensor
	staging kernels.Ptr
	host    []byte // the host's view of staging
	closed  bool
	witness *witness // of a GPU, where bits are kept
}

const (
	// poison reads as a NaN in float32 and in bfloat16, and as an index far outside of everything in int32.
	poison = 0x7fc17fc1
	guard  = 64 // bytes of poison before and after a tensor
)

// Devices opens every device there is: a CPU for each set of inner loops, with one worker and with two. They are closed
// when the test ends, if not before.
func Devices(t testing.TB) []*Device {
	t.Helper()
	var ds []*Device
	for _, vec := range kernels.Vecs() {
		for workers := 1; workers <= 2; workers++ {
			ds = append(ds, CPU(t, kernels.CPUConfig{Workers: workers, Vec: vec}))
		}
	}
	return ds
}

// CPU opens a CPU device.
func CPU(t testing.TB, cfg kernels.CPUConfig) *Device {
	t.Helper()
	c, err := kernels.NewCPU(cfg)
	if err != nil {
		t.Fatalf("open %+v: %v", cfg, err)
	}
	return wrap(t, c)
}

func wrap(t testing.TB, dev kernels.Device) *Device {
	t.Helper()
	q, err := dev.NewQueue()
	if err != nil {
		t.Fatalf("%s: %v", dev.Name(), err)
	}
	d := &Device{Device: dev, Q: q, t: t}
	t.Cleanup(d.Close)
	return d
}

// Close checks the guards and closes the device; further calls do nothing.
func (d *Device) Close() {
	d.t.Helper()
	if d.closed {
		return
	}
	d.closed = true
	if d.Q.Sync() == nil {
		for _, t := range d.tensors {
			d.checkGuards(t)
		}
	}
	if err := d.Device.Close(); err != nil {
		d.t.Errorf("close %s: %v", d.Name(), err)
	}
}

// Sync ends the test if the queue has failed.
func (d *Device) Sync() {
	d.t.Helper()
	if err := d.Q.Sync(); err != nil {
		d.t.Fatalf("%s: %v", d.Name(), err)
	}
}

// Tensor is poisoned memory between guards.
func (d *Device) Tensor(dt kernels.DType, shape ...int) kernels.Tensor {
	d.t.Helper()
	t := kernels.NewTensor(0, dt, shape...)
	p, err := d.Alloc(t.Bytes() + 2*guard)
	if err != nil {
		d.t.Fatal(err)
	}
	t.Ptr = p + guard
	b := make([]byte, t.Bytes()+2*guard+4) // four more, since a tensor may end inside a word
	for i := 0; i+4 <= len(b); i += 4 {
		binary.LittleEndian.PutUint32(b[i:], poison)
	}
	d.write(p, b[:t.Bytes()+2*guard])
	d.tensors = append(d.tensors, t)
	return t
}

// Zeros is a tensor of zeros.
func (d *Device) Zeros(dt kernels.DType, shape ...int) kernels.Tensor {
	d.t.Helper()
	t := d.Tensor(dt, shape...)
	d.write(t.Ptr, make([]byte, t.Bytes()))
	return t
}

// Put is a tensor with the values of x, rounded to dt.
func (d *Device) Put(dt kernels.DType, x []float32, shape ...int) kernels.Tensor {
	d.t.Helper()
	t := d.Tensor(dt, shape...)
	b := make([]byte, 0, t.Bytes())
	for _, v := range x {
		if dt == kernels.BF16 {
			b = binary.LittleEndian.AppendUint16(b, kernels.BF16Of(v))
		} else {
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(v))
		}
	}
	d.PutBytes(t, b)
	return t
}

// PutI32 is a tensor of integers.
func (d *Device) PutI32(x []int32, shape ...int) kernels.Tensor {
	d.t.Helper()
	t := d.Tensor(kernels.I32, shape...)
	b := make([]byte, 0, t.Bytes())
	for _, v := range x {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	d.PutBytes(t, b)
	return t
}

// PutBytes overwrites t.
func (d *Device) PutBytes(t kernels.Tensor, b []byte) {
	d.t.Helper()
	if len(b) != t.Bytes() {
		d.t.Fatalf("put %d bytes into %v %v, want %d", len(b), t.DType, t.Dims(), t.Bytes())
	}
	d.write(t.Ptr, b)
}

// Get is the values of a BF16 or F32 tensor.
func (d *Device) Get(t kernels.Tensor) []float32 {
	d.t.Helper()
	b := d.GetBytes(t)
	x := make([]float32, t.Len())
	for i := range x {
		if t.DType == kernels.BF16 {
			x[i] = kernels.F32Of(binary.LittleEndian.Uint16(b[2*i:]))
		} else {
			x[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
		}
	}
	return x
}

// GetI32 is the values of an I32 tensor.
func (d *Device) GetI32(t kernels.Tensor) []int32 {
	d.t.Helper()
	b := d.GetBytes(t)
	x := make([]int32, t.Len())
	for i := range x {
		x[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return x
}

// GetBytes waits for the queue and is a copy of t.
func (d *Device) GetBytes(t kernels.Tensor) []byte {
	d.t.Helper()
	b := d.read(t.Ptr, t.Bytes())
	d.witness.saw(b)
	return b
}

func (d *Device) write(p kernels.Ptr, b []byte) {
	d.t.Helper()
	d.stage(len(b))
	copy(d.host, b)
	d.Q.Copy(p, d.staging, len(b))
	d.Sync() // the next write reuses the staging memory
}

func (d *Device) read(p kernels.Ptr, n int) []byte {
	d.t.Helper()
	d.stage(n)
	d.Q.Copy(d.staging, p, n)
	d.Sync()
	return append([]byte(nil), d.host[:n]...)
}

func (d *Device) stage(n int) {
	d.t.Helper()
	if n <= len(d.host) {
		return
	}
	var err error
	if d.staging, d.host, err = d.Pinned(max(2*n, 1<<16)); err != nil {
		d.t.Fatal(err)
	}
}

func (d *Device) checkGuards(t kernels.Tensor) {
	d.t.Helper()
	n := t.Bytes()
	b := d.read(t.Ptr-guard, n+2*guard)
	for i := range b {
		inside := i >= guard && i < guard+n
		if want := byte(uint32(poison) >> (8 * (i & 3))); !inside && b[i] != want {
			d.t.Errorf("%s: byte %d of the %d of %s was written", d.Name(), i-guard, n, fmt.Sprint(t.DType, t.Dims()))
			return
		}
	}
}
