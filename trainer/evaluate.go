package trainer

import "context"

// An Evaluation is a score on held-out problems.
type Evaluation struct {
	Step      int        `json:"step"`
	Problems  int        `json:"problems"`
	Samples   int        `json:"samples"`  // of each
	Greedy    bool       `json:"greedy"`   // one reply each, the most probable token every time
	Reward    float64    `json:"reward"`   // mean
	Accuracy  float64    `json:"accuracy"` // share of replies with a reward above 0
	Length    float64    `json:"length"`   // sampled tokens of a reply, mean
	Truncated float64    `json:"truncated"`
	Called    float64    `json:"called,omitempty"`       // share of replies that called a tool
	Calls     float64    `json:"calls,omitempty"`        // of a reply, mean
	Failed    float64    `json:"failed_calls,omitempty"` // share of calls that were not answered as asked
	Replies   []Rendered `json:"replies,omitempty"`
}

// Evaluate scores the first held-out problems with the weights as they are: by samples of the training distribution, or
// greedily. shown replies come back as text.
func (t *Trainer) Evaluate(ctx context.Context, greedy bool, shown int) (Evaluation, error) {
	r := t.recipe
	problems := t.task.HeldOut[:min(r.Evaluation.Problems, len(t.task.HeldOut))]
	s, samples := t.sampling(), r.Evaluation.Samples
	if greedy {
		s.Params.Temperature, samples = 0, 1
	}
	done := 0
	groups, err := t.roller.play(ctx, problems, samples, s, func(p, g int) uint64 {
		return memberSeed(r.Seed, t.step, p, g, drawEvaluation)
	}, func(*Rollout) {
		done++
		t.notify(Progress{"evaluation", done, len(problems) * samples})
	})
	if err != nil {
		return Evaluation{}, err
	}
	ev := Evaluation{Step: t.step, Problems: len(problems), Samples: samples, Greedy: greedy}
	var use ToolUse
	use.use(groups)
	ev.Called, ev.Calls = use.Called, use.CallsEach
	ev.Failed = float64(use.Failed()) / float64(max(use.Calls, 1))
	for p, group := range groups {
		for _, ro := range group {
			n := float64(len(problems) * samples)
			ev.Reward += float64(ro.Reward) / n
			ev.Length += float64(ro.Sampled()) / n
			if ro.Reward > 0 {
				ev.Accuracy += 1 / n
			}
			if ro.Truncated() {
				ev.Truncated += 1 / n
			}
		}
		if p < shown {
			ev.Replies = append(ev.Replies, t.render(problems[p], group[0]))
		}
	}
	return ev, nil
}
