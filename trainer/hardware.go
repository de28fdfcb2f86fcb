package trainer

import (
	"fmt"
	"math"
	"time"

	"tandem/kernels"
)

// Hardware is how the hardware beneath the device did in a step, as it tells itself; nil is what it does not tell. It
// decides nothing.
type Hardware struct {
	Power       *float64 `json:"power,omitempty"`        // W, mean
	PowerMax    *float64 `json:"power_max,omitempty"`    // W
	Clock       *float64 `json:"clock,omitempty"`        // MHz, of what computes, mean
	MemoryClock *float64 `json:"memory_clock,omitempty"` // MHz, mean
	Temperature *float64 `json:"temperature,omitempty"`  // °C, the highest

	Throttled         *float64 `json:"throttled,omitempty"` // share of the readings, whatever the reason
	ThrottledPower    *float64 `json:"throttled_power,omitempty"`
	ThrottledHeat     *float64 `json:"throttled_heat,omitempty"`
	ThrottledHardware *float64 `json:"throttled_hardware,omitempty"`
	ThrottledOther    *float64 `json:"throttled_other,omitempty"`

	Energy         *float64 `json:"energy,omitempty"`           // J
	EnergyPerToken *float64 `json:"energy_per_token,omitempty"` // J for every token sampled, what is done with it included

	MemoryBeyond   *float64 `json:"memory_beyond,omitempty"`   // bytes that the device took for the run beside its arenas
	MemoryCard     *float64 `json:"memory_card,omitempty"`     // bytes in use, by whatever process, the most
	ECCUncorrected *float64 `json:"ecc_uncorrected,omitempty"` // memory errors since this process began
	ECCCorrected   *float64 `json:"ecc_corrected,omitempty"`
}

const (
	watchEvery    = 250 * time.Millisecond // between readings: far more than one takes
	watchPatience = 2 * time.Second        // with a reading that does not come back
)

// A watch reads a monitor while a step goes on, on a goroutine of its own: the one that launches never waits for it but at
// the step's end, and not for long. The zero watch reads nothing.
type watch struct {
	monitor  kernels.Monitor // nil: nothing is read, any more
	every    time.Duration
	patience time.Duration
	first    kernels.Counters // when the process began
	told     bool             // it has told something
	warned   kernels.Holds    // what has been warned of
	corrupt  bool             // likewise memory errors
	note     func(format string, args ...any)
}

// newWatch watches a device that can be watched; of one that should and does not tell, note says why.
func newWatch(dev kernels.Device, note func(format string, args ...any)) *watch {
	w := &watch{every: watchEvery, patience: watchPatience, note: note}
	d, ok := dev.(kernels.Monitored)
	if !ok {
		return w
	}
	m, err := d.Monitor()
	if err != nil {
		note("clocks, power and temperature are left out of the figures: %v", err)
	}
	if w.monitor = m; m != nil {
		w.first = m.Counters()
	}
	return w
}

// close lets go of the monitor.
func (w *watch) close() {
	if w.monitor != nil {
		w.monitor.Close()
		w.monitor = nil
	}
}

// A tally is what was read in a step.
type tally struct {
	gauges     []kernels.Gauges
	begin, end kernels.Counters
}

// begin reads until the returned function is called, which gives what the hardware did meanwhile.
func (w *watch) begin() (end func() tally) {
	if w.monitor == nil {
		return func() tally { return tally{} }
	}
	stop, done := make(chan struct{}), make(chan tally, 1)
	go read(w.monitor, w.every, stop, done)
	return func() tally {
		close(stop)
		select {
		case t := <-done:
			return t
		case <-time.After(w.patience):
			// It is stuck in the driver, and cannot be called back: it keeps the monitor, which is closed by nobody.
			w.monitor = nil
			w.note("the hardware does not answer when asked for its clocks and power: they are left out of the figures from here on")
			return tally{}
		}
	}
}

// read reads at once, every so often, and at the end.
func read(m kernels.Monitor, every time.Duration, stop <-chan struct{}, done chan<- tally) {
	t := tally{begin: m.Counters(), gauges: []kernels.Gauges{m.Gauges()}}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			t.gauges = append(t.gauges, m.Gauges())
		case <-stop:
			t.gauges, t.end = append(t.gauges, m.Gauges()), m.Counters()
			done <- t
			return
		}
	}
}

