package trainer

import (
	"context"
	"errors"
	"time"

	"tandem/kernels"
	"tandem/trainer/env"
)

// A StepLog is what a step was trained on: enough to train it again without sampling.
type StepLog struct {
	Groups []Group
	Drawn  int // problems drawn by the run, those of this step included

	Outcomes []Outcome // of all groups drawn in this step, in order

	// What dynamic sampling threw away, which nothing was learnt from.
	Discarded       int // groups
	DiscardedTokens int // sampled
}

// An Outcome is what the samples of one problem came to.
type Outcome struct {
	Samples, Passed int     // Passed: with a reward above 0
	Reward          float32 // summed
	Mixed           bool    // the rewards differ
}

// A Group is the episodes of one problem.
type Group struct {
	Problem  env.Problem
	Rollouts []*Rollout
}

func (l *StepLog) groups() [][]*Rollout {
	out := make([][]*Rollout, len(l.Groups))
	for p, g := range l.Groups {
		out[p] = g.Rollouts
	}
	return out
}

// mixed says that the rewards differ, so that the group can teach.
func (g Group) mixed() bool {
	for _, r := range g.Rollouts {
		if r.Reward != g.Rollouts[0].Reward {
			return true
		}
	}
	return false
}

func (g Group) outcome() Outcome {
	o := Outcome{Samples: len(g.Rollouts), Mixed: g.mixed()}
	for _, r := range g.Rollouts {
		if r.Reward > 0 {
			o.Passed++
		}
		if !isNaN(r.Reward) {
			o.Reward += r.Reward
		}
	}
	return o
}

// rollouts gives the replies of this step: from its log if it was sampled before, else sampled and logged.
func (t *Trainer) rollouts(ctx context.Context, m *Metrics) (*StepLog, error) {
	log := &StepLog{}
	if t.dir != nil {
		if logged, err := t.dir.ReadStep(t.step, log); logged || err != nil {
			m.Replayed = logged
			return log, err
		}
	}
	begun := time.Now()
	t.roller.clock.reset() // an evaluation's
	before := t.roller.engine.Stats()
	if err := t.sample(ctx, log); err != nil {
		return nil, err
	}
	m.RolloutSeconds = time.Since(begun).Seconds()
	m.engine(before, t.roller.engine.Stats())
	alone, summed := t.roller.clock.reset()
	m.GradingSeconds, m.EnvironmentSeconds = alone.Seconds(), summed.Seconds()
	m.EngineIdle = m.GradingSeconds / max(m.RolloutSeconds, 1e-9)
	if t.dir != nil {
		defer clocked(&m.SavingSeconds)()
		return log, t.logStep(log)
	}
	return log, nil
}

// sample fills the log of a step. Until that is written, the journal has what was sampled.
func (t *Trainer) sample(ctx context.Context, log *StepLog) error {
	if t.dir == nil {
		return t.fill(ctx, log)
	}
	j, err := openJournal(t.dir, t.step)
	if err != nil {
		return err
	}
	t.roller.journal = j
	defer func() { t.roller.journal = nil }()
	return errors.Join(t.fill(ctx, log), j.file.Close())
}

// logStep writes the log of a step, which takes the place of its journal.
func (t *Trainer) logStep(log *StepLog) error {
	if err := t.dir.WriteStep(t.step, log); err != nil {
		return err
	}
	return t.dir.RemoveJournal()
}

// fill samples the groups of a step. Under dynamic sampling (DAPO, arXiv:2503.14476) it draws in waves and keeps the first
// groups, in the order drawn, whose rewards differ; after the last wave the first of the others fill what is missing.
func (t *Trainer) fill(ctx context.Context, log *StepLog) error {
	r := t.recipe.Rollout
	want, wave, waves := r.Prompts, r.Prompts, 1
	if r.Dynamic {
		wave, waves = max(r.Prompts, r.OverSampling), r.Waves
	}
	log.Drawn = t.drawn
	var spare []Group
	for w := 0; w < waves && len(log.Groups) < want; w++ {
		problems := t.problems(log.Drawn, wave)
		first := log.Drawn - t.drawn
		log.Drawn += wave
		done := 0
		groups, err := t.roller.play(ctx, problems, r.Samples, t.sampling(), func(p, g int) uint64 {
			return memberSeed(t.recipe.Seed, t.step, first+p, g, drawReplies)
		}, func(*Rollout) {
			done++
			t.notify(Progress{"rollout", done, wave * r.Samples})
		})
		if err != nil {
			return err
		}
		for p, rollouts := range groups {
			g := Group{problems[p], rollouts}
			log.Outcomes = append(log.Outcomes, g.outcome())
			switch {
			case len(log.Groups) < want && (g.mixed() || !r.Dynamic):
				log.Groups = append(log.Groups, g)
			default:
				spare = append(spare, g)
			}
		}
	}
	missing := min(want-len(log.Groups), len(spare))
	log.Groups, spare = append(log.Groups, spare[:missing]...), spare[missing:]
	for _, g := range spare {
		log.Discarded++
		for _, r := range g.Rollouts {
			log.DiscardedTokens += r.Sampled()
		}
	}
	return nil
}

// problems are n of them from the at-th on: the data in an order drawn anew for every pass over it.
func (t *Trainer) problems(at, n int) []env.Problem {
	N := len(t.task.Problems)
	out := make([]env.Problem, n)
	var order []int
	pass := -1
	for i := range out {
		if e := (at + i) / N; e != pass {
			pass, order = e, permutation(t.recipe.Seed, e, N)
		}
		out[i] = t.task.Problems[order[(at+i)%N]]
	}
	return out
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
