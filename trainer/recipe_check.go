package trainer

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// most is the largest size of anything: what it is multiplied with to plan the memory does not overflow.
const most = 1 << 30

// Check says what is wrong with a recipe, every fault at once.
func (r Recipe) Check() error {
	var faults []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	oneOf := func(key, got string, names ...string) {
		want(slices.Contains(names, got), "%s is %q, want one of %q", key, got, names)
	}
	m, ro, a := r.Model, r.Rollout, r.Algorithm
	want(m.Dir != "" || m.Shape != "", "model.dir and model.shape are empty: want one of them")
	want(m.Dir != "" || m.Tokenizer != "", "model.tokenizer is empty: random weights come without one")
	oneOf("model.dtype", m.DType, "bf16", "float32")
	oneOf("model.template", m.Template, "default", "thinking", "no-thinking", "none")
	want(m.Context >= 2, "model.context is %d, want at least 2", m.Context)

	oneOf("data.task", r.Data.Task, "addition", "multiplication", "file")
	want(r.Data.Task != "file" || r.Data.Train != "" || r.Data.Rollouts != "", "data.train is empty: want a file of problems")

	want(ro.Prompts >= 1, "rollout.prompts is %d, want at least 1", ro.Prompts)
	want(ro.Samples >= 1, "rollout.samples is %d, want at least 1", ro.Samples)
	want(ro.MaxTokens >= 1 && ro.MaxTokens < m.Context, "rollout.max_tokens is %d, want 1 to less than model.context, %d", ro.MaxTokens, m.Context)
	want(ro.Temperature >= 1e-3 && ro.Temperature <= 1e3, "rollout.temperature is %v, want 0.001 to 1000: greedy replies have no distribution to learn from", ro.Temperature)
	want(ro.TopP == 1 && ro.TopK == 0, "rollout.top_p is %v and rollout.top_k is %d, want 1 and 0: training needs the log-prob of the distribution that was sampled", ro.TopP, ro.TopK)
	want(ro.OverSampling >= 0 && ro.Waves >= 1, "rollout.over_sampling and waves are %d and %d, want 0 and 1 at least", ro.OverSampling, ro.Waves)
	want(!ro.Dynamic || ro.Samples > 1, "rollout.dynamic is set with rollout.samples = 1: no group can differ")
	want(ro.Pages >= 0 && ro.Batch >= 0 && ro.Rows >= 1, "rollout.pages, batch and rows are %d, %d and %d, want 0, 0 and 1 at least", ro.Pages, ro.Batch, ro.Rows)

	oneOf("algorithm.name", a.Name, "grpo", "gspo", "cispo", "rloo", "reinforce++")
	want(a.DualClip == 0 || a.DualClip > 1, "algorithm.dual_clip is %v, want more than 1, or 0 for off", a.DualClip)
	want(a.KL >= 0 && a.KL-a.KL == 0, "algorithm.kl is %v, want 0 (off) or more", a.KL)
	oneOf("algorithm.kl_estimator", a.KLEstimator, "k1", "k2", "k3")
	oneOf("algorithm.kl_in", a.KLIn, "loss", "reward")
	want(a.KLIn != "loss" || a.KLEstimator != "k1" || a.KL == 0, "algorithm.kl_estimator is k1 in the loss: its gradient is 0 on average, want k2 or k3, or kl_in = \"reward\"")
	want(a.OverlongCache >= 0 && a.OverlongCache < ro.MaxTokens, "algorithm.overlong_cache is %d, want 0 (off) to less than rollout.max_tokens, %d", a.OverlongCache, ro.MaxTokens)
	oneOf("algorithm.loss", string(a.Loss), string(LossSample), string(LossToken), string(LossPrompt), string(LossConstant))
	want(a.ClipLow > 0 && a.ClipLow < 1 && a.ClipHigh > 0, "algorithm.clip_low and clip_high are %v and %v, want 0 < low < 1 and high > 0", a.ClipLow, a.ClipHigh)
	want(a.Updates >= 1 && (ro.Prompts < 1 || ro.Prompts%max(a.Updates, 1) == 0), "algorithm.updates is %d, want a divisor of rollout.prompts, %d", a.Updates, ro.Prompts)

	want(r.Train.Steps >= 0 && r.Warmup.Steps >= 0 && r.Train.Steps+r.Warmup.Steps > 0, "train.steps and warmup.steps are %d and %d: want something to do", r.Train.Steps, r.Warmup.Steps)
	want(r.Train.Rows >= m.Context, "train.rows is %d, want at least model.context, %d: a sequence is not split", r.Train.Rows, m.Context)
	oneOf("train.layout", r.Train.Layout, layoutAuto, layoutSerial, layoutOverlap)
	want(r.Warmup.Steps == 0 || r.Warmup.Samples >= 1, "warmup.samples is %d, want at least 1", r.Warmup.Samples)
	oneOf("warmup.loss", string(r.Warmup.Loss), string(LossSample), string(LossToken))
	faults = append(faults, r.CheckTools(), r.checkSignals(), r.Optimizer.check("optimizer"), r.Warmup.Optimizer.check("warmup.optimizer"), r.checkStates())

	want(r.Evaluation.Every >= 0 && r.Evaluation.Problems >= 0 && r.Evaluation.Samples >= 1, "evaluation.every, problems and samples are %d, %d and %d, want 0, 0 and 1 at least",
		r.Evaluation.Every, r.Evaluation.Problems, r.Evaluation.Samples)
	for _, size := range []struct {
		key string
		n   int
	}{
		{"model.context", m.Context}, {"rollout.prompts", ro.Prompts}, {"rollout.samples", ro.Samples}, {"rollout.pages", ro.Pages},
		{"rollout.batch", ro.Batch}, {"rollout.rows", ro.Rows}, {"train.rows", r.Train.Rows}, {"warmup.samples", r.Warmup.Samples},
		{"evaluation.samples", r.Evaluation.Samples},
	} {
		want(size.n <= most, "%s is %d, want at most %d", size.key, size.n, most)
	}
	if ro.Prompts <= most && ro.Samples <= most {
		want(ro.Prompts*ro.Samples <= most, "rollout.prompts times samples is %d, want at most %d", ro.Prompts*ro.Samples, most)
	}
	want(r.Checkpoint.Every >= 1 && r.Checkpoint.Keep >= 1, "checkpoint.every and keep are %d and %d, want at least 1", r.Checkpoint.Every, r.Checkpoint.Keep)
	return errors.Join(faults...)
}

