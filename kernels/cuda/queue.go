package cuda

// #include "driver.h"
import "C"

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unsafe"

	"tandem/kernels"
)

// A Queue is a stream. CUDA reports what a kernel did wrong at some later call: the error then names the launches since
// the last Sync that found all well, or with Config.Check the kernel.
type Queue struct {
	dev     *Device
	stream  C.CUstream
	err     error // the first failure
	kernels map[string]*kernel
	maps    map[kernels.Box]*tensorMap
	args    []byte    // of a launch with boxes
	marks   [16]*mark // used in turn
	marked  int
	timers  [2]C.CUevent

	graphs    map[int]*graph
	rehearsed map[int][]step // in place of graphs when the device checks
	now       *recording     // what Repeat is recording, or nil

	mu      sync.Mutex // others read what is pending when a kernel has failed
	pending tally
}

// A mark is an event of a queue.
type mark struct {
	q *Queue
	e C.CUevent
}

// A tally counts launches by kernel, in the order in which they were first made.
type tally struct {
	order []*kernel
	count []int // by id
}

func (t *tally) add(k *kernel, n int) {
	for len(t.count) <= k.id {
		t.count = append(t.count, 0)
	}
	if t.count[k.id] == 0 {
		t.order = append(t.order, k)
	}
	t.count[k.id] += n
}

func (t *tally) clear() {
	for _, k := range t.order {
		t.count[k.id] = 0
	}
	t.order = t.order[:0]
}

func (t *tally) String() string {
	var s []string
	for _, k := range t.order {
		if n := t.count[k.id]; n > 1 {
			s = append(s, fmt.Sprintf("%s ×%d", k.name, n))
		} else {
			s = append(s, k.name)
		}
	}
	return strings.Join(s, ", ")
}

// Launch starts a kernel.
func (q *Queue) Launch(l kernels.Launch) {
	if q.err != nil || l.Items == 0 {
		return
	}
	if uintptr(len(l.Args)) != l.Op.Size {
		panic(fmt.Sprintf("%s: %d bytes of arguments, want %d", l.Op.Name, len(l.Args), l.Op.Size))
	}
	k, g, err := q.resolve(l)
	if err != nil {
		q.refuse(err)
		return
	}
	if q.now != nil && !q.now.launch(q, k, g, l.Args) {
		return
	}
	args, err := q.boxed(g, l.Args)
	if err != nil {
		q.refuse(err)
		return
	}
	r := C.tandem_cuda_launch(q.dev.ctx, k.f, C.uint(g.X), C.uint(max(g.Y, 1)), C.uint(g.Threads), C.uint(g.Shared), q.stream, q.dev.early, unsafe.Pointer(&args[0]))
	if r != 0 {
		q.failed(r, "cuLaunchKernelEx", func() string { return "launch " + describe(k, g) })
		return
	}
	q.count(k)
	if q.dev.check {
		q.settle(func() string { return "kernel " + describe(k, g) })
	}
}

func describe(k *kernel, g kernels.Grid) string {
	return fmt.Sprintf("%s on (%d, %d) blocks of %d threads with %d bytes of shared memory", k.name, g.X, max(g.Y, 1), g.Threads, g.Shared)
}

func (q *Queue) count(k *kernel) {
	if q.now != nil && q.now.capturing {
		q.now.launches.add(k, 1)
		return
	}
	q.mu.Lock()
	q.pending.add(k, 1)
	q.mu.Unlock()
}

// settle waits and reports what was just started.
func (q *Queue) settle(doing func() string) {
	if r := C.tandem_cuda_wait(q.dev.ctx, q.stream); r != 0 {
		q.broke(q.dev.driver.fail(r, "cuStreamSynchronize", doing()))
		return
	}
	q.settled()
}

func (q *Queue) settled() {
	q.mu.Lock()
	q.pending.clear()
	q.mu.Unlock()
}

// Copy moves bytes between any two places: the card, pinned memory, another card.
func (q *Queue) Copy(dst, src kernels.Ptr, bytes int) {
	if q.err != nil || bytes == 0 {
		return
	}
	doing := func() string { return fmt.Sprintf("copy %d bytes from %#x to %#x", bytes, src, dst) }
	if bytes < 0 {
		panic("cuda: " + doing())
	}
	if q.now != nil && !q.now.copy(q, dst, src, bytes) {
		return
	}
	if r := C.tandem_cuda_copy(q.dev.ctx, C.CUdeviceptr(dst), C.CUdeviceptr(src), C.size_t(bytes), q.stream); r != 0 {
		q.failed(r, "cuMemcpyAsync", doing)
		return
	}
	if q.dev.check {
		q.settle(doing)
	}
}

// Mark is an event at the end of what was given so far. A queue has a few that it uses in turn: After an old mark may
// wait for a newer one of the same queue, which is more than was asked, never less.
func (q *Queue) Mark() kernels.Event {
	m := q.nextMark()
	if m == nil || !q.outside("Mark") {
		return m
	}
	if r := C.tandem_cuda_record(q.dev.ctx, m.e, q.stream); r != 0 {
		q.failed(r, "cuEventRecord", func() string { return "mark a place in a queue" })
	}
	return m
}

// nextMark is nil after a failure.
func (q *Queue) nextMark() *mark {
	if q.err != nil {
		return nil
	}
	at := &q.marks[q.marked%len(q.marks)]
	q.marked++
	if *at == nil {
		m := &mark{q: q}
		if r := C.tandem_cuda_create_event(q.dev.ctx, 0, &m.e); r != 0 {
			q.failed(r, "cuEventCreate", func() string { return "mark a place in a queue" })
			return nil
		}
		*at = m
	}
	return *at
}

