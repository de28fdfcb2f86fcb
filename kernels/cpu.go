package kernels

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"unsafe"
)

// CPUConfig chooses how the CPU device works; the zero value is the machine's best.
type CPUConfig struct {
	Workers int    // threads that compute, the caller included; 0 means one per processor
	Vec     string // "go", "avx2", "avx512" or "avx512bf16"; "" means the fastest that passes its self-test here
}

// CPU is the device that is always there. Launches run at once, on all workers.
type CPU struct {
	name   string
	arenas *mapping
	pool   *pool
	mu     sync.Mutex // one Alloc at a time
	taken  int        // bytes
}

// NewCPU starts the workers.
func NewCPU(cfg CPUConfig) (*CPU, error) {
	v, err := chooseVec(cfg.Vec)
	if err != nil {
		return nil, err
	}
	arenas, err := reserve()
	if err != nil {
		return nil, err
	}
	n := cfg.Workers
	if n <= 0 {
		n = runtime.GOMAXPROCS(0)
	}
	return &CPU{
		name:   fmt.Sprintf("cpu (%s, %d workers)", v.name, n),
		arenas: arenas,
		pool:   newPool(n, arenas, v),
	}, nil
}

// Name is the device with its instruction set and workers.
func (c *CPU) Name() string { return c.name }

// Alloc takes bytes from the reserved address space. The operating system provides the memory when it is touched.
func (c *CPU) Alloc(bytes int) (Ptr, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, err := c.arenas.alloc(bytes)
	if err == nil {
		c.taken += bytes
	}
	return p, err
}

// Taken is the number of bytes that Alloc and Pinned have given out.
func (c *CPU) Taken() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.taken
}

// Pinned is Alloc with the host's view of it.
func (c *CPU) Pinned(bytes int) (Ptr, []byte, error) {
	p, err := c.Alloc(bytes)
	if err != nil {
		return 0, nil, err
	}
	return p, c.arenas.bytes[p : int(p)+bytes : int(p)+bytes], nil
}

// NewQueue makes a queue; queues share the workers.
func (c *CPU) NewQueue() (Queue, error) { return &cpuQueue{dev: c}, nil }

// Close ends the workers and unmaps the memory.
func (c *CPU) Close() error {
	c.pool.close()
	return c.arenas.close()
}

type cpuQueue struct {
	dev *CPU
	err error
}

func (q *cpuQueue) Launch(l Launch) {
	if q.err != nil || l.Items == 0 {
		return
	}
	if uintptr(len(l.Args)) != l.Op.Size {
		panic(fmt.Sprintf("%s: %d bytes of arguments, want %d", l.Op.Name, len(l.Args), l.Op.Size))
	}
	q.err = q.dev.pool.run(l.Op, unsafe.Pointer(&l.Args[0]), l.Items)
}

func (q *cpuQueue) Copy(dst, src Ptr, bytes int) {
	if q.err != nil || bytes == 0 {
		return
	}
	m := q.dev.pool.workers[0]
	copy(unsafe.Slice((*byte)(m.at(dst, bytes, 1)), bytes), unsafe.Slice((*byte)(m.at(src, bytes, 1)), bytes))
}

func (q *cpuQueue) Mark() Event { return nil }

func (q *cpuQueue) After(Event) {}

func (q *cpuQueue) Host(f func()) {
	if q.err == nil {
		f()
	}
}

func (q *cpuQueue) Repeat(_ int, f func()) { f() }

func (q *cpuQueue) Sync() error { return q.err }

// A pool computes one launch at a time on all workers. Worker 0 is the goroutine that launches. Idle workers spin for a
// moment, since the next launch of a step is microseconds away, then park.
type pool struct {
	workers []*Memory
	ended   sync.WaitGroup

	launching sync.Mutex
	job       job
	epoch     atomic.Uint32 // counts launches; odd or even has no meaning
	next      atomic.Int64  // first item that nobody has taken
	running   atomic.Int32  // workers that have not finished this launch
	closed    atomic.Bool
	joining   atomic.Bool // worker 0 is parked until the others have finished
	joined    chan struct{}
	parked    []atomic.Bool
	wake      []chan struct{}
}

