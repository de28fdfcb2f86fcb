package trainer

import (
	"context"
	"errors"
	"fmt"

	"tandem/kernels"
	"tandem/model"
)

// A sample is a rollout with what the update needs of it.
type sample struct {
	*Rollout
	adv    []float32 // per sampled token
	weight float32   // of its summed token losses

	old          []float32 // log-probs that the ratio is over: per sampled token, nil in supervised training
	ours         []float32 // those of an imported one under the weights before the step, which are old then; else nil
	ref          []float32 // log-probs under the frozen reference: per sampled token, nil without one
	new, entropy []float32 // as trained: per sampled token
	loss         float32   // summed, not weighted
	clipped      int
}

// rewards of groups, as the environment gave them: [P][G].
func rewards(groups [][]*Rollout) [][]float32 {
	out := make([][]float32, len(groups))
	for p, group := range groups {
		for _, r := range group {
			out[p] = append(out[p], r.Reward)
		}
	}
	return out
}

// weigh turns groups and their rewards into samples, and gives the step's constant factor.
func weigh(alg Algorithm, groups [][]*Rollout, rewards [][]float32, loss Loss, maxTokens int) ([]*sample, float32, error) {
	tokens := make([][]int, len(groups))
	for p, group := range groups {
		for _, r := range group {
			tokens[p] = append(tokens[p], covered(r.Spans))
		}
	}
	adv := alg.Advantages(rewards)
	weights, factor, err := loss.Weigh(tokens, maxTokens)
	if err != nil {
		return nil, 0, err
	}
	var samples []*sample
	for p, group := range groups {
		for g, r := range group {
			s := &sample{Rollout: r, weight: weights[p][g], adv: make([]float32, tokens[p][g]), old: r.LogProbs}
			for i := range s.adv {
				s.adv[i] = adv[p][g]
			}
			samples = append(samples, s)
		}
	}
	return samples, factor, nil
}

// inert says that every advantage is 0, so that the gradient is, exactly.
func (s *sample) inert() bool {
	for _, a := range s.adv {
		if a != 0 {
			return false
		}
	}
	return true
}

// A learner owns gradients and optimizer state, and the frozen reference where there is one.
type learner struct {
	pass *pass
	w, g *model.Weights
	opt  *Optimizer
	host *kernels.Transfer
	ref  *pass // over weights of its own; nil without a reference

	teacher    *pass  // likewise
	teacherSum uint32 // checksum of its weights
	notes      []string

	region kernels.Tensor // that training shares with sampling, if it does
	claim  func()         // called before training writes there

	spent *Spent // where the time of the step at hand goes
}

func newLearner(dev kernels.Device, at layout, w *model.Weights, r Recipe) (*learner, error) {
	arena, err := at.training.Alloc(gradientBytes(w.Config))
	if err != nil {
		return nil, fmt.Errorf("gradients: %w", err)
	}
	p, err := newPass(at.training, w, passLimits(r.Train.Rows, r.Model.Context), true)
	if err != nil {
		return nil, err
	}
	host, err := kernels.NewTransfer(dev)
	if err != nil {
		return nil, err
	}
	opt, err := newOptimizer(dev, w, r.States, host)
	if err != nil {
		return nil, err
	}
	l := &learner{pass: p, w: w, g: model.BindGradients(w.Config, arena), opt: opt, host: host, spent: &Spent{}, region: at.region, claim: func() {}}
	if err := l.begin(dev, at, r); err != nil {
		return nil, errors.Join(err, l.close())
	}
	return l, nil
}

// begin takes the memory of the frozen models, and the masters from the weights.
func (l *learner) begin(dev kernels.Device, at layout, r Recipe) error {
	if r.Algorithm.KL > 0 {
		if err := l.reference(dev, at.reference, r); err != nil {
			return fmt.Errorf("reference: %w", err)
		}
	}
	if err := l.teach(dev, at.teacher, r); err != nil {
		return fmt.Errorf("teacher: %w", err)
	}
	if err := l.opt.startMasters(); err != nil {
		return fmt.Errorf("masters: %w", err)
	}
	return nil
}

// close gives back what is not the device's.
func (l *learner) close() error { return l.opt.close() }

