package trainer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"tandem/engine"
	"tandem/kernels"
	"tandem/model"
	"tandem/trainer/env"
	"tandem/trainer/run"
)

// A Trainer improves the weights that its engine samples from. It is used by one goroutine.
type Trainer struct {
	recipe    Recipe
	task      *env.Task
	algorithm Algorithm
	w         *model.Weights
	dir       *run.Dir // nil: nothing is written
	roller    *Player
	learner   *learner
	step      int // steps done, warm-up included
	drawing   drawing
	carried   []Group                // sampled in the last step, for the next one
	imported  *imported              // what is trained on instead of sampling; nil without
	ours      map[*Rollout][]float32 // log-probs of the step's imported rollouts before its first update
	notify    func(Progress)

	saved  time.Duration // spent on the run directory since the last step's figures
	fixed  Spent         // what is the same in every step
	device kernels.Device
	plan   Plan
	watch  *watch   // of the device's hardware
	notes  []string // that nobody has read yet

	measured, overrun bool // what the device takes beyond the arenas has been told; it was more than the reserve
}

// Progress is how far a step is.
type Progress struct {
	Phase       string // "rollout", "update" or "evaluation"
	Done, Total int    // episodes or samples
}

// Steps is the number of steps of the whole run, warm-up included.
func (r Recipe) Steps() int { return r.Warmup.Steps + r.Train.Steps }

// New takes the memory of a run, for weights that are already loaded. The recipe must be checked. dir may be nil, and
// notify, too.
func New(dev kernels.Device, w *model.Weights, task *env.Task, r Recipe, dir *run.Dir, notify func(Progress)) (*Trainer, error) {
	if len(task.Problems) == 0 && r.Train.Steps > 0 && r.Data.Rollouts == "" {
		return nil, errors.New("trainer: the task has no problems to train on")
	}
	if len(task.Demonstrations) == 0 && r.Warmup.Steps > 0 {
		return nil, errors.New("trainer: warmup.steps is set, but the task has no demonstrations")
	}
	var given *imported
	if r.Data.Rollouts != "" {
		var err error
		if given, err = openImported(r.Data.Rollouts, limitsOf(r, w.Config)); err != nil {
			return nil, fmt.Errorf("trainer: %w", err)
		}
	}
	plan := NewPlan(r, w.Config, w.Arena.DType, MachineOf(dev))
	e, l, err := build(dev, w, plan)
	if err != nil {
		return nil, fmt.Errorf("trainer: %w", err)
	}
	if notify == nil {
		notify = func(Progress) {}
	}
	t := &Trainer{recipe: r, task: task, algorithm: r.algorithm(), w: w, dir: dir, roller: NewPlayer(e, task.Env), learner: l, imported: given, notify: notify, device: dev, plan: plan}
	t.fixed.MemoryPlanned = plan.Taken()
	t.fixed.Pages = e.Config().Pages
	for _, n := range l.notes {
		t.note("teacher: %s", n)
	}
	t.watch = newWatch(dev, t.note)
	return t, t.begin()
}

// note keeps a sentence for the user.
func (t *Trainer) note(format string, args ...any) {
	t.notes = append(t.notes, fmt.Sprintf(format, args...))
}

// Notes are sentences for the user that have come up since the last call: what was ignored when a teacher was loaded, what
// the hardware does not tell, what holds it back, what the device took beyond the plan's arenas.
func (t *Trainer) Notes() []string {
	notes := t.notes
	t.notes = nil
	return notes
}

// build takes the memory of a plan.
func build(dev kernels.Device, w *model.Weights, p Plan) (*engine.Engine, *learner, error) {
	if cpu, ok := dev.(workers); ok {
		if err := cpu.Scratch(p.scratch()); err != nil {
			return nil, nil, err
		}
	}
	at, err := newLayout(dev, p)
	if err != nil {
		return nil, nil, err
	}
	e, err := engine.New(at.sampling, w, p.Recipe.engineConfig(1))
	if err != nil {
		return nil, nil, err
	}
	l, err := newLearner(dev, at, w, p.Recipe)
	if err != nil {
		e.Close()
		return nil, nil, err
	}
	if at.region.Ptr != 0 {
		l.claim = e.WeightsChanged // training overwrites the cache
	}
	return e, l, nil
}

