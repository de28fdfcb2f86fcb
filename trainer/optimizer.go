package trainer

import (
	"fmt"
	"math"

	"tandem/kernels"
	"tandem/model"
)

// An Optimizer is AdamW over the flat arena of the parameters. Parameters without decay are the norms.
type Optimizer struct {
	cfg     OptimizerConfig
	maxNorm float64
	runs    []stretch
	states

	norm   pinnedF32      // (1)
	leaves kernels.Tensor // scratch of the norm

	steps   int // taken, not counting the skipped
	skipped int // in a row
}

// A stretch is a part of the arena with one weight decay.
type stretch struct {
	lo, hi int
	decay  bool
}

// decayRuns cuts the arena into stretches; the gaps between tensors hold zeros and stay zero.
func decayRuns(ps []model.Param) []stretch {
	var runs []stretch
	for i, p := range ps {
		hi := model.ArenaLen(ps)
		if i+1 < len(ps) {
			hi = ps[i+1].Off
		}
		if n := len(runs); n > 0 && runs[n-1].decay == p.Decay {
			runs[n-1].hi = hi
			continue
		}
		runs = append(runs, stretch{p.Off, hi, p.Decay})
	}
	return runs
}

// newOptimizer takes the states. The caller fills the masters before the first step.
func newOptimizer(dev kernels.Device, w *model.Weights, sc StatesConfig) (*Optimizer, error) {
	ps := model.Params(w.Config)
	n := model.ArenaLen(ps)
	opt := &Optimizer{runs: decayRuns(ps)}
	var err error
	if opt.states, err = newStates(dev, sc, w.Arena); err != nil {
		return nil, fmt.Errorf("optimizer states: %w", err)
	}
	p, err := dev.Alloc(normBytes(n))
	if err != nil {
		return nil, fmt.Errorf("gradient norm: %w", err)
	}
	opt.leaves = kernels.NewTensor(p, kernels.U64, n/kernels.NormLeaf)
	opt.norm, err = newPinnedF32(dev, 1)
	return opt, err
}

// normBytes is the scratch of the gradient norm.
func normBytes(n int) int { return 8 * n / kernels.NormLeaf }

// restart forgets the moments and takes other settings; the masters stay.
func (o *Optimizer) restart(q kernels.Queue, cfg OptimizerConfig) {
	for _, m := range []kernels.Moment{o.m, o.v} {
		kernels.Zero(q, m.Mean)
		if m.Exponent.Ptr != 0 {
			kernels.Zero(q, m.Exponent)
		}
	}
	o.cfg, o.steps, o.skipped = cfg, 0, 0
	o.maxNorm, _ = cfg.maxNorm() // the recipe has been checked
}

// step updates the weights by gradients that still lack the step's constant factor. It returns the norm of the whole
// gradient before clipping. A gradient that is no number changes nothing.
func (o *Optimizer) step(q kernels.Queue, w, g *model.Weights, factor, lr float32) (norm float64, err error) {
	kernels.GradNorm(q, o.norm.tensor(1), o.leaves, g.Arena)
	if err := q.Sync(); err != nil {
		return 0, err
	}
	norm = float64(o.norm.host[0]) * float64(factor)
	if math.IsNaN(norm) || math.IsInf(norm, 0) {
		o.skipped++
		if o.skipped >= o.cfg.MaxSkips {
			return norm, fmt.Errorf("the gradient's norm is %v in %d steps in a row", norm, o.skipped)
		}
		return norm, nil
	}
	o.skipped = 0
	o.steps++
	c := kernels.AdamWConfig{LR: lr, Beta1: o.cfg.Beta1, Beta2: o.cfg.Beta2, Eps: o.cfg.Eps, Step: o.steps, Scale: factor * clipFactor(norm, o.maxNorm)}
	for _, r := range o.runs {
		c.Decay = 0
		if r.decay {
			c.Decay = o.cfg.WeightDecay
		}
		kernels.AdamW(q, w.Arena.Rows(r.lo, r.hi), o.master.Rows(r.lo, r.hi), o.m.Rows(r.lo, r.hi), o.v.Rows(r.lo, r.hi), g.Arena.Rows(r.lo, r.hi), c)
	}
	return norm, q.Sync()
}

// clipFactor is torch's clip_grad_norm_: max/(norm + 1e-6), at most 1.
func clipFactor(norm, maxNorm float64) float32 {
	return float32(min(1, maxNorm/(norm+1e-6)))
}

// rate is the learning rate of step i of n, counted from 0; all updates of a step use the same. The warm-up rises from
// LR/WarmupSteps to LR, so that no step is taken at 0, which would spend a rollout on nothing; what follows it is
// transformers' get_scheduler.
func (o OptimizerConfig) rate(i, n int) float32 {
	if i < o.WarmupSteps {
		return o.LR * float32(i+1) / float32(o.WarmupSteps)
	}
	done := float64(i-o.WarmupSteps) / float64(max(n-o.WarmupSteps, 1))
	switch o.Schedule {
	case "linear":
		return float32(float64(o.LR) * (1 - done))
	case "cosine":
		return float32(float64(o.LR) * 0.5 * (1 + math.Cos(math.Pi*done)))
	}
	return o.LR
}
