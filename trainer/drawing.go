package trainer

import (
	"maps"

	"tandem/kernels"
	"tandem/trainer/env"
)

// A drawing is where a run stands among its problems: what decides which ones come next. It changes at the end of a step,
// by the step's log alone.
type drawing struct {
	At    int          `json:"at"`              // places of the endless order gone past
	First []int        `json:"first,omitempty"` // problems that come before the order goes on
	Rests map[int]rest `json:"rests,omitempty"` // by problem
}

// A rest is that of a problem whose samples did not differ: after the first time it is passed over once, after the second
// in a row 3 times, then 7, 15, ..., at most rollout.rest times. It is never given up, and the first difference ends it.
type rest struct {
	Streak int `json:"streak"` // times in a row without a difference
	Until  int `json:"until"`  // the pass over the data in which it is drawn again
}

// A draw is a problem for rollouts.
type draw struct {
	problem int // its place in the task
	pass    int // over the data
}

// An Outcome is what the samples of one problem came to.
type Outcome struct {
	Problem, Pass   int     // as drawn
	Samples, Passed int     // Passed: with a reward above 0
	Reward          float32 // summed
	Mixed           bool    // the rewards differ
}

// next takes n problems of N: first those that come first, then the data in an order drawn anew for every pass, without
// those at rest. rested is how often one was passed over.
func (d *drawing) next(seed uint64, N, n int) (draws []draw, rested int) {
	pass, order := -1, []int(nil)
	for len(draws) < n {
		if len(d.First) > 0 {
			draws = append(draws, draw{d.First[0], d.At / N})
			d.First = d.First[1:]
			continue
		}
		if e := d.At / N; e != pass {
			pass, order = e, permutation(seed, e, N)
		}
		p := order[d.At%N]
		d.At++
		if d.Rests[p].Until > pass {
			rested++
			continue
		}
		draws = append(draws, draw{p, pass})
	}
	return draws, rested
}

// after is where a run stands after a step. most is rollout.rest.
func (d drawing) after(log *StepLog, most int) drawing {
	next := drawing{At: log.Drawn, First: log.First, Rests: maps.Clone(d.Rests)}
	if next.Rests == nil {
		next.Rests = make(map[int]rest)
	}
	for _, o := range log.Outcomes {
		if o.Mixed || most == 0 {
			delete(next.Rests, o.Problem)
			continue
		}
		streak := next.Rests[o.Problem].Streak + 1
		next.Rests[o.Problem] = rest{streak, o.Pass + 1 + min(1<<min(streak, 30)-1, most)}
	}
	return next
}

// rests is rollout.rest where a group whose rewards are equal teaches nothing; elsewhere 0.
func (r Recipe) rests() int {
	if r.Rollout.Samples < 2 || r.Algorithm.Name == "reinforce++" || r.Teacher.Dir != "" {
		return 0
	}
	return r.Rollout.Rest
}

// permutation of n by Fisher and Yates.
func permutation(seed uint64, pass, n int) []int {
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	for i := n - 1; i > 0; i-- {
		j := int(kernels.Seed(seed, uint32(pass), uint32(i), 0, drawProblems) % uint64(i+1))
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// problems are those of draws.
func (t *Trainer) problems(draws []draw) []env.Problem {
	out := make([]env.Problem, len(draws))
	for i, d := range draws {
		out[i] = t.task.Problems[d.problem]
	}
	return out
}
