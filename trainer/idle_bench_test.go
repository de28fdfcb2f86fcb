package trainer

import (
	"context"
	"testing"
	"time"

	"tandem/engine"
	"tandem/kernels"
	"tandem/model"
	"tandem/trainer/env"
)

// pausing is three turns with a call of 200 ms between them.
type pausing struct{}

func (pausing) Start(p env.Problem) (*env.Episode, error) { return prompt(p, int32(p.ID), tell) }

func (pausing) Step(_ context.Context, e *env.Episode, _ env.Reply) (env.Turn, error) {
	if len(e.Past) == 2 {
		return env.Turn{Done: true}, nil
	}
	time.Sleep(200 * time.Millisecond)
	return env.Turn{Append: []int32{tell, 1, 2, 3}}, nil
}

// BenchmarkIdle plays 64 episodes of three turns of up to 200 tokens with two calls of 200 ms each, and gives the share of
// the time in which the engine had nothing to do.
func BenchmarkIdle(b *testing.B) {
	dev, err := kernels.NewCPU(kernels.CPUConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	c, err := model.Shape("tiny")
	if err != nil {
		b.Fatal(err)
	}
	w, err := model.NewWeights(dev, c, kernels.BF16, 1024)
	if err != nil {
		b.Fatal(err)
	}
	if err := model.Random(transfer(b, dev), w, 1); err != nil {
		b.Fatal(err)
	}
	e, err := engine.New(dev, w, engine.Config{Pages: 64 * 11, Seqs: 64, Rows: 256, Context: 700})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	p := NewPlayer(e, pausing{})
	how := Sampling{Params: engine.Params{MaxTokens: 200, Temperature: 1, Stop: []int32{stop}}, Total: 600}
	var idle time.Duration
	begun := time.Now()
	for b.Loop() {
		p.clock.reset()
		if _, err := p.play(b.Context(), problems(8), 8, how, func(i, g int) uint64 { return memberSeed(1, b.N, i, g, drawReplies) }, func(*Rollout) {}); err != nil {
			b.Fatal(err)
		}
		alone, _ := p.clock.reset()
		idle += alone
	}
	b.ReportMetric(100*idle.Seconds()/time.Since(begun).Seconds(), "%idle")
}
