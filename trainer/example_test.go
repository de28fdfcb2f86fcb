package trainer_test

import (
	"context"
	"fmt"

	"tandem/kernels"
	"tandem/model"
	"tandem/trainer"
	"tandem/trainer/env"
)

// echo asks for the token of its problem, and pays for it.
type echo struct{}

func (echo) Start(p env.Problem) (*env.Episode, error) {
	return &env.Episode{Problem: p, Tokens: []int32{int32(p.ID)}}, nil
}

func (echo) Step(_ context.Context, e *env.Episode, r env.Reply) (env.Turn, error) {
	t := env.Turn{Done: true}
	if int(r.Tokens[0]) == e.Problem.ID {
		t.Reward = 1
	}
	return t, nil
}

// A program of one's own needs weights, a task and a recipe.
func Example() {
	dev, err := kernels.NewCPU(kernels.CPUConfig{})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	w, err := weights(dev)
	if err != nil {
		panic(err)
	}
	task := &env.Task{Env: echo{}}
	for i := range 4 {
		task.Problems = append(task.Problems, env.Problem{ID: i})
	}
	r := trainer.DefaultRecipe()
	r.Model.Shape, r.Model.Tokenizer, r.Model.Context, r.Data.Task = "tiny", "demo", 16, "addition"
	r.Rollout.Prompts, r.Rollout.Samples, r.Rollout.MaxTokens = 4, 16, 1
	r.Optimizer.LR, r.Optimizer.Beta2 = 2e-3, 0.95
	r.Train.Steps, r.Train.Rows = 40, 256
	if err := r.Check(); err != nil {
		panic(err)
	}
	t, err := trainer.New(dev, w, task, r, nil, nil)
	if err != nil {
		panic(err)
	}
	defer t.Close()
	var first, last float64
	for range r.Steps() {
		m, err := t.Step(context.Background())
		if err != nil {
			panic(err)
		}
		if m.Step == 0 {
			first = m.Reward
		}
		last = m.Reward
	}
	fmt.Println("the reward rose:", last > first+0.3)
	// Output: the reward rose: true
}

func weights(dev kernels.Device) (*model.Weights, error) {
	c, err := model.Shape("tiny")
	if err != nil {
		return nil, err
	}
	c.Vocab, c.Live, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.MLP = 8, 8, 32, 1, 2, 1, 16, 32
	w, err := model.NewWeights(dev, c, kernels.BF16, 16)
	if err != nil {
		return nil, err
	}
	x, err := kernels.NewTransfer(dev)
	if err != nil {
		return nil, err
	}
	return w, model.Random(x, w, 1)
}