type job struct {
	op    *Op
	args  unsafe.Pointer
	items int
	chunk int
	fail  atomic.Pointer[error]
}

const spins = 20000 // about 10 µs

func newPool(n int, arenas *mapping, v *vec) *pool {
	p := &pool{workers: make([]*Memory, n), parked: make([]atomic.Bool, n), wake: make([]chan struct{}, n), joined: make(chan struct{}, 1)}
	for i := range p.workers {
		p.workers[i] = &Memory{arenas: arenas, vec: v}
		p.wake[i] = make(chan struct{}, 1)
	}
	for i := 1; i < n; i++ {
		p.ended.Add(1)
		go p.work(i)
	}
	return p
}

func (p *pool) run(op *Op, args unsafe.Pointer, items int) error {
	p.launching.Lock()
	defer p.launching.Unlock()
	if p.closed.Load() {
		return fmt.Errorf("cpu: kernel %s: launched after Close", op.Name)
	}
	n := len(p.workers)
	p.job.op, p.job.args, p.job.items = op, args, items
	p.job.chunk = max(1, items/(4*n))
	p.job.fail.Store(nil)
	p.next.Store(0)
	if n > 1 && items > 1 {
		p.running.Store(int32(n - 1))
		p.epoch.Add(1)
		p.unpark()
		p.share(p.workers[0])
		p.join()
	} else {
		p.share(p.workers[0])
	}
	if err := p.job.fail.Load(); err != nil {
		return *err
	}
	return nil
}

// share computes chunks of items until none is left.
func (p *pool) share(m *Memory) {
	j := &p.job
	defer func() {
		if r := recover(); r != nil {
			err := fmt.Errorf("cpu: kernel %s: %v\n%s", j.op.Name, r, debug.Stack())
			j.fail.CompareAndSwap(nil, &err)
		}
	}()
	for {
		lo := int(p.next.Add(int64(j.chunk))) - j.chunk
		if lo >= j.items {
			return
		}
		m.used, m.before = 0, 0
		j.op.CPU(m, j.args, lo, min(lo+j.chunk, j.items))
	}
}

// join waits until the other workers have finished the launch.
func (p *pool) join() {
	for {
		for range spins {
			if p.running.Load() == 0 {
				return
			}
		}
		p.joining.Store(true)
		if p.running.Load() == 0 && p.joining.CompareAndSwap(true, false) {
			return
		}
		<-p.joined // or a call of the launch before, by a worker that was slow to see that nobody waited
	}
}

// finish is the end of a worker's part; the last one calls a parked worker 0.
func (p *pool) finish() {
	if p.running.Add(-1) == 0 && p.joining.CompareAndSwap(true, false) {
		p.joined <- struct{}{}
	}
}

func (p *pool) unpark() {
	for i := range p.parked {
		if p.parked[i].CompareAndSwap(true, false) {
			p.wake[i] <- struct{}{}
		}
	}
}

func (p *pool) work(i int) {
	defer p.ended.Done()
	seen := uint32(0)
	for {
		seen = p.await(i, seen)
		if p.closed.Load() {
			return
		}
		p.share(p.workers[i])
		p.finish()
	}
}

// await returns the epoch after seen.
func (p *pool) await(i int, seen uint32) uint32 {
	for n := 0; ; n++ {
		if e := p.epoch.Load(); e != seen {
			return e
		}
		if n < spins {
			continue
		}
		p.parked[i].Store(true)
		if e := p.epoch.Load(); e != seen && p.parked[i].CompareAndSwap(true, false) {
			return e
		}
		<-p.wake[i]
		n = 0
	}
}

func (p *pool) close() {
	p.launching.Lock()
	defer p.launching.Unlock()
	p.closed.Store(true)
	p.epoch.Add(1)
	p.unpark()
	p.ended.Wait()
}