// reference takes the memory of a frozen copy of the weights and of its forward pass.
func (l *learner) reference(dev, pass kernels.Device, r Recipe) error {
	w := *l.w
	arena, err := dev.Alloc(w.Arena.Bytes())
	if err != nil {
		return err
	}
	frozen := model.Bind(w.Config, arena, w.Arena.DType)
	frozen.Cos, frozen.Sin = w.Cos, w.Sin
	l.ref, err = newPass(pass, frozen, passLimits(r.Train.Rows, r.Model.Context), false)
	return err
}

// freeze makes the reference equal the weights as they are.
func (l *learner) freeze() error {
	if l.ref == nil {
		return nil
	}
	l.pass.q.Copy(l.ref.w.Arena.Ptr, l.w.Arena.Ptr, l.w.Arena.Bytes())
	return l.pass.q.Sync()
}

// score gives the log-probs of the samples' tokens under the weights of a pass, as they are.
func (l *learner) score(ctx context.Context, p *pass, samples []*sample, invT float32) ([][]float32, error) {
	defer clocked(&l.spent.ReferenceSeconds)()
	l.claim()
	seqs, spans := make([][]int32, len(samples)), make([][]span, len(samples))
	for i, s := range samples {
		seqs[i], spans[i] = s.Tokens, s.Spans
	}
	return p.logProbs(ctx, seqs, spans, invT)
}

func (l *learner) restart(cfg OptimizerConfig) error {
	return l.opt.restart(l.pass.q, cfg)
}

// zero starts the gradient of a step.
func (l *learner) zero() {
	l.claim()
	model.ZeroGradients(l.pass.q, l.g)
}

// accumulate adds the samples' gradients, in order, in as many passes as it takes. A sample whose advantages are all 0 is
// left out: it would add exact zeros.
func (l *learner) accumulate(ctx context.Context, alg Algorithm, samples []*sample, invT float32, done func(*sample)) error {
	for lo := 0; lo < len(samples); {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("update: %w", err)
		}
		l.pass.reset()
		var heads []int
		hi := lo
		for ; hi < len(samples); hi++ {
			s := samples[hi]
			head := -1
			if alg.Always || !s.inert() {
				if !l.pass.fits(len(s.Tokens)) {
					break
				}
				head = l.pass.add(s.Tokens, s.Spans)
			}
			heads = append(heads, head)
		}
		if hi == lo {
			return fmt.Errorf("update: a sequence of %d tokens exceeds train.rows, %d", len(samples[lo].Tokens), l.pass.batch.Limits().Rows)
		}
		if err := l.backprop(alg, samples[lo:hi], heads, invT); err != nil {
			return fmt.Errorf("update: %w", err)
		}
		for _, s := range samples[lo:hi] {
			done(s)
		}
		lo = hi
	}
	return nil
}

// backprop takes a packed batch through forward, loss and backward.
func (l *learner) backprop(alg Algorithm, samples []*sample, heads []int, invT float32) error {
	p := l.pass
	if p.batch.T == 0 {
		return nil
	}
	stop := clocked(&l.spent.ForwardSeconds)
	err := p.forward(invT)
	stop()
	if err != nil {
		return err
	}
	defer clocked(&l.spent.BackwardSeconds)()
	clear(p.dlogp.host[:p.batch.R])
	for i, s := range samples {
		if heads[i] < 0 {
			continue
		}
		lo, hi := heads[i], heads[i]+len(s.adv)
		s.new = append([]float32(nil), p.logp.host[lo:hi]...)
		s.entropy = append([]float32(nil), p.entropy.host[lo:hi]...)
		dlogp := p.dlogp.host[lo:hi]
		s.loss, s.clipped = alg.Grad(Terms{New: s.new, Old: s.old, Adv: s.adv, Ref: s.ref}, dlogp)
		for t := range dlogp {
			dlogp[t] *= s.weight
		}
	}
	p.backward(l.g)
	return p.q.Sync()
}

// step updates the weights.
func (l *learner) step(factor, lr float32) (norm float64, err error) {
	defer clocked(&l.spent.OptimizerSeconds)()
	model.FinishGradients(l.pass.q, l.g)
	return l.opt.step(l.pass.q, l.w, l.g, factor, lr)
}
