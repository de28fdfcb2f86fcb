package trainer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"tandem/trainer/env"
	"tandem/trainer/run"
)

// A rolloutRow is a line of a file of rollouts: one sample, ours or another program's. The lines of a group, the samples
// of one prompt, follow each other, and so do the groups of a step.
type rolloutRow struct {
	Step     *int     `json:"step,omitempty"`    // ascending; in all lines or in none: then a step takes rollout.prompts groups
	Group    *int     `json:"group"`             // its number in the step
	Problem  int      `json:"problem,omitempty"` // its row in the data
	Tokens   []int32  `json:"tokens"`            // prompt, sampled tokens, and what the model was told in between
	Spans    [][2]int `json:"spans"`             // [from, to) in tokens: what was sampled. Nothing else carries loss
	LogProbs Floats   `json:"logprobs"`          // of the tokens in spans, in order, under what sampled them
	Reward   worth    `json:"reward"`            // null: missing
	Process  Floats   `json:"process,omitempty"` // rewards along the way, per token in spans, null for none
	Stop     string   `json:"stop,omitempty"`    // stop or length: why the last turn ended
	End      env.End  `json:"end,omitempty"`     // truncated, answered, ...: what ended the episode; "" leaves it to stop
	Reason   string   `json:"reason,omitempty"`  // of the reward
}

// Floats are float32 that print so that they read back to the same bits. What JSON has no number for is null, and null is
// NaN.
type Floats []float32

// A worth is a reward that has to be said.
type worth struct {
	value float32
	said  bool
}

func appendFloat(b []byte, x float32) []byte {
	if math.IsNaN(float64(x)) || math.IsInf(float64(x), 0) {
		return append(b, "null"...)
	}
	return strconv.AppendFloat(b, float64(x), 'g', -1, 32)
}

// MarshalJSON writes a number or null.
func (w worth) MarshalJSON() ([]byte, error) { return appendFloat(nil, w.value), nil }

// UnmarshalJSON reads a number or null.
func (w *worth) UnmarshalJSON(b []byte) error {
	var f Floats
	err := f.UnmarshalJSON(slices.Concat([]byte{'['}, b, []byte{']'}))
	if err == nil {
		*w = worth{f[0], true}
	}
	return err
}

// MarshalJSON writes a list of numbers and nulls.
func (f Floats) MarshalJSON() ([]byte, error) {
	b := []byte{'['}
	for i, x := range f {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendFloat(b, x)
	}
	return append(b, ']'), nil
}

// UnmarshalJSON reads what MarshalJSON writes. A number that no float32 holds is an error.
func (f *Floats) UnmarshalJSON(b []byte) error {
	var numbers []*json.Number
	if err := json.Unmarshal(b, &numbers); err != nil {
		return err
	}
	*f = make(Floats, len(numbers))
	for i, n := range numbers {
		(*f)[i] = missing
		if n == nil {
			continue
		}
		x, err := strconv.ParseFloat(string(*n), 32)
		if err != nil {
			return err
		}
		(*f)[i] = float32(x)
	}
	return nil
}

// check says what is wrong with a row.
func (row *rolloutRow) check(l importLimits) error {
	switch {
	case row.Group == nil:
		return errors.New("there is no group")
	case len(row.Tokens) == 0:
		return errors.New("there are no tokens")
	case len(row.Tokens) > l.context:
		return fmt.Errorf("%d tokens exceed model.context, %d", len(row.Tokens), l.context)
	case len(row.Spans) == 0:
		return errors.New("there are no spans: which of the tokens were sampled")
	case !row.Reward.said:
		return errors.New("there is no reward (null says that it is missing)")
	}
	for i, t := range row.Tokens {
		if t < 0 || int(t) >= l.vocab {
			return fmt.Errorf("token %d is %d, want 0 to %d", i, t, l.vocab-1)
		}
	}
	end := 1 // nothing predicts the first token
	for i, s := range row.Spans {
		if s[0] < end || s[1] <= s[0] || s[1] > len(row.Tokens) {
			return fmt.Errorf("span %d is [%d, %d], want at least a token, from %d to at most %d", i, s[0], s[1], end, len(row.Tokens))
		}
		end = s[1]
		for j := s[0]; j < s[1]; j++ {
			if int(row.Tokens[j]) >= l.live {
				return fmt.Errorf("token %d is %d, which cannot be sampled: want 0 to %d", j, row.Tokens[j], l.live-1)
			}
		}
	}
	n := covered(row.Spans)
	switch {
	case n > l.maxTokens:
		return fmt.Errorf("%d sampled tokens exceed rollout.max_tokens, %d", n, l.maxTokens)
	case len(row.LogProbs) != n:
		return fmt.Errorf("there are %d logprobs, and %d tokens in spans", len(row.LogProbs), n)
	case row.Process != nil && len(row.Process) != n:
		return fmt.Errorf("there are %d process rewards, and %d tokens in spans", len(row.Process), n)
	}
	for i, x := range row.LogProbs {
		if !(x <= maxLogProb) || math.IsInf(float64(x), 0) {
			return fmt.Errorf("logprob %d is %v, want a number of at most 0", i, x)
		}
	}
	return nil
}

// maxLogProb is what rounding can make of the logarithm of 1.
const maxLogProb = 1e-3

func (row *rolloutRow) rollout() *Rollout {
	return &Rollout{
		Problem: row.Problem, Tokens: row.Tokens, Spans: row.Spans, LogProbs: row.LogProbs, Reward: row.Reward.value,
		Process: row.Process, Stop: row.Stop, End: row.End, Reason: row.Reason, Imported: true,
	}
}

// WriteRollouts writes what a run was trained on, from the logs of its steps, in the form that data.rollouts reads. It
// returns the number of samples.
func WriteRollouts(w io.Writer, dir *run.Dir, steps int) (n int, err error) {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	for step := range steps {
		log := &StepLog{}
		if there, err := dir.ReadStep(step, log); err != nil {
			return n, err
		} else if !there {
			continue // of the warm-up
		}
		for i, g := range log.Groups {
			for _, r := range g.Rollouts {
				row := rolloutRow{
					Step: &step, Group: &i, Problem: r.Problem, Tokens: r.Tokens, Spans: r.Spans, LogProbs: r.LogProbs,
					Reward: worth{r.Reward, true}, Process: r.process(), Stop: r.Stop, End: r.End, Reason: r.Reason,
				}
				if err := e.Encode(row); err != nil {
					return n, fmt.Errorf("rollouts of step %d: %w", step, err)
				}
				n++
			}
		}
	}
	return n, nil
}
