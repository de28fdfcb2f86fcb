package report

import (
	"slices"

	"tandem/trainer/page"
)

// A panel is a chart of figures that belong together.
type panel struct {
	group, title, note, unit string
	names                    []string // of the figures
	labels                   []string
}

var panels = []panel{
	{"reward", "reward", "mean over the samples of a step", "", []string{"reward", "reward_drawn"}, []string{"trained on", "all drawn"}},
	{"reward", "reward by budget", "what shorter replies would have been worth: a rise of one alone is the cap's", "", []string{"reward", "reward_half", "reward_quarter"}, []string{"all of rollout.max_tokens", "half", "a quarter"}},
	{"reward", "passed", "a reward above 0", "share", []string{"pass_rate", "solved", "unsolved"}, []string{"samples", "prompts solved by all", "prompts solved by none"}},
	{"replies", "reply length", "sampled tokens", "tokens", []string{"length", "length_max"}, []string{"mean", "longest"}},
	{"learning", "gradient norm", "mean over the updates of a step", "", []string{"grad_norm", "grad_clip"}, []string{"before clipping", "after"}},
	{"learning", "advantage", "over trained tokens", "", []string{"advantage_max", "advantage_mean", "advantage_std", "advantage_min"}, []string{"largest", "mean", "deviation", "smallest"}},
	{"learning", "ratio", "exp(new - old) of a trained token", "", []string{"ratio_max", "ratio", "ratio_min"}, []string{"largest", "mean", "smallest"}},
	{"learning", "mismatch", "|new - old| before the first update of a step: 0, or the sampler is not what is trained", "nats", []string{"mismatch", "mismatch_mean"}, []string{"largest", "mean"}},
	{"speed", "tokens per second", "over all of the rollout's or update's time", "", []string{"sampled_per_second", "trained_per_second"}, []string{"sampled", "trained"}},
	{"engine", "pages of the cache", "in use at once, so far", "pages", []string{"pages", "peak_pages"}, []string{"all", "peak"}},
	{"memory", "memory", "", "bytes", []string{"memory_planned", "memory", "memory_resident", "memory_card"}, []string{"planned", "taken from the device", "resident", "in use on the card"}},
	{"hardware", "power", "that the card drew in a step", "W", []string{"power_max", "power"}, []string{"largest", "mean"}},
	{"hardware", "clocks", "mean of a step", "MHz", []string{"clock", "memory_clock"}, []string{"multiprocessors", "memory"}},
	{"hardware", "throttled", "share of a step's readings in which something held the clocks back", "share", []string{"throttled", "throttled_power", "throttled_heat", "throttled_hardware", "throttled_other"}, []string{"all", "power limit", "heat", "hardware", "other"}},
}

func inPanel(name string) bool {
	for _, p := range panels {
		for _, n := range p.names {
			if n == name {
				return true
			}
		}
	}
	return false
}

// chart is the panel of a run; ok is false where the run has none of its figures.
func (p panel) chart(r *Run, stage string) (c page.Chart, ok bool) {
	c = page.Chart{Title: p.title, Note: p.note, Unit: p.unit, XLabel: "step", Smooth: p.unit != "bytes" && p.unit != "pages"}
	for i, name := range p.names {
		x, y := r.Curve(name, stage)
		if !slices.ContainsFunc(y, func(v float64) bool { return v-v == 0 }) {
			continue // the run does not have it
		}
		if i > 0 && len(zeroless(y)) == 0 {
			continue
		}
		if n := len(c.Series); n > 0 && slices.Equal(c.Series[n-1].Y, y) {
			continue // one line would hide the other
		}
		c.Series = append(c.Series, page.Series{Name: p.labels[i], X: x, Y: y})
	}
	return c, len(c.Series) > 0
}

// zeroless are the values of a figure that was ever set.
func zeroless(y []float64) []float64 {
	var out []float64
	for _, v := range y {
		if v-v == 0 && v != 0 {
			out = append(out, v)
		}
	}
	return out
}
