package engine

// CheckPages makes the engine compare its page books after every step.
func (e *Engine) CheckPages() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.stepped = e.sched.check
}
