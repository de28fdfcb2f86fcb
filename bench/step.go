package bench

import (
	"context"
	"fmt"

	"tandem/kernels"
	"tandem/model"
	"tandem/trainer"
	"tandem/trainer/env"
)

// A guess pays for replies whose tokens sum to an even number: to random weights half of them are right, so that groups
// teach something.
type guess struct{ prompt, vocabulary int }

func (g guess) Start(p env.Problem) (*env.Episode, error) {
	tokens := make([]int32, g.prompt)
	for i := range tokens {
		tokens[i] = int32((p.ID*g.prompt + i) * 7919 % g.vocabulary)
	}
	return &env.Episode{Problem: p, Tokens: tokens}, nil
}

func (guess) Step(_ context.Context, _ *env.Episode, r env.Reply) (env.Turn, error) {
	sum := 0
	for _, t := range r.Tokens {
		sum += int(t)
	}
	return env.Turn{Done: true, Reward: float32(1 - sum%2), End: env.Answered}, nil
}

// StepSizes are the shape of the MATH run's step, and where its replies are cut so that it fits the time.
type StepSizes struct {
	Prompts, Samples, Prompt, Tokens, Rows int
	Offload                                bool
}

// DefaultStep has 16 prompts of 150 tokens and 8 replies to each, cut at 512 of 4,096 tokens.
func DefaultStep() StepSizes { return StepSizes{16, 8, 150, 512, 8192, true} }

// Step takes a step of GRPO after one that loads what is loaded late, and gives its seconds by phase.
func Step(dev kernels.Device, w *model.Weights, shape string, z StepSizes) (System, error) {
	r := trainer.DefaultRecipe()
	r.Model = trainer.ModelConfig{Shape: shape, Tokenizer: "none", DType: "bf16", Context: z.Prompt + z.Tokens, Template: "none"}
	r.Data.Task = "addition" // a name that the recipe wants; the task is given
	r.Rollout.Prompts, r.Rollout.Samples, r.Rollout.MaxTokens = z.Prompts, z.Samples, z.Tokens
	r.Train.Steps, r.Train.Rows = 2, z.Rows
	r.States.Offload = z.Offload
	r.Optimizer.LR = 1e-6
	if err := r.Check(); err != nil {
		return System{}, fmt.Errorf("bench: a step of GRPO: %w", err)
	}
	task := &env.Task{Env: guess{z.Prompt, w.Config.Live}, Text: func([]int32) string { return "" }}
	for i := range 4 * z.Prompts {
		task.Problems = append(task.Problems, env.Problem{ID: i})
	}
	t, err := trainer.New(dev, w, task, r, nil, nil)
	if err != nil {
		return System{}, fmt.Errorf("bench: a step of GRPO: %w", err)
	}
	defer t.Close()
	var m trainer.Metrics
	for range 2 {
		if m, err = t.Step(context.Background()); err != nil {
			return System{}, fmt.Errorf("bench: a step of GRPO: %w", err)
		}
	}
	return System{
		Name: fmt.Sprintf("%s: a step of GRPO, %d x %d replies of up to %d tokens", shape, z.Prompts, z.Samples, z.Tokens),
		Text: fmt.Sprintf("%.1f s: sampling %.1f, forward %.1f, backward %.1f, optimizer %.1f, idle %.1f; %d tokens sampled, %d trained; mismatch %v", m.Seconds,
			m.SamplingSeconds, m.ForwardSeconds, m.BackwardSeconds, m.OptimizerSeconds, m.IdleSeconds, m.Sampled, m.Trained, m.Mismatch),
		Rate: map[string]float64{"seconds": m.Seconds, "sampled_s": m.SampledPerSecond, "trained_s": m.TrainedPerSecond, "mismatch": m.Mismatch},
	}, nil
}
