package trainer

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"

	"tandem/engine"
)

// Metrics are the figures of a step.
type Metrics struct {
	Step     int    `json:"step"`
	Stage    string `json:"stage"`              // warmup or grpo
	Replayed bool   `json:"replayed,omitempty"` // trained from the log of an earlier process

	Reward     float64 `json:"reward"`      // mean over samples
	PassRate   float64 `json:"pass_rate"`   // share of samples with a reward above 0
	Solved     float64 `json:"solved"`      // share of prompts whose samples all have one
	Unsolved   float64 `json:"unsolved"`    // share of prompts of whose samples none has one
	Length     float64 `json:"length"`      // sampled tokens of a reply, mean
	LengthMax  int     `json:"length_max"`  // of the longest
	Truncated  float64 `json:"truncated"`   // share of replies that a limit ended
	Sampled    int     `json:"sampled"`     // tokens
	Wasted     float64 `json:"wasted"`      // share of sampled tokens that nothing was learnt from
	Discarded  int     `json:"discarded"`   // groups that dynamic sampling threw away
	Advantage  float64 `json:"advantage"`   // mean magnitude
	Loss       float64 `json:"loss"`        // as normalised
	Entropy    float64 `json:"entropy"`     // nats a trained token
	Clipped    float64 `json:"clipped"`     // share of trained tokens at the clip
	Ratio      float64 `json:"ratio"`       // mean of exp(new - old)
	Mismatch   float64 `json:"mismatch"`    // largest |new - old| before the first update of the step: 0
	Trained    int     `json:"trained"`     // tokens
	GradNorm   float64 `json:"grad_norm"`   // before clipping, mean over updates
	GradClip   float64 `json:"grad_clip"`   // after clipping, mean over updates
	LR         float64 `json:"lr"`          //
	Skipped    int     `json:"skipped"`     // updates in a row whose gradient was no number
	Cached     int     `json:"cached"`      // prompt tokens that the cache saved
	Preempted  int     `json:"preempted"`   // sequences sent back to the queue
	PeakPages  int     `json:"peak_pages"`  // in use at once, so far
	EngineRows int     `json:"engine_rows"` // computed by the engine

	Signals
	ToolUse

	Seconds        float64 `json:"seconds"`         // wall time of the step, with what was saved since the step before
	RolloutSeconds float64 `json:"rollout_seconds"` // of it, with what was waited for; 0 if the replies came from the log
	UpdateSeconds  float64 `json:"update_seconds"`  // from rewards to weights
	Spent
	Hardware

	updates int
	sums    sums
}

// MarshalJSON writes null for a figure that is not finite, which JSON has no number for. The order is that of the fields.
func (m Metrics) MarshalJSON() ([]byte, error) {
	b, err := appendFigures([]byte{'{'}, reflect.ValueOf(m))
	return append(b, '}'), err
}

func appendFigures(b []byte, v reflect.Value) ([]byte, error) {
	for field, value := range v.Fields() {
		name, option, _ := strings.Cut(field.Tag.Get("json"), ",")
		if field.Anonymous && name == "" {
			var err error
			if b, err = appendFigures(b, value); err != nil {
				return b, err
			}
			continue
		}
		if name == "" || option == "omitempty" && value.IsZero() {
			continue
		}
		text := []byte("null")
		if x := value; !x.CanFloat() || x.Float()-x.Float() == 0 {
			var err error
			if text, err = json.Marshal(x.Interface()); err != nil {
				return b, err
			}
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(append(strconv.AppendQuote(b, name), ':'), text...)
	}
	return b, nil
}

// sampled notes what the replies were worth. Discarded ones count as sampled and wasted, and in no mean but that of all
// that was drawn; a missing reward counts in none.
func (m *Metrics) sampled(log *StepLog) {
	groups := log.groups()
	m.Discarded = log.Discarded
	m.Sampled, m.WastedTokens = log.DiscardedTokens, log.DiscardedTokens
	m.drawn(log)
	m.use(groups)
	n, rewarded := 0, 0
	for _, group := range groups {
		passed := 0
		for _, r := range group {
			n++
			if !isNaN(r.Reward) {
				rewarded++
				m.Reward += float64(r.Reward)
			}
			if r.Reward > 0 {
				passed++
			}
			m.Length += float64(r.Sampled())
			m.LengthMax = max(m.LengthMax, r.Sampled())
			if r.Age == 0 {
				m.Sampled += r.Sampled()
			}
			if r.Truncated() {
				m.Truncated++
			}
		}
		m.PassRate += float64(passed)
		if passed == len(group) {
			m.Solved++
		}
		if passed == 0 {
			m.Unsolved++
		}
	}
	m.Reward /= float64(max(rewarded, 1))
	for _, mean := range []*float64{&m.PassRate, &m.Length, &m.Truncated} {
		*mean /= float64(n)
	}
	m.Solved /= float64(len(groups))
	m.Unsolved /= float64(len(groups))
}

// advantages notes what the samples of an update will teach.
func (m *Metrics) advantages(samples []*sample) {
	for _, s := range samples {
		if s.inert() {
			m.WastedTokens += s.Sampled()
		}
		m.Advantage += m.noteAdvantages(s.adv) / float64(len(samples))
	}
}

// trained adds a sample's share to sums that updated turns into means.
func (m *Metrics) trained(s *sample, factor float32) {
	m.Loss += float64(s.loss) * float64(s.weight) * float64(factor)
	m.Trained += len(s.new)
	m.Clipped += float64(s.clipped)
	for i, new := range s.new {
		m.Entropy += float64(s.entropy[i])
		if s.old == nil {
			continue
		}
		d := float64(new) - float64(s.old[i])
		m.ratio(d)
		if m.updates == 0 && s.Age == 0 && s.ours == nil {
			m.compared(d)
		}
	}
}

func (m *Metrics) updated(norm float64, lr float32, o *Optimizer) {
	m.updates++
	m.GradNorm += norm
	m.GradClip += min(norm, o.maxNorm)
	m.LR = float64(lr)
	m.Skipped = o.skipped
}

// finish turns sums into means.
func (m *Metrics) finish() {
	if m.updates > 0 {
		m.GradNorm /= float64(m.updates)
		m.GradClip /= float64(m.updates)
		m.Advantage /= float64(m.updates)
		m.Loss /= float64(m.updates)
	}
	if m.Sampled > 0 {
		m.Wasted = float64(m.WastedTokens) / float64(m.Sampled)
	}
	m.finishSignals()
	if m.Trained > 0 {
		n := float64(m.Trained)
		m.Entropy, m.Clipped, m.Ratio = m.Entropy/n, m.Clipped/n, m.Ratio/n
	}
}

func (m *Metrics) engine(before, after engine.Stats) {
	m.EngineRows = after.Rows - before.Rows
	m.Cached = after.Cached - before.Cached
	m.Preempted = after.Preempted - before.Preempted
	m.PeakPages = after.PeakPages
	m.SamplingSeconds = (after.Busy - before.Busy).Seconds()
}
