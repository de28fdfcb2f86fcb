package kernels_test

import (
	"math"
	"strings"
	"testing"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// onWorker runs f as the body of a launch of one item and ends the test if the launch fails.
func onWorker(d *kerneltest.Device, f func(m *kernels.Memory)) {
	launch(d.Q, "test", 1, func(m *kernels.Memory, _, _ int) { f(m) })
	d.Sync()
}

// launch runs f as a kernel.
func launch(q kernels.Queue, name string, items int, f func(m *kernels.Memory, lo, hi int)) {
	op := &kernels.Op{Name: name, Size: 8, CPU: func(m *kernels.Memory, _ unsafe.Pointer, lo, hi int) { f(m, lo, hi) }}
	q.Launch(kernels.Launch{Op: op, Items: items, Args: make([]byte, 8)})
}

func TestMemoryViews(t *testing.T) {
	for _, d := range kerneltest.Devices(t) {
		p, host, err := d.Pinned(64)
		if err != nil {
			t.Fatal(err)
		}
		onWorker(d, func(m *kernels.Memory) {
			m.F32(p, 2)[1] = 1
			m.I32(p+8, 1)[0] = -2
			m.U64(p+16, 2)[1] = 1 << 63
			m.BF16(p+60, 2)[1] = 0x3f80
		})
		want := make([]byte, 64)
		copy(want[4:], "\x00\x00\x80\x3f\xfe\xff\xff\xff")
		want[31], want[62], want[63] = 0x80, 0x80, 0x3f
		if string(host) != string(want) {
			t.Errorf("%s: memory is % x, want % x", d.Name(), host, want)
		}
	}
}

func TestMemoryBounds(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(m *kernels.Memory, last kernels.Ptr)
	}{
		{"null", func(m *kernels.Memory, _ kernels.Ptr) { m.F32(0, 1) }},
		{"null, no elements", func(m *kernels.Memory, _ kernels.Ptr) { m.F32(0, 0) }},
		{"below the first", func(m *kernels.Memory, _ kernels.Ptr) { m.U64(4088, 1) }},
		{"past the end", func(m *kernels.Memory, last kernels.Ptr) { m.F32(last, 17) }},
		{"far past the end", func(m *kernels.Memory, last kernels.Ptr) { m.BF16(last+1<<41, 1) }},
		{"negative length", func(m *kernels.Memory, last kernels.Ptr) { m.I32(last, -1) }},
		{"float32 misaligned", func(m *kernels.Memory, last kernels.Ptr) { m.F32(last+2, 1) }},
		{"uint64 misaligned", func(m *kernels.Memory, last kernels.Ptr) { m.U64(last+4, 1) }},
		{"bfloat16 misaligned", func(m *kernels.Memory, last kernels.Ptr) { m.BF16(last+1, 1) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := kerneltest.CPU(t, kernels.CPUConfig{})
			last, err := d.Alloc(64)
			if err != nil {
				t.Fatal(err)
			}
			launch(d.Q, "stray", 1, func(m *kernels.Memory, _, _ int) { c.f(m, last) })
			if err := d.Q.Sync(); err == nil || !strings.Contains(err.Error(), "cpu: kernel stray: address ") {
				t.Errorf("error is %v", err)
			}
		})
	}
}

func TestLoadStore(t *testing.T) {
	for _, d := range kerneltest.Devices(t) {
		f, b := d.Tensor(kernels.F32, 40), d.Tensor(kernels.BF16, 40)
		x := kerneltest.Normal(kerneltest.Rand(t), 33, 1)
		onWorker(d, func(m *kernels.Memory) {
			m.Store(f.Ptr, kernels.F32, 5, x)
			m.Store(b.Ptr, kernels.BF16, 5, x)
			kerneltest.Same(t, "float32", m.Load(f.Ptr, kernels.F32, 5, 33), x)
			kerneltest.Same(t, "bfloat16", m.Load(b.Ptr, kernels.BF16, 5, 33), kerneltest.Round(kernels.BF16, x))
			m.Load(f.Ptr, kernels.F32, 5, 33)[0] = 7 // the memory itself
			m.Load(b.Ptr, kernels.BF16, 5, 33)[0] = 7
		})
		for _, c := range []struct {
			of   kernels.Tensor
			want float32
		}{{f, 7}, {b, kerneltest.Round(kernels.BF16, x)[0]}} {
			got := d.Get(c.of)
			if got[5] != c.want || got[4] == got[4] || got[38] == got[38] {
				t.Errorf("%s: %v is %v, want %v between NaNs", d.Name(), c.of.DType, got[4:39], c.want)
			}
		}
	}
}

