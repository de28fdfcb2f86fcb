package trainer

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"tandem/kernels"
)

// A metered is a CPU whose memory is said to have gone to what usage says.
type metered struct {
	*kernels.CPU
	usage *kernels.Usage
}

func (m metered) Usage() (kernels.Usage, error) {
	if m.usage == nil {
		return kernels.Usage{}, errors.New("the card fell off the bus")
	}
	return *m.usage, nil
}

const gib = 1 << 30

// What the card takes beside the arenas is held to the reserve: both figures, by whom, and what to set where it is tight.
func TestOverrun(t *testing.T) {
	r, c := testRecipe(), testConfig(t)
	r.Model.Context, r.Train.Rows, r.Rollout.Batch, r.Train.Layout = 1024, 1024, 128, layoutOverlap
	on := Machine{Card: &Card{Title: "card"}, GPUs: 1}
	plan := NewPlan(r, c, kernels.BF16, on).settled()
	arenas := plan.Taken()
	for _, test := range []struct {
		name   string
		usage  kernels.Usage
		says   []string
		not    string
		advice bool
	}{
		{"within", kernels.Usage{Free: 1, Taken: arenas, Beyond: gib, Exact: true}, nil, "", false},
		{"with room", kernels.Usage{Free: 20 * gib, Taken: arenas, Beyond: gib * 3 / 2, Exact: true},
			[]string{"has taken 1.50 GiB beside the run's arenas (context, kernels, graphs)", "reserve, which is 1.00 GiB", "20.00 GiB are free, so that nothing has to be set"}, "other processes", false},
		{"without room", kernels.Usage{Free: 500 << 20, Taken: arenas, Beyond: gib * 3 / 2, Exact: true},
			[]string{"has taken 1.50 GiB", "which is 1.00 GiB", "only 500.0 MiB are free: --set rollout.pages="}, "other processes", true},
		{"by whom is not known", kernels.Usage{Free: 20 * gib, Taken: arenas, Beyond: gib * 3 / 2},
			[]string{"1.50 GiB of the card are gone", "other processes", "can't be told apart", "which is 1.00 GiB"}, "the card has taken", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := plan.overrun(test.usage)
			for _, s := range test.says {
				if !strings.Contains(got, s) {
					t.Errorf("%q is not in %q", s, got)
				}
			}
			if len(test.says) == 0 && got != "" || test.not != "" && strings.Contains(got, test.not) {
				t.Errorf("it says %q", got)
			}
			if !test.advice {
				return
			}
			m := regexp.MustCompile(`rollout\.pages=\d+`).FindString(got)
			smaller, err := ParseRecipe(r.TOML(), m)
			if err != nil {
				t.Fatal(err)
			}
			p := NewPlan(smaller, c, kernels.BF16, on)
			room := test.usage.Ours() - test.usage.Beyond - p.Taken() // after the advice was taken
			if room < laterReserve {
				t.Errorf("%s leaves %d bytes, want %d", m, room, laterReserve)
			}
			smaller.Rollout.Pages++
			if more := test.usage.Ours() - test.usage.Beyond - NewPlan(smaller, c, kernels.BF16, on).Taken(); more >= laterReserve {
				t.Errorf("%s is less than has to be: one page more leaves %d bytes", m, more)
			}
		})
	}
}

// A run measures after each step, tells once, and does without where the device does not tell.
func TestRunMeasuresBeyond(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps, r.Train.Steps = 1, 4
	dev := metered{CPU: cpu(t), usage: &kernels.Usage{Free: gib, Beyond: 700 << 20, Exact: true}}
	tr := newTestTrainerOn(t, dev, r, nil)
	defer tr.Close()
	for i, step := range []struct {
		beyond int
		says   []string
	}{
		{600 << 20, nil}, // a warm-up, which records no decoding
		{800 << 20, []string{"after a first step of everything: 0.0 KiB in arenas, as planned, and 800.0 MiB beside them (context, kernels, graphs), of 1.18 GiB in reserve"}},
		{2 << 30, []string{"has taken 2.00 GiB"}},
		{3 << 30, nil},
		{-1, nil},
	} {
		if dev.usage.Beyond = step.beyond; step.beyond < 0 {
			*dev.usage = kernels.Usage{}
		}
		m, err := tr.Step(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if m.MemoryBeyond == nil || *m.MemoryBeyond != float64(max(step.beyond, 0)) {
			t.Errorf("step %d: the figure is %v", i, m.MemoryBeyond)
		}
		remarks(tr.Notes()).are(t, step.says...)
	}
}

func TestMachineIsWhatOthersLeave(t *testing.T) {
	u := kernels.Usage{Free: 60 * gib, Taken: 10 * gib, Beyond: 700 << 20, Exact: true}
	dev := metered{CPU: cpu(t), usage: &u}
	on := MachineOf(dev).On(dev, u.Free)
	if on.Free != 70*gib+700<<20 || on.Reserve != (700+512)<<20 {
		t.Errorf("%d bytes, %d in reserve", on.Free, on.Reserve)
	}
	u.Beyond = 100 << 20
	if on = MachineOf(dev); on.Reserve != gib {
		t.Errorf("%d bytes in reserve", on.Reserve)
	}
	dev.usage = nil
	if on = MachineOf(dev).On(dev, 5); on.Free != 5 || on.Reserve != 0 {
		t.Errorf("of a device that does not tell: %+v", on)
	}
	if on = MachineOf(cpu(t)).On(cpu(t), 7); on.Free != 7 || on.Reserve != 0 {
		t.Errorf("of the CPU: %+v", on)
	}
}
