package main

import (
	"fmt"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"
)

// progress shows how far something is: a bar with an ETA on a terminal, now and then a plain line elsewhere.
type progress struct {
	to    *os.File
	name  string
	unit  string
	total int
	bar   *progressbar.ProgressBar
	begun time.Time
	last  time.Time
}

func newProgress(to *os.File, name string, total int, unit string) *progress {
	p := &progress{to: to, name: name, unit: unit, total: total, begun: time.Now(), last: time.Now()}
	if term.IsTerminal(int(to.Fd())) {
		p.bar = progressbar.NewOptions(total,
			progressbar.OptionSetWriter(to), progressbar.OptionSetDescription(name), progressbar.OptionShowCount(),
			progressbar.OptionSetPredictTime(true), progressbar.OptionShowElapsedTimeOnFinish(), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30), progressbar.OptionThrottle(100*time.Millisecond))
	}
	return p
}

// plainEvery is the time between plain lines.
const plainEvery = 10 * time.Second

func (p *progress) set(n int) {
	if p.bar != nil {
		_ = p.bar.Set(n) // a terminal that cannot be written to loses the bar, nothing else
		return
	}
	if time.Since(p.last) < plainEvery {
		return
	}
	p.last = time.Now()
	left := time.Duration(float64(time.Since(p.begun)) / float64(n) * float64(p.total-n)).Round(time.Second)
	fmt.Fprintf(p.to, "%s: %d of %d %s, %v left\n", p.name, n, p.total, p.unit, left)
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
