package trainer

import (
	"context"
	"errors"
	"slices"
	"time"

	"tandem/trainer/env"
)

// A StepLog is what a step was trained on: enough to train it again without sampling.
type StepLog struct {
	Groups []Group
	Drawn  int // places of the order of problems that the run has gone past, those of this step included

	Outcomes []Outcome // of all groups drawn in this step, in order
	Rested   int       // problems passed over
	First    []int     // problems that the next step draws first
	Surplus  []Group   // sampled in this step, for the next one

	// What dynamic sampling threw away, which nothing was learnt from.
	Discarded       int // groups
	DiscardedTokens int // sampled
	StoppedEarly    int // of the groups, those without all their samples
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

// mixed says that the rewards differ, of the whole or along the way, so that the group can teach. Missing ones differ from
// none.
func (g Group) mixed() bool {
	var whole, process []float32
	for _, r := range g.Rollouts {
		whole, process = append(whole, r.Reward), append(process, r.Process...)
	}
	_, differs, _ := moments(whole)
	_, differ, _ := moments(process)
	return differs != 0 || differ != 0
}

func (g Group) outcome(d draw) Outcome {
	o := Outcome{Problem: d.problem, Pass: d.pass, Samples: len(g.Rollouts), Mixed: g.mixed()}
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
	if t.imported != nil {
		return t.take(log)
	}
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
	wave, waves := r.Prompts, 1
	if r.Dynamic {
		wave, waves = max(r.Prompts, r.OverSampling), r.Waves
	}
	log.Groups = slices.Clone(t.carried)
	at := t.drawing
	var surplus, spare []Group // surplus: their rewards differ, too
	var again []int            // the problems of surplus
	for w := 0; w < waves && len(log.Groups) < r.Prompts; w++ {
		draws, rested := at.next(t.recipe.Seed, len(t.task.Problems), wave)
		log.Rested += rested
		groups, err := t.wave(ctx, t.problems(draws), w*wave)
		if err != nil {
			return err
		}
		for i, g := range groups {
			o := g.outcome(draws[i])
			log.Outcomes = append(log.Outcomes, o)
			switch {
			case !r.Dynamic || o.Mixed && len(log.Groups) < r.Prompts:
				log.Groups = append(log.Groups, g)
			case o.Mixed:
				surplus, again = append(surplus, g), append(again, draws[i].problem)
			default:
				spare = append(spare, g)
			}
			if len(g.Rollouts) < r.Samples {
				log.StoppedEarly++
			}
		}
	}
	missing := min(r.Prompts-len(log.Groups), len(spare))
	log.Groups, spare = append(log.Groups, spare[:missing]...), spare[missing:]
	log.Drawn, log.First = at.At, at.First
	switch r.Carry {
	case "prompts":
		log.First = append(slices.Clone(again), at.First...)
	case "groups":
		n := min(len(surplus), r.Prompts)
		log.Surplus, surplus = surplus[:n:n], surplus[n:]
	}
	for _, g := range slices.Concat(surplus, spare) {
		log.Discarded++
		for _, r := range g.Rollouts {
			log.DiscardedTokens += r.Sampled()
		}
	}
	return nil
}

// wave samples the groups of problems, which are the first-th and on of the step. Where the recipe asks for it, a group
// whose first samples have equal rewards gets no more of them.
func (t *Trainer) wave(ctx context.Context, problems []env.Problem, first int) ([]Group, error) {
	r := t.recipe.Rollout
	begin := r.Samples
	if r.EarlyStop > 0 {
		begin = r.EarlyStop
	}
	groups := make([]Group, len(problems))
	at := make([]int, len(problems))
	for i, p := range problems {
		groups[i].Problem, at[i] = p, i
	}
	done := 0
	sample := func(at []int, from, to int) error {
		these := make([]env.Problem, len(at))
		for i, p := range at {
			these[i] = problems[p]
		}
		got, err := t.roller.play(ctx, these, to-from, t.sampling(), func(p, g int) uint64 {
			return memberSeed(t.recipe.Seed, t.step, first+at[p], from+g, drawReplies)
		}, func(*Rollout) {
			done++
			t.notify(Progress{"rollout", done, len(problems) * r.Samples})
		})
		for i, rollouts := range got {
			groups[at[i]].Rollouts = append(groups[at[i]].Rollouts, rollouts...)
		}
		return err
	}
	err := sample(at, 0, begin)
	if err == nil && begin < r.Samples {
		at = slices.DeleteFunc(at, func(p int) bool { return !groups[p].mixed() })
		err = sample(at, begin, r.Samples)
	}
	return groups, err
}
