package cuda_test

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/cuda"
)

// Memory of both kinds is zeroed and counted, and a copy goes anywhere.
func TestMemory(t *testing.T) {
	d := open(t, cuda.Config{})
	before, err := d.FreeMemory()
	if err != nil {
		t.Fatal(err)
	}
	p, err := d.Alloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	if after, err := d.FreeMemory(); err != nil || before-after != 1<<20 {
		t.Errorf("%d bytes were taken, %v", before-after, err)
	}
	if u, err := d.Usage(); err != nil || u != (kernels.Usage{Free: before - 1<<20, Taken: 1 << 20}) || d.Taken() != u.Taken {
		t.Errorf("usage %+v, %v", u, err)
	}
	pin, host := d.ints(1 << 18)
	if slices.Max(host) != 0 || slices.Min(host) != 0 {
		t.Error("pinned memory is not zeroed")
	}
	for i := range host {
		host[i] = int32(i) - 7
	}
	q := d.queue()
	q.Copy(p, pin, 512<<10)
	q.Copy(pin, p, 1<<20)
	if host[1<<18-1] == 0 {
		t.Error("a copy did not wait for Sync")
	}
	if err := q.Sync(); err != nil {
		t.Fatal(err)
	}
	if host[5] != -2 || slices.Max(host[1<<17:]) != 0 {
		t.Error("what came back is not what went up, or the memory was not zeroed")
	}
	for _, n := range []int{0, 1} {
		if p, err := d.Alloc(n); err != nil || p == 0 {
			t.Errorf("alloc %d: %v %v", n, p, err)
		}
		if p, b, err := d.Pinned(n); err != nil || p == 0 || len(b) != n {
			t.Errorf("pinned %d: %v %d %v", n, p, len(b), err)
		}
	}
	if _, err := d.Alloc(-1); err == nil {
		t.Error("alloc -1")
	}
	if _, _, err := d.Pinned(-1); err == nil {
		t.Error("pinned -1")
	}
	_, err = d.Alloc(1 << 30)
	says(t, err, "allocate 1073741824 bytes (1.0 GiB)", "63.0 MiB of 64.0 MiB are free", "this process holds 1.0 MiB")
}

// Any goroutine may call, on whatever thread it is.
func TestThreads(t *testing.T) {
	d := open(t, cuda.Config{})
	q := d.queue()
	var p, src kernels.Ptr
	var host, one []int32
	elsewhere(func() { p, host = d.ints(4) })
	elsewhere(func() { src, one = d.ints(4) })
	one[2] = 3
	for range 5 {
		elsewhere(func() { launch(q, op("add"), addArgs{p, src, 4}) })
	}
	elsewhere(func() { q.Repeat(1, func() { launch(q, op("add"), addArgs{p, src, 4}) }) })
	elsewhere(func() {
		if err := q.Sync(); err != nil {
			t.Error(err)
		}
	})
	if host[2] != 18 {
		t.Errorf("%v, want 18", host)
	}
	elsewhere(d.close)
}

// Queues run apart until one waits for another's mark, and Host sees what was before it.
func TestOrder(t *testing.T) {
	d := open(t, cuda.Config{})
	a, b := d.queue(), d.queue()
	p, x := d.ints(1)
	src, one := d.ints(1)
	one[0] = 1
	dst, seen := d.ints(1)
	launch(a, op("add"), addArgs{p, src, 1})
	m := a.Mark()
	launch(a, op("add"), addArgs{p, src, 1})
	b.After(m)
	b.Copy(dst, p, 4)
	if err := b.Sync(); err != nil {
		t.Fatal(err)
	}
	if seen[0] != 1 {
		t.Errorf("the other queue saw %d, want 1: what was before the mark and no more", seen[0])
	}
	hosted := int32(0)
	a.Host(func() { hosted = x[0] })
	if hosted != 2 {
		t.Errorf("Host saw %d, want 2", hosted)
	}
	a.After(a.Mark()) // waits for nothing
	// Many marks take few events; an old one still stands for no less than what was before it.
	old := a.Mark()
	for range 100 {
		launch(a, op("add"), addArgs{p, src, 1})
		m = a.Mark()
	}
	b.After(old)
	b.After(m)
	b.Copy(dst, p, 4)
	if err := b.Sync(); err != nil || seen[0] != 102 {
		t.Errorf("the other queue saw %d, %v, want 102", seen[0], err)
	}
	if took, err := a.Time(func() { launch(a, op("empty"), addArgs{}) }); err != nil || took != 2*time.Millisecond {
		t.Errorf("took %v, %v", took, err)
	}
}

