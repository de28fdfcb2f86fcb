package trainer

import (
	"slices"

	"tandem/trainer/env"
)

// Rendered is an episode as text.
type Rendered struct {
	Step    int     `json:"step"`
	Shown   string  `json:"shown,omitempty"` // why: first, best, worst or truncated of its step
	ID      int     `json:"id"`              // of the problem
	Problem string  `json:"problem"`
	Prompt  string  `json:"prompt"` // the problem in its template
	Reply   string  `json:"reply"`  // what came after the prompt, tool replies included
	Answer  string  `json:"answer"`
	Reward  float32 `json:"reward"`
	Reason  string  `json:"reason"`
	Stop    string  `json:"stop"`
	End     string  `json:"end,omitempty"` // what ended it: answered, no_answer, truncated, too_many_calls
	Tokens  int     `json:"tokens"`        // sampled

	Conversation []Said `json:"conversation,omitempty"` // the reply turn by turn, where it has several
}

func (t *Trainer) render(p env.Problem, r *Rollout) Rendered {
	prompt := r.Spans[0][0]
	worth, reason := r.Reward, r.Reason
	if isNaN(worth) {
		worth, reason = 0, "the reward is missing"
	}
	return Rendered{
		Step: t.step, ID: p.ID, Problem: p.Text, Prompt: t.task.Text(r.Tokens[:prompt]), Reply: t.task.Text(r.Tokens[prompt:]), Answer: p.Answer,
		Reward: worth, Reason: reason, Stop: r.Stop, End: string(r.End), Tokens: r.Sampled(),
		Conversation: conversation(r, t.task.Text),
	}
}

// show writes a few of a step's replies where a person can read them: the first, the best, the worst and one that a limit
// ended, each once, under the first of these names that it has. Of equals it is the one that comes first.
func (t *Trainer) show(log *StepLog) error {
	if t.dir == nil || t.task.Text == nil {
		return nil
	}
	type choice struct {
		why     string
		problem env.Problem
		rollout *Rollout
	}
	var first, best, worst, cut choice
	for _, g := range log.Groups {
		for _, r := range g.Rollouts {
			if first.rollout == nil {
				first = choice{"first", g.Problem, r}
			}
			if !isNaN(r.Reward) && (best.rollout == nil || r.Reward > best.rollout.Reward) {
				best = choice{"best", g.Problem, r}
			}
			if !isNaN(r.Reward) && (worst.rollout == nil || r.Reward < worst.rollout.Reward) {
				worst = choice{"worst", g.Problem, r}
			}
			if cut.rollout == nil && r.Truncated() {
				cut = choice{"truncated", g.Problem, r}
			}
		}
	}
	var shown []*Rollout
	for _, c := range []choice{best, worst, cut, first} {
		if c.rollout == nil || slices.Contains(shown, c.rollout) {
			continue
		}
		shown = append(shown, c.rollout)
		text := t.render(c.problem, c.rollout)
		text.Shown = c.why
		if err := t.dir.Append(rolloutsFile, text); err != nil {
			return err
		}
	}
	return nil
}
