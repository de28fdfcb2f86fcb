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

	mu    sync.Mutex
	bar   *progressbar.ProgressBar // counts from first, or its ETA would count what an earlier process did
	n     int
	moved time.Time // when n last changed
	last  time.Time // when the last plain line was written
}

func newProgress(to *os.File, name string, first, total int, unit string) *progress {
	p := &progress{to: to, name: name, unit: unit, first: first, total: total, n: first, begun: time.Now(), moved: time.Now(), last: time.Now()}
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
	p.n, p.moved = n, time.Now()
	if p.bar != nil {
		_ = p.bar.Set(n - p.first) // a terminal that cannot be written to loses the bar, nothing else
		return
	}
	p.plain("")
}

// part says how far the next unit is. Without a terminal that is worth a line only where a unit takes its time.
func (p *progress) part(phase string, done, total int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		p.bar.Describe(fmt.Sprintf("%s, %s %d/%d", p.name, phase, done, total))
		return
	}
	if time.Since(p.moved) >= plainEvery {
		p.plain(fmt.Sprintf(", %s %d of %d", phase, done, total))
	}
}

// plain writes a line now and then.
func (p *progress) plain(part string) {
	if !p.due() {
		return
	}
	left := ""
	if done := p.n - p.first; done > 0 {
		eta := time.Duration(float64(time.Since(p.begun)) / float64(done) * float64(p.total-p.n))
		left = fmt.Sprintf(", %v left", eta.Round(time.Second))
	}
	fmt.Fprintf(p.to, "%s: %d of %d %s%s%s\n", p.name, p.n, p.total, p.unit, part, left)
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
