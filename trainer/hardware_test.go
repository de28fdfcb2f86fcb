package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/kernels"
)

// A gauged is a CPU beneath which there is hardware that tells.
type gauged struct {
	*kernels.CPU
	m   kernels.Monitor
	err error
}

func (g gauged) Monitor() (kernels.Monitor, error) { return g.m, g.err }

// A fakeMonitor tells the same gauges all the time, and counts up with every reading. stuck, if it is set, is waited for.
type fakeMonitor struct {
	gauges   kernels.Gauges
	counters kernels.Counters
	stuck    chan struct{}
	closed   int
}

func (f *fakeMonitor) Gauges() kernels.Gauges {
	if f.stuck != nil {
		<-f.stuck
	}
	return f.gauges
}

func (f *fakeMonitor) Counters() kernels.Counters {
	c := f.counters
	f.counters.Energy += 100
	return c
}

func (f *fakeMonitor) Close() { f.closed++ }

// busy is a card at its power limit.
func busy() kernels.Gauges {
	return kernels.Gauges{Power: 650.5, Clock: 1500, MemoryClock: 3201, Temperature: 61, Memory: 1 << 37, Held: kernels.HeldByPower, HeldKnown: true}
}

func silent() (kernels.Gauges, kernels.Counters) {
	n := math.NaN()
	return kernels.Gauges{Power: n, Clock: n, MemoryClock: n, Temperature: n, Memory: n}, kernels.Counters{Energy: n, Uncorrected: n, Corrected: n}
}

// remarks are the notes of a test.
type remarks []string

func (s *remarks) note(format string, args ...any) { *s = append(*s, fmt.Sprintf(format, args...)) }

func (s remarks) are(t *testing.T, want ...string) {
	t.Helper()
	if len(s) != len(want) {
		t.Fatalf("the notes are %q, want %q", s, want)
	}
	for i, w := range want {
		if !strings.Contains(s[i], w) {
			t.Errorf("a note says %q, want %q", s[i], w)
		}
	}
}

// figuresOf are the hardware's figures in a line of metrics.jsonl.
func figuresOf(t *testing.T, h Hardware) map[string]float64 {
	t.Helper()
	b, err := json.Marshal(Metrics{Hardware: h})
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b, &all); err != nil {
		t.Fatal(err)
	}
	b, err = json.Marshal(Metrics{})
	if err != nil {
		t.Fatal(err)
	}
	var others map[string]any
	if err := json.Unmarshal(b, &others); err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for name, v := range all {
		if _, ok := others[name]; !ok {
			out[name] = v.(float64)
		}
	}
	return out
}

