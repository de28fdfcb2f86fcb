package kernels_test

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

func TestCPUConfig(t *testing.T) {
	if vecs := kernels.Vecs(); len(vecs) == 0 || vecs[len(vecs)-1] != "go" {
		t.Errorf("sets of inner loops are %v, want plain Go as the last", vecs)
	}
	c := kerneltest.CPU(t, kernels.CPUConfig{})
	if want := fmt.Sprintf("%d workers)", runtime.GOMAXPROCS(0)); !strings.HasSuffix(c.Name(), want) {
		t.Errorf("name is %q, want ...%q", c.Name(), want)
	}
	if got := kerneltest.CPU(t, kernels.CPUConfig{Workers: 3, Vec: "go"}).Name(); got != "cpu (go, 3 workers)" {
		t.Errorf("name is %q", got)
	}
	if _, err := kernels.NewCPU(kernels.CPUConfig{Vec: "mmx"}); err == nil || !strings.Contains(err.Error(), `cpu: no "mmx" loops`) {
		t.Errorf("error is %v", err)
	}
}

// Every item is computed once, whatever the numbers of items and workers, whether workers spin or have parked.
func TestPoolItems(t *testing.T) {
	for workers := 1; workers <= 5; workers++ {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			d := kerneltest.CPU(t, kernels.CPUConfig{Workers: workers, Vec: "go"})
			for _, items := range []int{1, 2, 3, 7, 8, 9, 40, 41, 1000, 0} {
				for round := range 5 {
					done := make([]atomic.Int32, items)
					launch(d.Q, "count", items, func(_ *kernels.Memory, lo, hi int) {
						for i := lo; i < hi; i++ {
							done[i].Add(1)
						}
					})
					for i := range done {
						if n := done[i].Load(); n != 1 {
							t.Fatalf("item %d of %d was computed %d times", i, items, n)
						}
					}
					if round == 3 {
						time.Sleep(2 * time.Millisecond)
					}
				}
			}
			d.Sync()
		})
	}
}

// All workers take part, each with scratch of its own.
func TestPoolShares(t *testing.T) {
	const workers = 3
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: workers, Vec: "go"})
	var mu sync.Mutex
	seen := make(map[*kernels.Memory]bool)
	launch(d.Q, "meet", workers, func(m *kernels.Memory, _, _ int) {
		mu.Lock()
		seen[m] = true
		mu.Unlock()
		for all := false; !all; runtime.Gosched() { // until everybody holds an item
			mu.Lock()
			all = len(seen) == workers
			mu.Unlock()
		}
	})
	d.Sync()
}

func TestPoolRaces(t *testing.T) {
	const n = 1000
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 4})
	x := d.Zeros(kernels.F32, n)
	for range 60 { // plain memory, read and written by whoever gets the item
		launch(d.Q, "increment", n, func(m *kernels.Memory, lo, hi int) {
			for i, v := range m.F32(x.Ptr, n)[lo:hi] {
				m.F32(x.Ptr, n)[lo+i] = v + 1
			}
		})
	}
	if got := d.Get(x); slices.Min(got) != 60 || slices.Max(got) != 60 {
		t.Errorf("values are %v to %v, want 60", slices.Min(got), slices.Max(got))
	}
}

func TestQueueOrder(t *testing.T) {
	for _, d := range kerneltest.Devices(t) {
		x, y := d.Put(kernels.F32, []float32{1}, 1), d.Zeros(kernels.F32, 1)
		var seen []float32
		look := func() {
			launch(d.Q, "look", 1, func(m *kernels.Memory, _, _ int) { seen = append(seen, m.F32(x.Ptr, 1)[0]) })
		}
		kernels.Add(d.Q, x, x)
		look()
		d.Q.Copy(y.Ptr, x.Ptr, 4)
		d.Q.Host(func() { seen = append(seen, -1) })
		d.Q.Repeat(1, func() {
			kernels.Add(d.Q, x, y)
			look()
		})
		d.Q.After(d.Q.Mark())
		kernels.Zero(d.Q, x)
		look()
		d.Sync()
		if want := []float32{2, -1, 4, 0}; !slices.Equal(seen, want) {
			t.Errorf("%s: values are %v, want %v", d.Name(), seen, want)
		}
	}
}