// After makes what follows wait for a mark. A mark of a queue that has failed is no mark: what follows fails by itself.
func (q *Queue) After(e kernels.Event) {
	m, ok := e.(*mark)
	if !ok {
		panic(fmt.Sprintf("cuda: After(%T): want a mark of a CUDA queue", e))
	}
	if m == nil || q.err != nil || m.q == q || !q.outside("After") {
		return
	}
	if r := C.tandem_cuda_wait_event(q.dev.ctx, q.stream, m.e); r != 0 {
		q.failed(r, "cuStreamWaitEvent", func() string { return "wait for another queue" })
	}
}

// Host waits for what was given so far and calls f.
func (q *Queue) Host(f func()) {
	if q.err == nil && q.outside("Host") && q.Sync() == nil {
		f()
	}
}

// Sync waits for all that was given. A failure is that of the first kernel that failed, on whichever queue of the device:
// it ends the context.
func (q *Queue) Sync() error {
	if q.err == nil && q.outside("Sync") {
		if r := C.tandem_cuda_wait(q.dev.ctx, q.stream); r != 0 {
			q.failed(r, "cuStreamSynchronize", func() string { return "wait for the queue" })
		} else {
			q.settled()
		}
	}
	return q.err
}

// Time is how long the card takes for what f gives to the queue.
func (q *Queue) Time(f func()) (time.Duration, error) {
	if !q.outside("Time") {
		return 0, q.err
	}
	for i := range q.timers {
		if q.timers[i] == nil {
			if err := q.dev.driver.check(C.tandem_cuda_create_event(q.dev.ctx, 1, &q.timers[i]), "cuEventCreate", "take the time"); err != nil {
				return 0, err
			}
		}
	}
	record := func(e C.CUevent) {
		if q.err != nil {
			return
		}
		if r := C.tandem_cuda_record(q.dev.ctx, e, q.stream); r != 0 {
			q.failed(r, "cuEventRecord", func() string { return "take the time" })
		}
	}
	record(q.timers[0])
	f()
	record(q.timers[1])
	if err := q.Sync(); err != nil {
		return 0, err
	}
	var ms C.float
	err := q.dev.driver.check(C.tandem_cuda_elapsed(q.dev.ctx, q.timers[0], q.timers[1], &ms), "cuEventElapsedTime", "take the time")
	return time.Duration(float64(ms) * float64(time.Millisecond)), err
}

// failed keeps the failure of a call.
func (q *Queue) failed(r C.CUresult, call string, doing func() string) {
	q.refuse(q.dev.driver.fail(r, call, doing()))
}

// refuse keeps a failure: a call's own, or that of a kernel before, which whatever call comes next reports.
func (q *Queue) refuse(err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok || !ofKernel(e.Code) {
		q.err = err
		return
	}
	e.Doing = q.blame()
	q.broke(e)
}

// blame names the launches one of which has failed.
func (q *Queue) blame() string {
	q.mu.Lock()
	mine, n := q.pending.String(), len(q.pending.order)
	q.mu.Unlock()
	var others []string
	q.dev.mu.Lock()
	for _, o := range q.dev.queues {
		if o != q {
			o.mu.Lock()
			if s := o.pending.String(); s != "" {
				others = append(others, s)
			}
			o.mu.Unlock()
		}
	}
	q.dev.mu.Unlock()
	switch {
	case n == 0 && len(others) == 0:
		return "a kernel or copy failed; none was launched since the last Sync that found all well"
	case n == 1 && len(others) == 0:
		return "kernel " + mine + " failed"
	}
	s := "a kernel failed, one of those launched since the last Sync that found all well: " + mine
	if len(others) > 0 {
		s += "; on other queues: " + strings.Join(others, "; ")
	}
	return s + " (TANDEM_CUDA_CHECK=1 finds out which)"
}

// broke keeps the failure of a kernel, the first one for all queues.
func (q *Queue) broke(err error) {
	if q.dev.fault.CompareAndSwap(nil, &err) {
		q.err = err
		return
	}
	q.err = *q.dev.fault.Load()
}

// ofKernel says that an error is about work that was started before the call that reports it.
func ofKernel(code int) bool {
	return slices.Contains([]int{
		214,           // uncorrectable ECC error
		220,           // NVLink
		226,           // contained error
		700,           // illegal address
		702,           // timeout
		710,           // assertion
		714, 715, 716, // stack, instruction, alignment
		717, 718, 719, // address space, program counter, launch failure
		721, // tensor memory that a kernel kept
		999, // unknown
	}, code)
}

// outside refuses what cannot be part of a recording.
func (q *Queue) outside(what string) bool {
	if q.now == nil {
		return true
	}
	q.err = fmt.Errorf("cuda: %s inside of Repeat(%d): what is repeated are launches and copies of one queue", what, q.now.key)
	return false
}

// close gives back what the queue holds.
func (q *Queue) close(gives func(r C.CUresult, call, what string)) {
	for _, g := range q.graphs {
		gives(C.tandem_cuda_destroy_exec(q.dev.ctx, g.exec), "cuGraphExecDestroy", "a graph")
	}
	for _, m := range q.marks {
		if m != nil {
			gives(C.tandem_cuda_destroy_event(q.dev.ctx, m.e), "cuEventDestroy_v2", "an event")
		}
	}
	for _, e := range q.timers {
		if e != nil {
			gives(C.tandem_cuda_destroy_event(q.dev.ctx, e), "cuEventDestroy_v2", "an event")
		}
	}
	gives(C.tandem_cuda_destroy_stream(q.dev.ctx, q.stream), "cuStreamDestroy_v2", "a queue")
	if q.err == nil {
		q.err = errors.New("cuda: the device is closed")
	}
}