// begin starts the optimizer afresh where a stage begins with the next step.
func (t *Trainer) begin() error {
	if t.step == t.recipe.Warmup.Steps {
		if err := t.learner.freeze(); err != nil {
			return err
		}
	} else if t.step != 0 {
		return nil
	}
	return t.settings()
}

// settings gives the optimizer those of the stage that the next step belongs to, with moments at 0.
func (t *Trainer) settings() error {
	if t.step < t.recipe.Warmup.Steps {
		return t.learner.restart(t.recipe.Warmup.Optimizer)
	}
	return t.learner.restart(t.recipe.Optimizer)
}

// Close ends the engine, and gives back memory that is not the device's. The device must still be open.
func (t *Trainer) Close() error {
	t.roller.engine.Close()
	t.watch.close()
	return t.learner.close()
}

// Engine samples from the weights being trained. It is idle between steps.
func (t *Trainer) Engine() *engine.Engine { return t.roller.engine }

// Done is the number of steps done.
func (t *Trainer) Done() int { return t.step }

// Step is one step: replies, rewards, advantages, gradients, weights. A step that fails or is cancelled before its log is
// written leaves everything as it was.
func (t *Trainer) Step(ctx context.Context) (Metrics, error) {
	if t.step >= t.recipe.Steps() {
		return Metrics{}, fmt.Errorf("trainer: all %d steps are done", t.step)
	}
	m := Metrics{Step: t.step, Stage: "grpo", Spent: t.fixed}
	begun := time.Now()
	t.learner.spent = &m.Spent
	watched := t.watch.begin()
	var err error
	if t.step < t.recipe.Warmup.Steps {
		m.Stage = "warmup"
		err = t.supervise(ctx, &m)
	} else {
		err = t.reinforce(ctx, &m)
	}
	readings := watched()
	if err != nil {
		return m, fmt.Errorf("step %d: %w", t.step, err)
	}
	m.finish()
	m.watched(t.watch, readings)
	t.beyond(&m)
	m.finishTimes(time.Since(begun), t.saved)
	m.Memory, m.MemoryResident, t.saved = taken(t.device), resident(), 0
	t.step++
	t.roller.engine.WeightsChanged()
	if err := t.begin(); err != nil {
		return m, err
	}
	begun = time.Now()
	err = t.record(m)
	t.saved = time.Since(begun)
	return m, err
}

// supervise is a step of the warm-up.
func (t *Trainer) supervise(ctx context.Context, m *Metrics) error {
	samples, err := t.demonstrations()
	if err != nil {
		return err
	}
	w := t.recipe.Warmup
	return t.update(ctx, Supervised(), [][]*Rollout{samples}, w.Loss, w.Optimizer.rate(t.step, w.Steps), m)
}

// reinforce is a step on rollouts.
func (t *Trainer) reinforce(ctx context.Context, m *Metrics) error {
	log, err := t.rollouts(ctx, m)
	if err != nil {
		return err
	}
	stop := clocked(&m.SavingSeconds)
	err = t.show(log)
	stop()
	if err != nil {
		return err
	}
	groups := log.groups()
	m.sampled(log)
	m.budgets(t.task.Env, log, t.recipe.Rollout.MaxTokens)
	a, n := t.recipe.Algorithm, t.step-t.recipe.Warmup.Steps
	if err := t.compare(ctx, groups, m); err != nil {
		return err
	}
	for u := range a.Updates {
		share := groups[u*len(groups)/a.Updates : (u+1)*len(groups)/a.Updates]
		if len(share) == 0 {
			continue // fewer imported groups than updates
		}
		if u > 0 {
			ctx = context.WithoutCancel(ctx) // the weights have changed: the step is done to its end
		}
		if err := t.update(ctx, t.algorithm, share, a.Loss, t.recipe.Optimizer.rate(n, t.recipe.Train.Steps), m); err != nil {
			return err
		}
	}
	t.finish(log)
	return nil
}