func TestScratch(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
	onWorker(d, func(m *kernels.Memory) {
		a := m.ScratchF32(3)
		at := m.Keep()
		b := m.ScratchBF16(5)
		m.Reset(at)
		c := m.ScratchBF16(5)
		if &b[0] != &c[0] {
			t.Error("Reset gave nothing back")
		}
		for _, p := range []uintptr{uintptr(unsafe.Pointer(&a[0])), uintptr(unsafe.Pointer(&c[0]))} {
			if p%64 != 0 {
				t.Errorf("scratch at %x, want a multiple of 64", p)
			}
		}
		if m.ScratchF32(0) != nil || m.ScratchBF16(0) != nil {
			t.Error("scratch of nothing is something")
		}

		// Growing leaves earlier slices alone, and no two slices overlap.
		a[0], c[0] = 42, 17
		var all [][]float32
		for n := 1; n < 1<<20; n *= 3 {
			s := m.ScratchF32(n)
			for i := range s {
				s[i] = float32(n)
			}
			all = append(all, s)
		}
		for _, s := range all {
			for _, v := range []float32{s[0], s[len(s)-1]} {
				if v != float32(len(s)) {
					t.Errorf("scratch of %d was overwritten with %v", len(s), v)
				}
			}
		}
		if a[0] != 42 || c[0] != 17 {
			t.Errorf("scratch from before growing is %v and %v", a[0], c[0])
		}
	})
	var first, second *float32
	launch(d.Q, "first", 1, func(m *kernels.Memory, _, _ int) { first = &m.ScratchF32(1)[0] })
	launch(d.Q, "second", 1, func(m *kernels.Memory, _, _ int) { second = &m.ScratchF32(1)[0] })
	d.Sync()
	if first != second {
		t.Error("a launch doesn't start with all scratch free")
	}
}

func TestAlloc(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{})
	var end kernels.Ptr
	for _, n := range []int{1, 63, 64, 65, 0, 1 << 22, 3, 5 << 20} {
		p, err := d.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		align := kernels.Ptr(64)
		if n >= 1<<22 {
			align = 2 << 20
		}
		if p == 0 || p < end || p%align != 0 {
			t.Errorf("%d bytes are at %d, want a multiple of %d from %d on", n, p, align, end)
		}
		end = p + kernels.Ptr(n)
		onWorker(d, func(m *kernels.Memory) {
			for _, v := range m.BF16(p, n/2) {
				if v != 0 {
					t.Errorf("%d bytes are not zeroed", n)
					return
				}
			}
		})
	}
	for _, n := range []int{-1, 1 << 50, math.MaxInt} {
		if p, err := d.Alloc(n); err == nil || !strings.Contains(err.Error(), "cpu: allocate ") {
			t.Errorf("%d bytes: %d, %v", n, p, err)
		}
		if p, b, err := d.Pinned(n); err == nil || b != nil {
			t.Errorf("%d pinned bytes: %d, %d bytes, %v", n, p, len(b), err)
		}
	}
	if _, err := d.Alloc(64); err != nil {
		t.Errorf("after what doesn't fit: %v", err)
	}
	_, b, err := d.Pinned(100)
	if err != nil || len(b) != 100 || cap(b) != 100 {
		t.Errorf("pinned: %d bytes of %d, %v", len(b), cap(b), err)
	}
}