func (o OptimizerConfig) check(at string) error {
	var faults []error
	want := func(ok bool, key string, got any, wanted string) {
		if !ok {
			faults = append(faults, fmt.Errorf("%s.%s is %v, want %s", at, key, got, wanted))
		}
	}
	want(o.LR > 0 && o.LR < 1, "lr", o.LR, "more than 0 and less than 1")
	want(slices.Contains([]string{"constant", "linear", "cosine"}, o.Schedule), "schedule", strconv.Quote(o.Schedule), "constant, linear or cosine")
	want(o.WarmupSteps >= 0, "warmup_steps", o.WarmupSteps, "0 or more")
	want(o.Beta1 >= 0 && o.Beta1 < 1, "beta1", o.Beta1, "0 to less than 1")
	want(o.Beta2 >= 0 && o.Beta2 < 1, "beta2", o.Beta2, "0 to less than 1")
	want(o.Eps > 0 && o.Eps < 1, "eps", o.Eps, "more than 0 and less than 1")
	want(o.WeightDecay >= 0 && o.WeightDecay < 1, "weight_decay", o.WeightDecay, "0 to less than 1")
	_, err := o.maxNorm()
	want(err == nil, "clip_norm", strconv.Quote(o.ClipNorm), `a positive number or "off"`)
	want(o.MaxSkips >= 1, "max_skips", o.MaxSkips, "at least 1")
	return errors.Join(faults...)
}

// maxNorm is the gradient norm that is clipped to, +Inf for off.
func (o OptimizerConfig) maxNorm() (float64, error) {
	if o.ClipNorm == "off" {
		return math.Inf(1), nil
	}
	n, err := strconv.ParseFloat(o.ClipNorm, 64)
	if err != nil || !(n > 0) {
		return 0, fmt.Errorf("clip_norm is %q", o.ClipNorm)
	}
	return n, nil
}
