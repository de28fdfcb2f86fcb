package engine

import (
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	"tandem/kernels"
	"tandem/model"
)

// A seq is a session as the scheduler sees it.
type seq struct {
	request   Request
	tokens    []int32 // prompt, samples and what was appended
	computed  int     // of them have keys and values on the pages
	held      []int32 // pages
	turn      int     // where this turn's sample begins in tokens
	maxTokens int
	logProbs  []float32 // of tokens[turn:]
	top       [][]TokenLogProb
	cached    int // tokens before the turn found computed
	deliver   chan<- turn
	state     state
	place     int            // in the batch, while running
	bias      []kernels.Edit // of the request, ascending
	allowed   []int32        // likewise
	planned   bool           // in the plan being made or computed
	cancelled bool
	stopped   bool // to end its turn after this step
}

type state uint8

const (
	waiting state = iota // for a place in the batch
	running
	resting // between turns; its pages are the tree's
	gone
)

// need is the number of rows until the next token can be drawn.
func (s *seq) need() int { return len(s.tokens) - s.computed }

// A scheduler decides which rows the next step computes. It looks at token counts and the order of arrival only, never
// at a clock.
type scheduler struct {
	cfg     Config
	pages   *pages
	waiting []*seq // in order of arrival; who was preempted is first
	running []*seq // in order of admission
	resting []*seq
	places  []int  // of the batch, that nobody has: a stack
	timed   []*seq // who has a deadline
	hash    maphash.Seed
	stats   Stats
}

func newScheduler(cfg Config) scheduler {
	sc := scheduler{cfg: cfg, pages: newPages(cfg.Pages), hash: maphash.MakeSeed()}
	for i := range cfg.Seqs {
		sc.places = append(sc.places, cfg.Seqs-1-i)
	}
	return sc
}

// arrive puts a sequence into the queue.
func (sc *scheduler) arrive(s *seq) {
	s.state = waiting
	sc.waiting = append(sc.waiting, s)
}

// A plan is one step: rows of sequences, and pages to copy before and after it.
type plan struct {
	work          []work
	rows          int
	before, after []copyPage
	pinned        []int32 // source pages of before, held until the step is over
}

// work is n rows of a sequence from its first uncomputed token on. If they reach the end a token is drawn from the last
// one. A fork computes nothing: its tokens are those of another sequence, from whose last row it draws, too.
type work struct {
	seq    *seq
	n      int
	sample bool
	fork   int // index of the other's work, or -1
}

type copyPage struct{ src, dst int32 }

// next makes the plan of a step: decoding sequences first, then prompts in order of admission, then new arrivals.
func (sc *scheduler) next() *plan {
	p := &plan{}
	preempted := sc.stats.Preempted
	for _, decode := range []bool{true, false} {
		for _, s := range slices.Clone(sc.running) {
			if s.state != running || s.planned || (s.need() == 1) != decode || p.rows == sc.cfg.Rows {
				continue
			}
			n := min(s.need(), sc.cfg.Rows-p.rows)
			if sc.grow(s, s.computed+n) {
				p.add(s, n)
			}
		}
	}
	if sc.stats.Preempted == preempted {
		sc.admit(p)
	}
	sc.stats.Steps++
	sc.stats.Rows += p.rows
	sc.stats.PeakPages = max(sc.stats.PeakPages, sc.now().PagesUsed)
	return p
}

// late takes out of sc.timed who is gone, and gives the sequences in a turn whose deadline has passed.
func (sc *scheduler) late(now time.Time) []*seq {
	var late []*seq
	sc.timed = slices.DeleteFunc(sc.timed, func(s *seq) bool {
		if s.state <= running && !now.Before(s.request.Deadline) {
			late = append(late, s)
		}
		return s.state == gone
	})
	return late
}

// busy says whether there is anything to plan.
func (sc *scheduler) busy() bool { return len(sc.waiting)+len(sc.running) > 0 }

// now is the counts with the state of this moment.
func (sc *scheduler) now() Stats {
	st := sc.stats
	st.Running, st.Waiting = len(sc.running), len(sc.waiting)
	st.PagesUsed = len(sc.pages.refs) - sc.pages.available()
	return st
}

func (p *plan) add(s *seq, n int) {
	s.planned = true
	p.work = append(p.work, work{seq: s, n: n, sample: n == s.need(), fork: -1})
	p.rows += n
}