func TestHardwareFigures(t *testing.T) {
	unknown, none := silent()
	hot := busy()
	hot.Power, hot.Clock, hot.Temperature, hot.Held, hot.Memory = 349.5, 500, 90, kernels.HeldByHeat|kernels.HeldByHardware, 1<<36
	free := busy()
	free.Held = 0
	for _, c := range []struct {
		name    string
		tally   tally
		sampled int
		want    map[string]float64
	}{
		{"nothing was read", tally{}, 5, map[string]float64{}},
		{"nothing is told", tally{[]kernels.Gauges{unknown, unknown}, none, none}, 5, map[string]float64{}},
		{
			"all is told",
			tally{[]kernels.Gauges{busy(), hot, free, unknown}, kernels.Counters{Energy: 1000, Uncorrected: 4}, kernels.Counters{Energy: 1500, Uncorrected: 4, Corrected: 7}}, 250,
			map[string]float64{
				"power": (650.5 + 349.5 + 650.5) / 3, "power_max": 650.5, "clock": 3500.0 / 3, "memory_clock": 3201, "temperature": 90, "memory_card": 1 << 37,
				"throttled": 2.0 / 3, "throttled_power": 1.0 / 3, "throttled_heat": 1.0 / 3, "throttled_hardware": 1.0 / 3, "throttled_other": 0,
				"energy": 500, "energy_per_token": 2, "ecc_uncorrected": 1, "ecc_corrected": 5,
			},
		},
		{
			"counters that went back, no samples",
			tally{[]kernels.Gauges{unknown}, kernels.Counters{Energy: 1000, Uncorrected: 4}, kernels.Counters{Energy: 10}}, 0, map[string]float64{},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			var s remarks
			w := &watch{note: s.note, first: kernels.Counters{Uncorrected: 3, Corrected: 2}}
			if diff := cmp.Diff(c.want, figuresOf(t, w.hardware(c.tally, c.sampled))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A run on hardware that tells has the bits and the other figures of one whose hardware does not, in which nothing is said of it.
func TestHardwareDecidesNothing(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps, r.Train.Steps = 1, 2
	plain := newTestTrainerOn(t, cpu(t), r, nil)
	defer plain.Close()
	m := &fakeMonitor{gauges: busy(), counters: kernels.Counters{Energy: 7, Corrected: 3}}
	watched := newTestTrainerOn(t, gauged{CPU: cpu(t), m: m}, r, nil)
	for range r.Steps() {
		want, err := plain.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if f := figuresOf(t, want.Hardware); len(f) > 0 {
			t.Errorf("the CPU tells %v", f)
		}
		got, err := watched.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		figures := figuresOf(t, got.Hardware)
		if figures["power"] != 650.5 || figures["clock"] != 1500 || figures["energy"] != 100 || figures["throttled_power"] != 1 || figures["ecc_corrected"] != 0 {
			t.Errorf("the figures are %v", figures)
		}
		if e, ok := figures["energy_per_token"]; ok != (got.Stage == "grpo") || ok && e != 100/float64(got.Sampled) {
			t.Errorf("step %d, %s: %v J a token, of %d", got.Step, got.Stage, e, got.Sampled)
		}
		if diff := cmp.Diff(timeless(want), timeless(got), cmp.AllowUnexported(Metrics{})); diff != "" {
			t.Error(diff)
		}
	}
	sameState(t, weightsOf(t, watched), weightsOf(t, plain), "with a monitor")
	if err := watched.Close(); err != nil || m.closed != 1 {
		t.Errorf("%v, closed %d times", err, m.closed)
	}
}

// What hardware does not tell is said once, and no step fails of it.
func TestHardwareThatDoesNotTell(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps, r.Warmup.Samples, r.Train.Steps = 3, 4, 0
	g, c := silent()
	for _, test := range []struct {
		name   string
		dev    gauged
		says   []string
		closed int
	}{
		{"no hardware", gauged{}, nil, 0},
		{"no library", gauged{err: errors.New("the library is not there")}, []string{"left out of the figures: the library is not there"}, 0},
		{"silent", gauged{m: &fakeMonitor{gauges: g, counters: c}}, []string{"tells neither clocks"}, 1},
		{"stuck", gauged{m: &fakeMonitor{stuck: make(chan struct{})}}, []string{"does not answer"}, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.dev.CPU = cpu(t)
			tr := newTestTrainerOn(t, test.dev, r, nil)
			tr.watch.patience = time.Millisecond
			if test.name == "silent" {
				tr.watch.patience = time.Minute
			}
			for range r.Steps() {
				m, err := tr.Step(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if f := figuresOf(t, m.Hardware); len(f) > 0 {
					t.Errorf("figures %v", f)
				}
			}
			remarks(tr.Notes()).are(t, test.says...)
			remarks(tr.Notes()).are(t)
			if err := tr.Close(); err != nil {
				t.Error(err)
			}
			if m, ok := test.dev.m.(*fakeMonitor); ok {
				if m.closed != test.closed {
					t.Errorf("closed %d times, want %d", m.closed, test.closed)
				}
				if m.stuck != nil {
					close(m.stuck)
				}
			}
		})
	}
}

// Throttling is worth a line where it lasts through a step, once for every reason.
func TestThrottlingIsSaidOnce(t *testing.T) {
	var s remarks
	w := &watch{note: s.note}
	step := func(n, held int, by kernels.Holds, ecc float64) {
		t := tally{begin: kernels.Counters{}, end: kernels.Counters{Uncorrected: ecc}}
		for i := range n {
			g := busy()
			if g.Held = 0; i < held {
				g.Held = by
			}
			t.gauges = append(t.gauges, g)
		}
		w.warn(t, w.hardware(t, 0))
	}
	step(lasting-1, lasting-1, kernels.HeldByPower, 0)
	step(20, 17, kernels.HeldByPower, 0)
	s.are(t)
	step(20, 18, kernels.HeldByPower, 0)
	step(20, 20, kernels.HeldByPower, 0)
	s.are(t, "by its power limit, at 1500 MHz and 650 W;")
	step(20, 20, kernels.HeldByPower|kernels.HeldByHeat, 2)
	step(20, 20, kernels.HeldByHeat, 3)
	s.are(t, "power limit", "2 uncorrected memory errors", "by heat")
}