// A failure is kept, named, and skips what follows.
func TestLaunchErrors(t *testing.T) {
	big, cpu := op("add"), op("add")
	big.CUDA = func(gpu kernels.GPU, _ unsafe.Pointer) kernels.Grid {
		return kernels.Grid{X: 1, Threads: 32, Shared: gpu.Shared + 1}
	}
	cpu.CUDA = nil
	wide := op("add")
	wide.CUDA = func(kernels.GPU, unsafe.Pointer) kernels.Grid { return kernels.Grid{X: 1, Threads: 2048} }
	for _, c := range []struct {
		name string
		op   *kernels.Op
		args addArgs
		says []string
	}{
		{"no such kernel", op("gone"), addArgs{}, []string{"kernel gone", "not among those for Fake H200"}},
		{"no kernel for the arguments", op("add"), addArgs{N: -1}, []string{"add: there is no CUDA kernel for these arguments", "bfloat16"}},
		{"only on the CPU", cpu, addArgs{}, []string{"add: the operation has no CUDA kernel"}},
		{"too much shared memory", big, addArgs{}, []string{"kernel add: a block wants 232449 bytes of shared memory, Fake H200 gives 232448"}},
		{"refused by the driver", wide, addArgs{}, []string{"launch add on (1, 1) blocks of 2048 threads", "CUDA_ERROR_INVALID_VALUE"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, cuda.Config{})
			q := d.queue()
			launch(q, c.op, c.args)
			launch(q, op("gone too"), addArgs{})
			q.Copy(1, 2, 3)
			q.Host(func() { t.Error("Host after a failure") })
			says(t, q.Sync(), c.says...)
			if err := d.queue().Sync(); err != nil {
				t.Errorf("another queue: %v", err)
			}
		})
	}
}

// Arguments of another size than the kernel's are found before they reach it.
func TestArgumentSize(t *testing.T) {
	d := open(t, cuda.Config{})
	q := d.queue()
	o := op("add")
	o.Size = 16
	q.Launch(kernels.Launch{Op: o, Items: 1, Args: make([]byte, 16)})
	says(t, q.Sync(), "kernel add takes 24 bytes of arguments, add gives 16")
	defer func() {
		if r, _ := recover().(string); !strings.Contains(r, "16 bytes of arguments, want 24") {
			t.Errorf("panics with %q", r)
		}
	}()
	d.queue().Launch(kernels.Launch{Op: op("add"), Items: 1, Args: make([]byte, 16)})
}

// What a kernel does wrong shows later: the error names those that may have done it, and the device is of no more use.
func TestFault(t *testing.T) {
	t.Run("one of several", func(t *testing.T) {
		d := open(t, cuda.Config{})
		a, b := d.queue(), d.queue()
		launch(a, op("fault"), addArgs{})
		if err := b.Sync(); err != nil {
			t.Fatal(err)
		}
		launch(b, op("empty"), addArgs{})
		launch(a, op("add"), addArgs{})
		launch(a, op("add"), addArgs{})
		says(t, a.Sync(), "one of those launched since the last Sync that found all well: fault, add ×2; on other queues: empty", "CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access", "TANDEM_CUDA_CHECK=1")
		says(t, b.Sync(), "fault, add ×2; on other queues: empty")
		launch(a, op("add"), addArgs{})
		says(t, a.Sync(), "fault, add ×2")
	})
	t.Run("the only one", func(t *testing.T) {
		d := open(t, cuda.Config{})
		q := d.queue()
		launch(q, op("empty"), addArgs{})
		if err := q.Sync(); err != nil {
			t.Fatal(err)
		}
		launch(q, op("fault"), addArgs{})
		says(t, q.Sync(), "cuda: kernel fault failed: cuStreamSynchronize")
	})
	t.Run("in a graph", func(t *testing.T) {
		d := open(t, cuda.Config{})
		q := d.queue()
		q.Repeat(1, func() {
			launch(q, op("empty"), addArgs{})
			launch(q, op("fault"), addArgs{})
		})
		says(t, q.Sync(), "launched since the last Sync that found all well: empty, fault")
	})
	t.Run("checked", func(t *testing.T) {
		d := open(t, cuda.Config{Check: true})
		q := d.queue()
		q.Repeat(1, func() {
			launch(q, op("empty"), addArgs{})
			launch(q, op("fault"), addArgs{})
			launch(q, op("add"), addArgs{})
		})
		says(t, q.Sync(), "cuda: kernel fault on (2, 1) blocks of 128 threads with 232448 bytes of shared memory: ")
	})
}

func BenchmarkLaunch(b *testing.B) {
	d := open(b, cuda.Config{}, "IDLE")
	q := d.queue()
	o := op("empty")
	for b.Loop() {
		launch(q, o, addArgs{})
	}
}

// Memory that another device has is seen from both sides; it must be whole pages to the driver, wherever it begins.
func TestShare(t *testing.T) {
	host, err := kernels.NewCPU(kernels.CPUConfig{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { host.Close() })
	d := open(t, cuda.Config{})
	q := d.queue()
	for _, n := range []int{1, 64, 4095, 4096, 10000} {
		_, b, err := host.Pinned(n)
		if err != nil {
			t.Fatal(err)
		}
		p, err := d.Share(b)
		if err != nil {
			t.Fatal(err)
		}
		at, err := d.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		b[0], b[n-1] = 7, 9
		q.Copy(at, p, n)
		if err := q.Sync(); err != nil {
			t.Fatal(err)
		}
		clear(b)
		q.Copy(p, at, n)
		if err := q.Sync(); err != nil {
			t.Fatal(err)
		}
		if want := [2]byte{7, 9}; n > 1 && [2]byte{b[0], b[n-1]} != want {
			t.Errorf("%d bytes begin and end with %d and %d, want 7 and 9", n, b[0], b[n-1])
		}
		if err := d.Unshare(b); err != nil {
			t.Error(err)
		}
		says(t, d.Unshare(b), "not shared")
	}
	if _, err := d.Share(nil); err == nil {
		t.Error("nothing was shared")
	}
	_, b, err := host.Pinned(100) // what is left is given back by Close
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.Share(b); err != nil {
		t.Error(err)
	}
}
