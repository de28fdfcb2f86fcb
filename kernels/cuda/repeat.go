package cuda

// #include "driver.h"
import "C"

import (
	"bytes"
	"fmt"
	"runtime"

	"tandem/kernels"
)

// A graph is what Repeat has recorded.
type graph struct {
	exec     C.CUgraphExec
	launches tally
}

// A recording is one run of Repeat's function, by the driver or, when the device checks, by us.
type recording struct {
	key       int
	capturing bool
	launches  tally
	steps     []step
	want      []step // what was there the first time
	first     bool
}

// A step is a launch or a copy with all that a replay would do again.
type step struct {
	what string
	args []byte
}

// Repeat records what f gives to the queue the first time that it is called with a key, and replays that from then on:
// f is not called again. All that it launches must be a function of the key: what changes lies in memory. A device that
// checks calls f each time, and fails where a replay would have done something else. Within f, Repeat calls its function.
func (q *Queue) Repeat(key int, f func()) {
	switch {
	case q.err != nil:
	case q.now != nil:
		f()
	case q.dev.check:
		q.rehearse(key, f)
	default:
		if q.graphs[key] == nil {
			q.capture(key, f)
		}
		if g := q.graphs[key]; g != nil && q.err == nil {
			q.replay(key, g)
		}
	}
}

// capture records. Whatever happens in f, the recording ends: a stream that is left in it is of no use.
func (q *Queue) capture(key int, f func()) {
	runtime.LockOSThread() // a recording ends on the thread where it began
	defer runtime.UnlockOSThread()
	doing := func() string { return fmt.Sprintf("record Repeat(%d)", key) }
	if r := C.tandem_cuda_begin_capture(q.dev.ctx, q.stream); r != 0 {
		q.failed(r, "cuStreamBeginCapture_v2", doing)
		return
	}
	rec := &recording{key: key, capturing: true}
	q.now = rec
	returned := false
	defer func() {
		q.now = nil
		var g C.CUgraph
		r := C.tandem_cuda_end_capture(q.dev.ctx, q.stream, &g)
		switch {
		case r == 0 && returned && q.err == nil:
			q.keep(rec, g)
		case r == 0:
			C.tandem_cuda_destroy_graph(q.dev.ctx, g)
		case q.err == nil:
			q.failed(r, "cuStreamEndCapture", doing)
		}
	}()
	f()
	returned = true
}

// keep makes a recording ready to be replayed.
func (q *Queue) keep(rec *recording, g C.CUgraph) {
	var x C.CUgraphExec
	if r := C.tandem_cuda_instantiate(q.dev.ctx, g, &x); r != 0 {
		q.failed(r, "cuGraphInstantiateWithFlags", func() string { return fmt.Sprintf("make a graph of Repeat(%d): %s", rec.key, &rec.launches) })
		return
	}
	q.graphs[rec.key] = &graph{x, rec.launches}
}

func (q *Queue) replay(key int, g *graph) {
	if r := C.tandem_cuda_launch_graph(q.dev.ctx, g.exec, q.stream); r != 0 {
		q.failed(r, "cuGraphLaunch", func() string { return fmt.Sprintf("replay Repeat(%d)", key) })
		return
	}
	q.mu.Lock()
	for _, k := range g.launches.order {
		q.pending.add(k, g.launches.count[k.id])
	}
	q.mu.Unlock()
}

// rehearse runs f and holds it to what it did the first time.
func (q *Queue) rehearse(key int, f func()) {
	want, known := q.rehearsed[key]
	rec := &recording{key: key, want: want, first: !known}
	q.now = rec
	defer func() { q.now = nil }()
	f()
	switch {
	case q.err != nil:
	case rec.first:
		q.rehearsed[key] = rec.steps
	case len(rec.steps) < len(want):
		q.err = fmt.Errorf("cuda: Repeat(%d) ends before step %d, %s: a replay would go on", key, len(rec.steps), want[len(rec.steps)].what)
	}
}

func (r *recording) launch(q *Queue, k *kernel, g kernels.Grid, args []byte) bool {
	if r.capturing {
		return true
	}
	return r.step(q, step{describe(k, g), bytes.Clone(args)})
}

func (r *recording) copy(q *Queue, dst, src kernels.Ptr, n int) bool {
	if r.capturing {
		return true
	}
	return r.step(q, step{what: fmt.Sprintf("copy of %d bytes from %#x to %#x", n, src, dst)})
}

// step says whether to go on.
func (r *recording) step(q *Queue, s step) bool {
	at := len(r.steps)
	r.steps = append(r.steps, s)
	if r.first {
		return true
	}
	switch {
	case at >= len(r.want):
		q.err = fmt.Errorf("cuda: Repeat(%d), step %d: %s comes after the end of what was recorded: a replay would leave it out", r.key, at, s.what)
	case s.what != r.want[at].what:
		q.err = fmt.Errorf("cuda: Repeat(%d), step %d: %s, and at first it was %s: a replay would do that", r.key, at, s.what, r.want[at].what)
	case !bytes.Equal(s.args, r.want[at].args):
		i := 0
		for i < min(len(s.args), len(r.want[at].args)) && s.args[i] == r.want[at].args[i] {
			i++
		}
		i = i / 4 * 4
		q.err = fmt.Errorf("cuda: Repeat(%d), step %d, %s: from byte %d on the arguments are % x and were % x at first, which a replay would use",
			r.key, at, s.what, i, s.args[i:], r.want[at].args[i:])
	}
	return q.err == nil
}