// update is one optimizer step on groups of rollouts.
func (t *Trainer) update(ctx context.Context, alg Algorithm, groups [][]*Rollout, loss Loss, lr float32, m *Metrics) error {
	begun := time.Now()
	samples, factor, err := t.samples(ctx, alg, groups, loss, m)
	if err != nil {
		return err
	}
	m.advantages(samples)
	done := 0
	t.learner.zero()
	err = t.learner.accumulate(ctx, alg, samples, t.recipe.invTemperature(), func(s *sample) {
		done++
		t.notify(Progress{"update", done, len(samples)})
		m.trained(s, factor)
	})
	if err != nil {
		return err
	}
	norm, err := t.learner.step(factor, lr)
	m.updated(norm, lr, t.learner.opt)
	m.UpdateSeconds += time.Since(begun).Seconds()
	return err
}

// demonstrations are the samples of a warm-up step.
func (t *Trainer) demonstrations() ([]*Rollout, error) {
	out := make([]*Rollout, t.recipe.Warmup.Samples)
	for i := range out {
		r := kernels.Philox(t.recipe.Seed, uint32(t.step), uint32(i), 0, drawDemonstrations)
		p := t.task.Demonstrations[r[0]%uint32(len(t.task.Demonstrations))]
		ep, err := t.task.Env.Start(p)
		if err != nil {
			return nil, fmt.Errorf("problem %d: %w", p.ID, err)
		}
		demo, err := t.task.Demonstrate(p, uint64(r[3])<<32|uint64(r[2]))
		if err != nil {
			return nil, fmt.Errorf("demonstration of problem %d: %w", p.ID, err)
		}
		n := len(ep.Tokens)
		if n+len(demo.Tokens) > t.recipe.Model.Context {
			return nil, fmt.Errorf("demonstration of problem %d: %d tokens exceed model.context, %d", p.ID, n+len(demo.Tokens), t.recipe.Model.Context)
		}
		out[i] = &Rollout{Problem: p.ID, Tokens: append(ep.Tokens, demo.Tokens...)}
		for _, s := range demo.Spans {
			out[i].Spans = append(out[i].Spans, span{n + s[0], n + s[1]})
		}
	}
	return out, nil
}

func (r Recipe) algorithm() Algorithm {
	a := r.Algorithm
	c := GRPOConfig{Std: a.Std, ClipLow: a.ClipLow, ClipHigh: a.ClipHigh, DualClip: a.DualClip}
	alg := GRPO(c)
	switch a.Name {
	case "gspo":
		alg = GSPO(c)
	case "cispo":
		alg = CISPO(c)
	case "rloo":
		alg = RLOO(c)
	case "reinforce++":
		alg = ReinforcePlus(c)
	}
	if a.KL > 0 && a.KLIn == "loss" {
		alg = a.penalty().InLoss(alg)
	}
	return alg
}

func (a AlgorithmConfig) penalty() KL { return KL{a.KL, a.KLEstimator} }

// sampling is how the replies of training are drawn.
func (t *Trainer) sampling() Sampling {
	r := t.recipe.Rollout
	turn := r.TurnTokens
	if turn == 0 {
		turn = r.MaxTokens
	}
	return Sampling{Params: engine.Params{MaxTokens: turn, Temperature: r.Temperature, TopP: 1, Stop: t.task.Stop}, Total: r.MaxTokens}
}

// invTemperature is as the sampler computes it.
func (r Recipe) invTemperature() float32 { return 1 / r.Rollout.Temperature }

// engineConfig sizes the engine of one of as many ranks for the recipe's rollouts.
func (r Recipe) engineConfig(ranks int) engine.Config {
	seqs := r.Rollout.Batch
	if seqs == 0 {
		seqs = ceil(r.Rollout.Prompts*r.Rollout.Samples, ranks)
	}
	pages := r.Rollout.Pages
	if pages == 0 {
		pages = seqs * model.PagesFor(r.Model.Context)
	}
	return engine.Config{Pages: pages, Seqs: seqs, Rows: max(r.Rollout.Rows, seqs), Context: r.Model.Context}
}