// The first failure stays, and nothing runs after it; other queues go on.
func TestQueueFailure(t *testing.T) {
	for _, workers := range []int{1, 2, 4} {
		for _, bad := range []int{0, 5, 39} {
			t.Run(fmt.Sprint(workers, bad), func(t *testing.T) {
				d := kerneltest.CPU(t, kernels.CPUConfig{Workers: workers})
				q, err := d.NewQueue()
				if err != nil {
					t.Fatal(err)
				}
				launch(q, "broken", 40, func(_ *kernels.Memory, lo, hi int) {
					if lo <= bad && bad < hi {
						panic("page 7 is on fire")
					}
				})
				ran := false
				x := d.Zeros(kernels.F32, 1)
				launch(q, "later", 1, func(*kernels.Memory, int, int) { ran = true; panic("later") })
				q.Host(func() { ran = true })
				q.Copy(x.Ptr, 0, 4)
				for range 2 {
					if err := q.Sync(); err == nil || !strings.Contains(err.Error(), "cpu: kernel broken: page 7 is on fire") {
						t.Errorf("error is %v", err)
					} else if !strings.Contains(err.Error(), "TestQueueFailure") {
						t.Errorf("error doesn't say where: %v", err)
					}
				}
				if ran {
					t.Error("the queue ran on after a failure")
				}
				kernels.Add(d.Q, x, d.Put(kernels.F32, []float32{3}, 1))
				if got := d.Get(x)[0]; got != 3 {
					t.Errorf("on another queue: %v, want 3", got)
				}
			})
		}
	}
}

func TestQueuesAtOnce(t *testing.T) {
	const launches, n = 60, 500
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 2})
	var ended sync.WaitGroup
	var tensors []kernels.Tensor // all memory is taken before the first launch
	for range 3 {
		tensors = append(tensors, d.Zeros(kernels.F32, n))
	}
	for _, x := range tensors {
		q, err := d.NewQueue()
		if err != nil {
			t.Fatal(err)
		}
		ended.Go(func() {
			for range launches {
				launch(q, "increment", n/20, func(m *kernels.Memory, lo, hi int) {
					s := m.ScratchF32(20 * (hi - lo))
					copy(s, m.F32(x.Ptr, n)[20*lo:])
					for i := range s {
						s[i]++
					}
					copy(m.F32(x.Ptr, n)[20*lo:], s)
				})
			}
			if err := q.Sync(); err != nil {
				t.Error(err)
			}
		})
	}
	ended.Wait()
	for _, x := range tensors {
		if got := d.Get(x); slices.Min(got) != launches || slices.Max(got) != launches {
			t.Errorf("values are %v to %v, want %d", slices.Min(got), slices.Max(got), launches)
		}
	}
}

func TestLaunchArguments(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{})
	op := &kernels.Op{Name: "sized", Size: 16}
	mustPanic(t, "sized: 8 bytes of arguments, want 16", func() {
		d.Q.Launch(kernels.Launch{Op: op, Items: 1, Args: make([]byte, 8)})
	})
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, parked := range []bool{false, true} {
		c, err := kernels.NewCPU(kernels.CPUConfig{Workers: 4, Vec: "go"})
		if err != nil {
			t.Fatal(err)
		}
		q, err := c.NewQueue()
		if err != nil {
			t.Fatal(err)
		}
		launch(q, "warm", 8, func(*kernels.Memory, int, int) {})
		if parked {
			time.Sleep(5 * time.Millisecond)
		}
		if err := c.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
		for tries := 0; runtime.NumGoroutine() > before; tries++ { // a goroutine ends a moment after it says so
			if tries == 1000 {
				t.Fatalf("%d goroutines after Close, %d before", runtime.NumGoroutine(), before)
			}
			time.Sleep(time.Millisecond)
		}
		launch(q, "late", 8, func(*kernels.Memory, int, int) {})
		if err := q.Sync(); err == nil || err.Error() != "cpu: kernel late: launched after Close" {
			t.Errorf("error of a launch after Close is %v", err)
		}
	}
}

func BenchmarkLaunch(b *testing.B) {
	for _, items := range []int{1, 2, 16} {
		b.Run(fmt.Sprint(items), func(b *testing.B) {
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			op := &kernels.Op{Name: "nothing", Size: 8, CPU: func(*kernels.Memory, unsafe.Pointer, int, int) {}}
			args := make([]byte, 8)
			for b.Loop() {
				d.Q.Launch(kernels.Launch{Op: op, Items: items, Args: args})
			}
		})
	}
}
