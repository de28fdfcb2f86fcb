package engine

import "time"

// CheckPages makes the engine compare its page books after every step.
func (e *Engine) CheckPages() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stepped = e.sched.check
}

// SetClock gives the engine another clock, which deadlines are compared with.
func (e *Engine) SetClock(now func() time.Time) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.now = now
}