// grow gets pages for s to hold n tokens, preempting the latest running sequences that are not in the plan yet. If s
// itself is the latest, it is preempted and grow is false.
func (sc *scheduler) grow(s *seq, n int) bool {
	for {
		if got := sc.pages.take(max(0, model.PagesFor(n)-len(s.held))); got != nil {
			s.held = append(s.held, got...)
			return true
		}
		last := len(sc.running) - 1
		for sc.running[last].planned {
			last--
		}
		v := sc.running[last]
		sc.preempt(v)
		if v == s {
			return false
		}
	}
}

// preempt sends a running sequence back to the head of the queue. Its pages stay in the tree as long as they can.
func (sc *scheduler) preempt(s *seq) {
	sc.leave(s)
	sc.unlist(s)
	s.state = waiting
	sc.waiting = slices.Insert(sc.waiting, 0, s)
	sc.stats.Preempted++
}

// leave gives up all pages of s. The tree keeps what is computed on them until the room is needed.
func (sc *scheduler) leave(s *seq) {
	sc.pages.remember(s.tokens[:s.computed], s.held)
	sc.pages.dropAll(s.held)
	s.held, s.computed = nil, 0
}

// admit starts sequences in the order of arrival while there is room. One that equals a prompt still being computed
// waits for it, and lets others pass.
func (sc *scheduler) admit(p *plan) {
	prefill := sc.prompts(p)
	for i := 0; i < len(sc.waiting) && len(sc.running) < sc.cfg.Seqs; {
		s := sc.waiting[i]
		twin, at := sc.twin(prefill, s.tokens, p)
		switch {
		case twin != nil && at < 0:
			i++ // its last chunk is yet to come
			continue
		case twin != nil:
			if !sc.fork(p, s, twin, at) {
				return
			}
		default:
			if p.rows == sc.cfg.Rows || !sc.start(p, s) {
				return
			}
			h := maphash.Comparable(sc.hash, key(s.tokens))
			prefill[h] = append(prefill[h], s)
		}
		sc.waiting = slices.Delete(sc.waiting, i, i+1)
		sc.running = append(sc.running, s)
		s.state = running
		last := len(sc.places) - 1
		s.place, sc.places = sc.places[last], sc.places[:last]
	}
}

// key is what the hash of a token list is made from: enough to tell most prompts apart.
func key(tokens []int32) [4]int32 {
	n := len(tokens)
	return [4]int32{int32(n), tokens[n-1], tokens[n/2], tokens[n-1-n/4]}
}

// prompts are the running sequences whose prompt is being computed, by hash of their tokens.
func (sc *scheduler) prompts(p *plan) map[uint64][]*seq {
	m := make(map[uint64][]*seq)
	if len(sc.waiting) == 0 {
		return m
	}
	for _, s := range sc.running {
		if s.need() > 1 {
			h := maphash.Comparable(sc.hash, key(s.tokens))
			m[h] = append(m[h], s)
		}
	}
	return m
}

// twin finds a sequence of the same tokens that is being computed, and its work if that is finished in this plan.
func (sc *scheduler) twin(prefill map[uint64][]*seq, tokens []int32, p *plan) (*seq, int) {
	for _, s := range prefill[maphash.Comparable(sc.hash, key(tokens))] {
		if slices.Equal(s.tokens, tokens) {
			at := slices.IndexFunc(p.work, func(w work) bool { return w.seq == s && w.sample })
			return s, at
		}
	}
	return nil, -1
}

// fork lets s draw from the last row of its twin. Full pages are shared; the last one is copied when it is written.
func (sc *scheduler) fork(p *plan, s, twin *seq, at int) bool {
	full := len(s.tokens) / model.PageTokens
	var own []int32
	if len(s.tokens)%model.PageTokens > 0 {
		if own = sc.pages.take(1); own == nil {
			return false
		}
		p.after = append(p.after, copyPage{twin.held[full], own[0]})
	}
	for _, page := range twin.held[:full] {
		sc.pages.hold(page)
	}
	s.held = append(slices.Clone(twin.held[:full]), own...)
	s.cached = len(s.tokens)
	s.planned = true
	p.work = append(p.work, work{seq: s, sample: true, fork: at})
	sc.stats.Cached += len(s.tokens)
	return true
}