// hardware turns readings into the figures of a step in which so many tokens were sampled.
func (w *watch) hardware(t tally, sampled int) Hardware {
	if len(t.gauges) == 0 {
		return Hardware{}
	}
	h := Hardware{
		Power: t.mean(func(g kernels.Gauges) float64 { return g.Power }), PowerMax: t.most(func(g kernels.Gauges) float64 { return g.Power }),
		Clock: t.mean(func(g kernels.Gauges) float64 { return g.Clock }), MemoryClock: t.mean(func(g kernels.Gauges) float64 { return g.MemoryClock }),
		Temperature: t.most(func(g kernels.Gauges) float64 { return g.Temperature }), MemoryCard: t.most(func(g kernels.Gauges) float64 { return g.Memory }),
		Throttled: t.held(^kernels.Holds(0)), ThrottledPower: t.held(kernels.HeldByPower), ThrottledHeat: t.held(kernels.HeldByHeat),
		ThrottledHardware: t.held(kernels.HeldByHardware), ThrottledOther: t.held(kernels.HeldByOthers),
		Energy: since(t.begin.Energy, t.end.Energy), ECCUncorrected: since(w.first.Uncorrected, t.end.Uncorrected), ECCCorrected: since(w.first.Corrected, t.end.Corrected),
	}
	if h.Energy != nil && sampled > 0 {
		h.EnergyPerToken = figure(*h.Energy / float64(sampled))
	}
	if !w.told && h == (Hardware{}) {
		w.note("the hardware tells neither clocks nor power nor temperature: they are left out of the figures")
	}
	w.told = true
	return h
}

// watched notes what the hardware did in the step.
func (m *Metrics) watched(w *watch, t tally) {
	sampled := m.Sampled
	if m.RolloutSeconds == 0 {
		sampled = 0 // they came from the log
	}
	m.Hardware = w.hardware(t, sampled)
	w.warn(t, m.Hardware)
}

// figure is a number, or nil for one that is not known.
func figure(v float64) *float64 {
	if v-v != 0 {
		return nil
	}
	return &v
}

// since is what a counter counted. One that went back was reset meanwhile.
func since(begin, end float64) *float64 {
	if end < begin {
		return nil
	}
	return figure(end - begin)
}

func (t tally) mean(of func(kernels.Gauges) float64) *float64 {
	sum, n := 0.0, 0
	for _, g := range t.gauges {
		if v := of(g); !math.IsNaN(v) {
			sum, n = sum+v, n+1
		}
	}
	return figure(sum / float64(n))
}

func (t tally) most(of func(kernels.Gauges) float64) *float64 {
	most := math.Inf(-1)
	for _, g := range t.gauges {
		if v := of(g); !math.IsNaN(v) {
			most = max(most, v)
		}
	}
	return figure(most)
}

// held is the share of readings in which the hardware was held back for one of the reasons.
func (t tally) held(by kernels.Holds) *float64 {
	held, known := 0, 0
	for _, g := range t.gauges {
		if g.HeldKnown {
			known++
			if g.Held&by != 0 {
				held++
			}
		}
	}
	return figure(float64(held) / float64(known))
}

// lasting is the number of readings from which on throttling in nearly all of them is no moment's: two seconds.
const lasting = 8

// warn notes what of a step's figures somebody should look after: each once.
func (w *watch) warn(t tally, h Hardware) {
	if h.ECCUncorrected != nil && *h.ECCUncorrected > 0 && !w.corrupt {
		w.corrupt = true
		w.note("the hardware counts %.0f uncorrected memory errors since the run was started: bits have changed, and what comes of it is not to be trusted", *h.ECCUncorrected)
	}
	if len(t.gauges) < lasting {
		return
	}
	for _, c := range []struct {
		share *float64
		by    kernels.Holds
		what  string
	}{
		{h.ThrottledHeat, kernels.HeldByHeat, "heat"},
		{h.ThrottledPower, kernels.HeldByPower, "its power limit"},
		{h.ThrottledHardware, kernels.HeldByHardware, "its own circuits, for want of power or cooling as a rule"},
		{h.ThrottledOther, kernels.HeldByOthers, "settings, or other cards"},
	} {
		if c.share == nil || *c.share < 0.9 || w.warned&c.by != 0 {
			continue
		}
		w.warned |= c.by
		at := ""
		if h.Clock != nil && h.Power != nil {
			at = fmt.Sprintf(", at %.0f MHz and %.0f W", *h.Clock, *h.Power)
		}
		w.note("the hardware was held back through a whole step by %s%s; later steps are not reported, the figures have them (throttled)", c.what, at)
	}
}
