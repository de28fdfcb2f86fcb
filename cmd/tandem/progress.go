package main

import (
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far something is: a bar with an ETA on a terminal, now and then a plain line elsewhere. Its methods
// may be called from any goroutine.
type progress struct {
	to    *os.File
	name  string
	unit  string
	first int // done before
	total int
	begun time.Time

	mu   sync.Mutex
	bar  *progressbar.ProgressBar // counts from first, or its ETA would count what an earlier process did
	n    int
	last time.Time
}

func newProgress(to *os.File, name string, first, total int, unit string) *progress {
	p := &progress{to: to, name: name, unit: unit, first: first, total: total, n: first, begun: time.Now(), last: time.Now()}
	if term.IsTerminal(int(to.Fd())) && total > first {
		p.bar = progressbar.NewOptions(total-first,
			progressbar.OptionSetWriter(to), progressbar.OptionSetDescription(name), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionShowElapsedTimeOnFinish(), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(16), progressbar.OptionThrottle(100*time.Millisecond)) // one line of 80 columns
	}
	return p
}

// plainEvery is the time between plain lines.
const plainEvery = 10 * time.Second

func (p *progress) set(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.n = n
	if p.bar != nil {
		_ = p.bar.Set(n - p.first) // a terminal that cannot be written to loses the bar, nothing else
		return
	}
	done, left := n-p.first, p.total-n
	if p.due() && done > 0 {
		eta := time.Duration(float64(time.Since(p.begun)) / float64(done) * float64(left)).Round(time.Second)
		fmt.Fprintf(p.to, "%s: %d of %d %s, %v left\n", p.name, n, p.total, p.unit, eta)
	}
}

// part says how far the next unit is.
func (p *progress) part(phase string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%s, %s %d/%d", p.name, phase, done, total))
		return
	}
	if p.due() {
		fmt.Fprintf(p.to, "%s: %d of %d %s, %s %d of %d\n", p.name, p.n, p.total, p.unit, phase, done, total)
	}
}

func (p *progress) due() bool {
	if time.Since(p.last) < plainEvery {
		return false
	}
	p.last = time.Now()
	return true
}

// clear takes the bar off the line so that something else can be written.
func (p *progress) clear() {
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

func (p *progress) done() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
