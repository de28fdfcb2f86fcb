package engine

import (
	"errors"
	"fmt"
	"hash/maphash"
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
}

func (c Config) check() error {
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
		Step:        model.BatchBytes(l) + l.Heads*(kernels.SampleParamsBytes+4+4+8+8),
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
	ended   sync.WaitGroup
}

// New takes the engine's memory from the device and starts to wait for sessions.
func New(dev kernels.Device, w *model.Weights, cfg Config) (*Engine, error) {
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
	e := &Engine{cfg: cfg, w: w, step: st}
	e.sched = scheduler{cfg: cfg, pages: newPages(cfg.Pages), hash: maphash.MakeSeed()}
	e.arrived = sync.NewCond(&e.mu)
	e.ended.Add(1)
	go e.drive()
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

func (e *Engine) submit(s *seq) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.usable(); err != nil {
		return err
	}
	e.sched.waiting = append(e.sched.waiting, s)
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
	s.turn, s.maxTokens, s.logProbs, s.cached = len(s.tokens), maxTokens, nil, 0
	e.sched.resting = without(e.sched.resting, s)
	s.state = waiting
	e.sched.waiting = append(e.sched.waiting, s)
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

// drive runs steps while there is work.
func (e *Engine) drive() {
	defer e.ended.Done()
	e.mu.Lock()
	defer e.mu.Unlock()
	for {
		e.wait()
		if e.closing {
			e.fail(errors.New("engine: closed during a turn"))
			return
		}
		p := e.sched.next()
		e.running = true
		e.mu.Unlock()
		tokens, logProbs, err := e.step.run(p)
		e.mu.Lock()
		e.running = false
		e.arrived.Broadcast()
		if err == nil {
			e.settle(p, tokens, logProbs)
			if e.stepped != nil {
				err = e.stepped()
			}
		}
		if err != nil {
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

// settle takes the results of a step to the sequences.
func (e *Engine) settle(p *plan, tokens []int32, logProbs []float32) {
	sc := &e.sched
	sc.computed(p)
	row := 0
	for _, w := range p.work {
		s := w.seq
		if s.planned = false; s.cancelled {
			sc.remove(s)
		}
		if !w.sample {
			continue
		}
		tok, lp := tokens[row], logProbs[row]
		row++
		if s.state != running {
			continue
		}
		if tok < 0 || math.IsNaN(float64(lp)) {
			e.end(s, turn{err: fmt.Errorf("engine: token %d of a sequence: the logits are not numbers; are the weights?", len(s.tokens))})
			sc.remove(s)
			continue
		}
		sc.stats.Drawn++
		if why, over := sc.append(s, tok, lp); over {
			e.end(s, turn{sample: Sample{Tokens: append([]int32(nil), s.tokens[s.turn:]...), LogProbs: s.logProbs, Stop: why, Cached: s.cached}})
			sc.rest(s)
		}
	}
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
