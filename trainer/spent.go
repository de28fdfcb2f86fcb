package trainer

import (
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"tandem/engine"
	"tandem/kernels"
)

// Spent is what the wall time of a step went to, in seconds: every phase but EnvironmentSeconds is a part of Seconds, and
// together they are all of it.
type Spent struct {
	SamplingSeconds  float64 `json:"sampling_seconds"`  // the engine computed
	GradingSeconds   float64 `json:"grading_seconds"`   // the engine had nothing to do, and the environment (grader, tools) worked
	ReferenceSeconds float64 `json:"reference_seconds"` // log-probs under other weights than those that are trained
	ForwardSeconds   float64 `json:"forward_seconds"`
	BackwardSeconds  float64 `json:"backward_seconds"`
	OptimizerSeconds float64 `json:"optimizer_seconds"`
	SavingSeconds    float64 `json:"saving_seconds"` // log, replies and figures, and what was saved since the step before, full states included
	IdleSeconds      float64 `json:"idle_seconds"`   // the rest

	EnvironmentSeconds float64 `json:"environment_seconds"` // in the environment, summed over episodes, which overlap

	EngineIdle float64 `json:"engine_idle"` // share of the rollout's time in which the engine had nothing to do but to wait for the environment

	SampledPerSecond float64 `json:"sampled_per_second"` // tokens of the rollout, over all of its time; 0 for one from the log
	TrainedPerSecond float64 `json:"trained_per_second"` // tokens of the update, likewise

	Memory         int `json:"memory"`          // bytes taken from the device; 0 where it does not tell
	MemoryPlanned  int `json:"memory_planned"`  // bytes that the plan says
	MemoryResident int `json:"memory_resident"` // bytes of this process that are in the machine's memory
	Pages          int `json:"pages"`           // of the cache, in use or not
}

// finishTimes turns what was measured into shares of the whole and rates.
func (m *Metrics) finishTimes(step time.Duration, before time.Duration) {
	m.Seconds = (step + before).Seconds()
	m.SavingSeconds += before.Seconds()
	known := m.SamplingSeconds + m.GradingSeconds + m.ReferenceSeconds + m.ForwardSeconds + m.BackwardSeconds + m.OptimizerSeconds + m.SavingSeconds
	m.IdleSeconds = max(0, m.Seconds-known)
	m.SampledPerSecond = perSecond(m.Sampled, m.RolloutSeconds)
	m.TrainedPerSecond = perSecond(m.Trained, m.UpdateSeconds)
}

func perSecond(n int, seconds float64) float64 {
	if seconds <= 0 {
		return 0
	}
	return float64(n) / seconds
}

// clocked adds the time until the returned function is called.
func clocked(to *float64) func() {
	begun := time.Now()
	return func() { *to += time.Since(begun).Seconds() }
}

// A envClock measures the environment's work while an engine samples.
type envClock struct {
	engine *engine.Engine

	mu      sync.Mutex
	working int           // episodes in the environment
	begun   time.Time     // since there was one
	busy    time.Duration // of the engine, then
	alone   time.Duration // at least one was, and the engine had nothing to do
	summed  time.Duration
}

// enter notes that an episode is in the environment until the returned function is called.
func (c *envClock) enter() (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.working == 0 {
		c.busy = c.engine.Stats().Busy // which may take a moment; what it takes is no work of the environment
		c.begun = time.Now()
	}
	now := time.Now()
	c.working++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.summed += time.Since(now)
		if c.working--; c.working == 0 {
			c.alone += max(0, time.Since(c.begun)-(c.engine.Stats().Busy-c.busy))
		}
	}
}

// reset gives what was measured since the last time.
func (c *envClock) reset() (alone, summed time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	alone, summed = c.alone, c.summed
	c.alone, c.summed = 0, 0
	return alone, summed
}

// taken is the memory that a device has given out, 0 where it does not tell.
func taken(dev kernels.Device) int {
	if d, ok := dev.(interface{ Taken() int }); ok {
		return d.Taken()
	}
	return 0
}

// resident is the memory of this process, 0 where the system does not tell.
func resident() int {
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	fields := strings.Fields(string(b))
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		return 0
	}
	return pages * os.Getpagesize()
}