// start admits s if there are pages for all its tokens and one more for everybody who is running. What the tree has of
// it is not computed again, but for the last token.
func (sc *scheduler) start(p *plan, s *seq) bool {
	full, partial, n := sc.pages.find(s.tokens)
	if len(full)*model.PageTokens == len(s.tokens) {
		last := len(full) - 1
		full, partial, n = full[:last], full[last], model.PageTokens-1
	}
	n = min(n, len(s.tokens)-1-len(full)*model.PageTokens)
	for _, page := range full {
		sc.pages.hold(page)
	}
	if n > 0 {
		sc.pages.hold(partial)
	}
	need := model.PagesFor(len(s.tokens)) - len(full)
	if n > 0 && sc.pages.available()-need < len(sc.running) {
		sc.pages.drop(partial) // what would be copied may lie on the very page that is missing
		n = 0
	}
	var own []int32
	if sc.pages.available()-need >= len(sc.running) {
		own = sc.pages.take(need)
	}
	if own == nil {
		sc.pages.dropAll(full)
		return false
	}
	if n > 0 {
		p.before = append(p.before, copyPage{partial, own[0]})
		p.pinned = append(p.pinned, partial)
	}
	s.held = append(full, own...)
	s.computed = len(full)*model.PageTokens + n
	s.cached = s.computed
	sc.stats.Cached += s.computed
	p.add(s, min(s.need(), sc.cfg.Rows-p.rows))
	return true
}

// computed notes that the plan's rows have been computed.
func (sc *scheduler) computed(p *plan) {
	for _, page := range p.pinned {
		sc.pages.drop(page)
	}
	for _, w := range p.work {
		s := w.seq
		prompt := w.n > 1 || w.fork >= 0
		s.computed += w.n
		if w.fork >= 0 {
			s.computed = len(s.tokens)
		}
		if prompt && w.sample {
			sc.pages.remember(s.tokens[:s.computed], s.held)
		}
	}
}

// append adds a drawn token; it says whether the turn is over, and why.
func (sc *scheduler) append(s *seq, token int32, logProb float32) (StopReason, bool) {
	s.tokens = append(s.tokens, token)
	s.logProbs = append(s.logProbs, logProb)
	sample := s.tokens[s.turn:len(s.tokens):len(s.tokens)]
	switch {
	case slices.Contains(s.request.Params.Stop, token):
		return StopToken, true
	case s.request.Until != nil && s.request.Until(sample):
		return StopUntil, true
	case len(sample) >= s.maxTokens || len(s.tokens) >= sc.cfg.Context:
		return StopLength, true
	}
	return "", false
}

// rest ends a turn: the sequence leaves the batch, or the queue.
func (sc *scheduler) rest(s *seq) {
	sc.leave(s)
	sc.unlist(s)
	sc.resting = append(sc.resting, s)
	s.state = resting
}

// remove ends a sequence in whatever state it is.
func (sc *scheduler) remove(s *seq) {
	if s.state == gone {
		return
	}
	sc.leave(s)
	sc.unlist(s)
	s.state = gone
}

// unlist takes s out of the list that its state says, and gives its place in the batch to others.
func (sc *scheduler) unlist(s *seq) {
	switch s.state {
	case waiting:
		sc.waiting = without(sc.waiting, s)
	case running:
		sc.running = without(sc.running, s)
		sc.places = append(sc.places, s.place)
	case resting:
		sc.resting = without(sc.resting, s)
	}
}

// forget drops everything computed: the weights have changed.
func (sc *scheduler) forget() {
	for _, list := range [][]*seq{sc.waiting, sc.running, sc.resting} {
		for _, s := range list {
			sc.pages.dropAll(s.held)
			s.held, s.computed = nil, 0
		}
	}
	// Whoever was running starts again from the queue, in the same order.
	for _, s := range sc.running {
		s.state = waiting
		sc.places = append(sc.places, s.place)
	}
	sc.waiting = append(sc.running, sc.waiting...)
	sc.running = nil
	sc.pages.forget()
}

// check compares the page books with what the sequences hold, and the places of the batch with those in it.
func (sc *scheduler) check() error {
	places := slices.Clone(sc.places)
	for _, s := range sc.running {
		places = append(places, s.place)
	}
	slices.Sort(places)
	if places = slices.Compact(places); len(places) != sc.cfg.Seqs || len(sc.places)+len(sc.running) != sc.cfg.Seqs {
		return fmt.Errorf("engine: of %d places in the batch %d are free and %d taken; they name %v", sc.cfg.Seqs, len(sc.places), len(sc.running), places)
	}
	var held [][]int32
	for _, list := range [][]*seq{sc.waiting, sc.running, sc.resting} {
		for _, s := range list {
			held = append(held, s.held)
		}
	}
	return sc.pages.check(held)
}

func without(list []*seq, s *seq) []*seq {
	i := slices.Index(list, s)
	return slices.Delete(list, i, i+1)
}
