package trainer

import (
	"encoding/json"
	"fmt"
	"slices"

	"tandem/trainer/run"
)

// A Best is the full state of a run that did best.
//
// Where held-out problems are scored during the run (evaluation.every), it is the one whose samples, not the greedy
// replies, have the highest mean reward; weights that are the best so far are saved in full as soon as they are scored.
// Elsewhere it is the one, of those saved anyway, before which the mean reward of the last checkpoint.every steps on
// rollouts was the highest: one step's reward says little. Of equals it is the earliest. The weights that the rollouts
// began with are no candidate, nor is a state that is no longer there.
type Best struct {
	Step    int // steps done; below 0 if there is none
	Reward  float64
	HeldOut bool // it is the mean over held-out problems
}

// none is no step.
const none = -1

// Record writes an evaluation to the run directory, and a full state of weights that turn out to be the best so far.
func (t *Trainer) Record(ev Evaluation) error {
	if t.dir == nil {
		return nil
	}
	if err := t.dir.Append(evaluationsFile, ev); err != nil {
		return err
	}
	if ev.Greedy || !t.recipe.Checkpoint.Best || ev.Step <= t.recipe.Warmup.Steps || t.recipe.Evaluation.Every == 0 {
		return nil
	}
	states, err := t.dir.States()
	if err != nil {
		return err
	}
	best, err := findBest(t.dir, t.recipe, append(states, t.step))
	if err != nil || best.Step != t.step {
		return err
	}
	return t.Save()
}

// FindBest is the best full state that a run has.
func FindBest(dir *run.Dir, r Recipe) (Best, error) {
	states, err := dir.States()
	if err != nil {
		return Best{Step: none}, err
	}
	return findBest(dir, r, states)
}

func findBest(dir *run.Dir, r Recipe, candidates []int) (Best, error) {
	best := Best{Step: none}
	note := func(step int, reward float64, heldOut bool) {
		if best.Step == none || reward > best.Reward {
			best = Best{step, reward, heldOut}
		}
	}
	if r.Evaluation.Every > 0 {
		err := dir.ReadLines(evaluationsFile, func(line []byte) error {
			var ev Evaluation
			err := json.Unmarshal(line, &ev)
			if !ev.Greedy && ev.Step > r.Warmup.Steps && slices.Contains(candidates, ev.Step) {
				note(ev.Step, ev.Reward, true)
			}
			return err
		})
		if err != nil || best.Step != none {
			return best, err
		}
	}
	rewards, err := stepRewards(dir, r)
	if err != nil {
		return best, err
	}
	slices.Sort(candidates)
	for _, step := range candidates {
		first := max(0, step-r.Warmup.Steps-r.Checkpoint.Every)
		if last := step - r.Warmup.Steps; last > first && last <= len(rewards) {
			note(step, meanOf(rewards[first:last]), false)
		}
	}
	return best, nil
}

// stepRewards are those of the steps on rollouts, in order.
func stepRewards(dir *run.Dir, r Recipe) ([]float64, error) {
	var rewards []float64
	err := dir.ReadLines(metricsFile, func(line []byte) error {
		var m struct {
			Step   int      `json:"step"`
			Reward *float64 `json:"reward"`
		}
		err := json.Unmarshal(line, &m)
		if err != nil || m.Step < r.Warmup.Steps {
			return err
		}
		if m.Step != r.Warmup.Steps+len(rewards) {
			return fmt.Errorf("step %d follows step %d", m.Step, r.Warmup.Steps+len(rewards)-1)
		}
		reward := 0.0
		if m.Reward != nil {
			reward = *m.Reward
		}
		rewards = append(rewards, reward)
		return nil
	})
	return rewards, err
}

func meanOf(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
