package engine

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"tandem/kernels"
	"tandem/model"
)

// Config sizes an engine.
type Config struct {
	Pages   int // pages of the cache, of model.PageTokens tokens each
	Seqs    int // sequences in a batch at most
	Rows    int // rows that one step computes at most: Seqs or more; what is more goes to prompts
	Context int // tokens of a sequence at most

	// Room for what requests may ask for; 0 refuses it.
	Edits   int // tokens of a sequence whose logits bias and penalties may change
	Allowed int // tokens of a list of allowed ones
	Top     int // most probable tokens that are reported beside a drawn one
}

func (c Config) check() error {
	if c.Edits < 0 || c.Allowed < 0 || c.Top < 0 {
		return fmt.Errorf("engine: config %+v: room for fewer than 0 entries", c)
	}
	if c.Seqs < 1 || c.Context < 2 || c.Rows < c.Seqs || c.Pages < model.PagesFor(c.Context) {
		return fmt.Errorf("engine: config %+v: want at least 1 sequence, a context of 2, as many rows as sequences, and %d pages for one context",
			c, model.PagesFor(c.Context))
	}
	return nil
}

// limits of the engine's batches. A step is padded to a size that can be recorded, hence the multiple.
func (c Config) limits() model.Limits {
	n := bucket(c.Seqs)
	return model.Limits{Rows: max(c.Rows, n), Seqs: n, Heads: n, Pages: model.PagesFor(c.Context)}
}

// Memory is what an engine takes from its device, in bytes.
type Memory struct{ Pages, Activations, Logits, Step int }

// Plan is the memory of an engine for a model.
func Plan(c model.Config, d kernels.DType, cfg Config) Memory {
	l := cfg.limits()
	return Memory{
		Pages:       cfg.Pages * model.PageBytes(c, d),
		Activations: model.ActivationBytes(c, d, l, false),
		Logits:      l.Heads * c.Live * 4,
		Step: model.BatchBytes(l) + l.Heads*(kernels.SampleParamsBytes+4+4+8+8+8*cfg.Top) +
			cfg.Seqs*(kernels.EditBytes*cfg.Edits+4*cfg.Allowed),
	}
}

// Stats counts what an engine has done.
type Stats struct {
	Steps     int
	Rows      int // computed, prompts included
	Drawn     int // tokens
	Cached    int // prompt tokens that did not have to be computed
	Preempted int
	Running   int // now
	Waiting   int // now
	PagesUsed int // now, by sequences
	PeakPages int
	Busy      time.Duration // with work, until now
}

// An Engine owns the cache and a goroutine that drives the model. Its methods may be called from any goroutine.
type Engine struct {
	cfg  Config
	w    *model.Weights
	step *step

	mu      sync.Mutex
	sched   scheduler
	arrived *sync.Cond // work, the end, or the end of a step
	running bool       // a step is being computed
	begun   time.Time  // there has been work since then; zero if there is none
	busy    time.Duration
	failed  error // of the device: final
	closing bool
	stepped func() error // for tests: after every step, under the lock
	now     func() time.Time
	ended   sync.WaitGroup
}

// New takes the engine's memory from the device and starts to wait for sessions.
func New(dev kernels.Device, w *model.Weights, cfg Config) (*Engine, error) {
	e, err := newEngine(dev, w, cfg)
	if err == nil {
		e.ended.Go(e.drive)
	}
	return e, err
}

// newEngine is an engine without the goroutine that drives it.
func newEngine(dev kernels.Device, w *model.Weights, cfg Config) (*Engine, error) {
	if err := cfg.check(); err != nil {
		return nil, err
	}
	if n := w.Cos.Shape[0]; cfg.Context > n {
		return nil, fmt.Errorf("engine: a context of %d exceeds the %d positions that the weights have rotary tables for", cfg.Context, n)
	}
	st, err := newStep(dev, w, cfg)
	if err != nil {
		return nil, fmt.Errorf("engine: %w", err)
	}
	e := &Engine{cfg: cfg, w: w, step: st, sched: newScheduler(cfg), now: time.Now}
	e.arrived = sync.NewCond(&e.mu)
	return e, nil
}

// Config is what the engine was made with.
func (e *Engine) Config() Config { return e.cfg }

// Close ends the engine's goroutine; turns in progress fail.
func (e *Engine) Close() {
	e.mu.Lock()
	e.closing = true
	e.arrived.Broadcast()
	e.mu.Unlock()
	e.ended.Wait()
}

// WeightsChanged drops every cached key and value. Call it between changing the weights and opening the next session;
// turns in progress are computed again with the new weights.
func (e *Engine) WeightsChanged() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for e.running {
		e.arrived.Wait()
	}
	e.sched.forget()
}

// Stats is a snapshot.
func (e *Engine) Stats() Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	st := e.sched.now()
	st.Busy = e.busy
	if !e.begun.IsZero() {
		st.Busy += time.Since(e.begun)
	}
	return st
}

