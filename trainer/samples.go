package trainer

import (
	"context"
	"fmt"
	"math"
)

// samples gives the groups their advantages, token by token: by the rewards of the whole, which the recipe may have
// shaped, by rewards along the way and by a teacher. A truncated importance weight multiplies all of them.
func (t *Trainer) samples(ctx context.Context, alg Algorithm, groups [][]*Rollout, loss Loss, m *Metrics) ([]*sample, float32, error) {
	r, given := t.recipe, rewards(groups)
	if t.step < r.Warmup.Steps {
		return weigh(alg, groups, given, loss, r.Rollout.MaxTokens)
	}
	t.shape(groups, given)
	samples, factor, err := weigh(alg, groups, given, loss, r.Rollout.MaxTokens)
	if err != nil {
		return nil, 0, err
	}
	refs, err := t.refer(ctx, samples, m)
	if err != nil {
		return nil, 0, err
	}
	if refs != nil && r.Algorithm.KLIn == "reward" {
		for p, group := range groups {
			for g := range group {
				given[p][g] -= r.Algorithm.penalty().InReward(group[g].LogProbs, refs[group[g]])
			}
		}
		if samples, factor, err = weigh(alg, groups, given, loss, r.Rollout.MaxTokens); err != nil {
			return nil, 0, err
		}
	}
	for _, s := range samples {
		s.ref = refs[s.Rollout]
		if s.ours = t.ours[s.Rollout]; s.ours != nil {
			s.old = s.ours
		}
	}
	t.process(groups, given, samples)
	if err := t.distill(ctx, samples, m); err != nil {
		return nil, 0, err
	}
	t.weighImported(samples, m)
	return samples, factor, nil
}

// refer gives the log-probs of the samples under the frozen reference; nil without one.
func (t *Trainer) refer(ctx context.Context, samples []*sample, m *Metrics) (map[*Rollout][]float32, error) {
	if t.learner.ref == nil {
		return nil, nil
	}
	refs, err := t.learner.score(ctx, t.learner.ref, samples, t.recipe.invTemperature())
	if err != nil {
		return nil, fmt.Errorf("reference: %w", err)
	}
	out := make(map[*Rollout][]float32, len(samples))
	for i, s := range samples {
		out[s.Rollout] = refs[i]
		m.reference(s.LogProbs, refs[i])
	}
	return out, nil
}

// shape lowers the rewards of long replies, and makes those missing that the recipe leaves out.
func (t *Trainer) shape(groups [][]*Rollout, given [][]float32) {
	r := t.recipe
	for p, group := range groups {
		for g, ro := range group {
			given[p][g] += OverlongPenalty(ro.Sampled(), r.Rollout.MaxTokens, r.Algorithm.OverlongCache)
			if r.Algorithm.OverlongFilter && ro.Truncated() {
				given[p][g] = float32(math.NaN())
			}
		}
	}
}

// process adds the advantages of rewards along the way. A reply whose reward is missing has none of these either.
func (t *Trainer) process(groups [][]*Rollout, given [][]float32, samples []*sample) {
	a := t.recipe.Algorithm
	for p, group := range groups {
		of := samples[:len(group)]
		samples = samples[len(group):]
		rows := make([][]float32, len(group))
		found := false
		for g, r := range group {
			rows[g] = make([]float32, r.Sampled())
			for i := range rows[g] {
				rows[g][i] = missing
			}
			if !isNaN(given[p][g]) {
				found = copy(rows[g], r.Process) > 0 || found
			}
		}
		if !found || a.Process == 0 {
			continue
		}
		for g, adv := range ProcessAdvantages(rows, a.Std, a.Gamma) {
			for i, x := range adv {
				of[g].adv[i] += float32(a.Process * x)
			}
		}
	}
}

// distill mixes the task's advantages with the teacher's.
func (t *Trainer) distill(ctx context.Context, samples []*sample, m *Metrics) error {
	if t.learner.teacher == nil {
		return nil
	}
	teacher, err := t.learner.score(ctx, t.learner.teacher, samples, t.recipe.invTemperature())
	if err != nil {
		return fmt.Errorf("teacher: %w", err)
	}
	for i, s := range samples {
		taught := DistillAdvantages(s.old, teacher[i])
		for _, x := range taught {
			m.sums.Teacher -= float64(x)
		}
		m.sums.Taught += len(taught)
		s.adv = mixAdvantages(s.adv, taught, t.recipe.Teacher)
	}
	return nil
}

// mixAdvantages is the task's advantages and a teacher's by their weights.
func mixAdvantages(task, taught []float32, w TeacherConfig) []float32 {
	out := make([]float32, len(task))
	for i := range out {
		out[i] = float32(w.Task*task[i]) + float32(w.KL*taught[i])
	}
	return out
}

// compare computes the log-probs of imported rollouts under the weights as they are, before the step changes them.
func (t *Trainer) compare(ctx context.Context, groups [][]*Rollout, m *Metrics) error {
	t.ours = nil
	if t.recipe.Data.Rollouts == "" || t.recipe.Algorithm.TIS == 0 {
		return nil
	}
	var samples []*sample
	for _, group := range groups {
		for _, r := range group {
			samples = append(samples, &sample{Rollout: r})
		}
	}
	ours, err := t.learner.score(ctx, t.learner.pass, samples, t.recipe.invTemperature())
	if err != nil {
		return fmt.Errorf("log-probs of imported rollouts: %w", err)
	}
	t.ours = make(map[*Rollout][]float32, len(samples))
	for i, s := range samples {
		t.ours[s.Rollout] = ours[i]
		for j, o := range ours[i] {
			m.compared(float64(o) - float64(s.LogProbs[j]))
		}
	}
	return nil
}

// weighImported gives the tokens of imported rollouts their weights.
func (t *Trainer) weighImported(samples []*sample, m *Metrics) {
	for _, s := range samples {
		if s.ours == nil {
			continue
		}
		w, truncated := TruncatedWeights(s.ours, s.LogProbs, t.recipe.Algorithm.TIS)
		m.sums.Truncated += truncated
		for i, x := range w {
			s.adv[i] *= x
			m.sums.Weights++
			m.sums.Weight += float64(x)
		}
	}
}
