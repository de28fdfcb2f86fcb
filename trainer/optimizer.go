package trainer

import (
	"errors"
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
	off *offload // nil where the device has the states

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

// rate is the decay of the stretch's parameters.
func (r stretch) rate(decay float32) float32 {
	if r.decay {
		return decay
	}
	return 0
}

// newOptimizer takes the states. The caller fills the masters before the first step.
func newOptimizer(dev kernels.Device, w *model.Weights, sc StatesConfig, x *kernels.Transfer) (*Optimizer, error) {
	ps := model.Params(w.Config)
	n := model.ArenaLen(ps)
	opt := &Optimizer{runs: decayRuns(ps)}
	if err := opt.take(dev, sc, w.Arena, x); err != nil {
		return nil, errors.Join(fmt.Errorf("optimizer states: %w", err), opt.close())
	}
	p, err := dev.Alloc(normBytes(n))
	if err == nil {
		opt.leaves = kernels.NewTensor(p, kernels.U64, n/kernels.NormLeaf)
		opt.norm, err = newPinnedF32(dev, 1)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("gradient norm: %w", err), opt.close())
	}
	return opt, nil
}

// take takes the states, of the device or of the host beside it. The host's own device has one memory for both.
func (o *Optimizer) take(dev kernels.Device, sc StatesConfig, weights kernels.Tensor, x *kernels.Transfer) (err error) {
	card, ok := dev.(kernels.Sharer)
	if !ok || !sc.Offload {
		o.states, err = newStates(dev, sc, weights, x)
		return err
	}
	if weights.DType != kernels.BF16 {
		return fmt.Errorf("offloaded, they are of weights in %v, want %v", weights.DType, kernels.BF16)
	}
	if o.off, err = newOffload(dev, card, sc, weights.Len()); err != nil {
		return fmt.Errorf("offloaded: %w", err)
	}
	if o.states, err = newStates(o.off.host, sc, weights, x); err != nil {
		return err
	}
	if sc.Master == splitMaster {
		o.upper = o.off.upper.host
	}
	o.memory, err = kernels.NewTransfer(o.off.host)
	return err
}

// close gives back the host's memory. The device's is given back with it.
func (o *Optimizer) close() error {
	if o.off == nil {
		return nil
	}
	return o.off.close()
}

// normBytes is the scratch of the gradient norm.
func normBytes(n int) int { return 8 * n / kernels.NormLeaf }

// restart forgets the moments and takes other settings; the masters stay.
func (o *Optimizer) restart(q kernels.Queue, cfg OptimizerConfig) error {
	if o.off != nil {
		q = o.off.q
	}
	for _, m := range []kernels.Moment{o.m, o.v} {
		kernels.Zero(q, m.Mean)
		if m.Exponent.Ptr != 0 {
			kernels.Zero(q, m.Exponent)
		}
	}
	o.cfg, o.steps, o.skipped = cfg, 0, 0
	o.maxNorm, _ = cfg.maxNorm() // the recipe has been checked
	return q.Sync()
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
	if o.off != nil {
		return norm, o.off.step(&o.states, o.runs, g.Arena, c, o.cfg.WeightDecay)
	}
	for _, r := range o.runs {
		c.Decay = r.rate(o.cfg.WeightDecay)
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