func (e *Engine) submit(seqs ...*seq) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return err
	}
	for _, s := range seqs {
		e.sched.arrive(s)
		if !s.request.Deadline.IsZero() {
			e.sched.timed = append(e.sched.timed, s)
		}
	}
	e.arrived.Signal()
	return nil
}

func (e *Engine) resume(s *seq, tokens []int32, maxTokens int) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return err
	}
	s.tokens = append(s.tokens, tokens...)
	s.turn, s.maxTokens, s.logProbs, s.top, s.cached, s.stopped = len(s.tokens), maxTokens, nil, nil, 0, false
	e.sched.unlist(s)
	e.sched.arrive(s)
	e.arrived.Signal()
	return nil
}

func (e *Engine) usable() error {
	if e.failed != nil {
		return e.failed
	}
	if e.closing {
		return errors.New("engine: it is closed")
	}
	return nil
}

func (e *Engine) length(s *seq) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(s.tokens)
}

func (e *Engine) cancel(s *seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s.cancelled = true
	if !s.planned {
		e.sched.remove(s)
	}
}

// stop ends the turn of s, if it has one, now or after the step that it is part of.
func (e *Engine) stop(s *seq) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case s.state > running:
	case s.planned:
		s.stopped = true
	default:
		e.finish(s, StopCancelled)
	}
}

// drive runs steps while there is work.
func (e *Engine) drive() {
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		e.wait()
		if e.closing {
			e.fail(errors.New("engine: closed during a turn"))
			return
		}
		if err := e.turn(); err != nil {
			e.failed = fmt.Errorf("engine: step %d: %w", e.sched.stats.Steps, err)
			e.fail(e.failed)
			return
		}
	}
}

// wait waits for work, and counts the time that there was some.
func (e *Engine) wait() {
	if e.closing || e.sched.busy() {
		return
	}
	if !e.begun.IsZero() {
		e.busy += time.Since(e.begun)
		e.begun = time.Time{}
	}
	for !e.closing && !e.sched.busy() {
		e.arrived.Wait()
	}
	e.begun = time.Now()
}

// turn ends what is late and runs a step for the others. The lock is held, but while the step is computed.
func (e *Engine) turn() error {
	if len(e.sched.timed) > 0 {
		for _, s := range e.sched.late(e.now()) {
			e.finish(s, StopDeadline)
		}
	}
	if !e.sched.busy() {
		return nil
	}
	p := e.sched.next()
	e.running = true
	e.mu.Unlock()
	d, err := e.step.run(p)
	e.mu.Lock()
	e.running = false
	e.arrived.Broadcast()
	if err != nil {
		return err
	}
	e.settle(p, d)
	if e.stepped != nil {
		return e.stepped()
	}
	return nil
}

// settle takes the results of a step to the sequences.
func (e *Engine) settle(p *plan, d drawn) {
	sc := &e.sched
	sc.computed(p)
	row := 0
	for _, w := range p.work {
		s := w.seq
		if s.planned = false; s.cancelled {
			sc.remove(s)
		}
		if w.sample {
			if s.state == running {
				e.take(s, d, row)
			}
			row++
		}
		if s.stopped && s.state == running {
			e.finish(s, StopCancelled)
		}
	}
}

// take gives a sequence the token that was drawn in a row.
func (e *Engine) take(s *seq, d drawn, row int) {
	tok, lp := d.tokens[row], d.logProbs[row]
	if tok < 0 {
		why := "the logits are not numbers; are the weights?"
		if math.IsInf(float64(lp), -1) {
			why = "bias and allowed tokens leave none that is possible"
		}
		e.end(s, turn{err: fmt.Errorf("engine: token %d of a sequence: %s", len(s.tokens), why)})
		e.sched.remove(s)
		return
	}
	e.sched.stats.Drawn++
	if n := s.request.Params.Top; n > 0 {
		s.top = append(s.top, d.top(row*e.cfg.Top, n))
	}
	if why, over := e.sched.append(s, tok, lp); over {
		e.finish(s, why)
	}
}

// finish ends the turn of s with what it has.
func (e *Engine) finish(s *seq, why StopReason) {
	e.end(s, turn{sample: Sample{Tokens: append([]int32(nil), s.tokens[s.turn:]...), LogProbs: s.logProbs, Top: s.top, Stop: why, Cached: s.cached}})
	e.sched.rest(s)
}

// end delivers a turn. The channel has room: a sequence has one turn at a time.
func (e *Engine) end(s *seq, t turn) { s.deliver <- t }

// fail ends every turn in progress.
func (e *Engine) fail(err error) {
	sc := &e.sched
	for _, list := range [][]*seq{sc.waiting, sc.running} {
		for _, s := range list {
			e.end(s, turn{err: err})
			s.state = gone
		}
	}
	sc.waiting, sc.running = nil, nil
}
