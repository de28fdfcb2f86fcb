package trainer

import (
	"context"
	"testing"

	"tandem/kernels"
	"tandem/model"
)

// BenchmarkUpdate is the forward and backward pass of a demo-sized step: 64 sequences of 24 to 41 tokens.
func BenchmarkUpdate(b *testing.B) {
	dev, err := kernels.NewCPU(kernels.CPUConfig{})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	c, err := model.Shape("tiny")
	if err != nil {
		b.Fatal(err)
	}
	r := testRecipe()
	r.Model.Context, r.Train.Rows = 64, 4096
	w, err := model.NewWeights(dev, c, kernels.BF16, 64)
	if err != nil {
		b.Fatal(err)
	}
	if err := model.Random(transfer(b, dev), w, 1); err != nil {
		b.Fatal(err)
	}
	l, err := newLearner(dev, apart(dev), w, r)
	if err != nil {
		b.Fatal(err)
	}
	if err := l.restart(r.Optimizer); err != nil {
		b.Fatal(err)
	}
	var group []*Rollout
	rows := 0
	for i := range 64 {
		n := 24
		if i%5 < 2 {
			n = 41
		}
		tokens := make([]int32, n)
		for j := range tokens {
			tokens[j] = int32((i*7 + j*j) % c.Live)
		}
		group = append(group, &Rollout{Tokens: tokens, Spans: []span{{19, n}}})
		rows += model.AlignedRows(n - 1)
	}
	samples, factor, err := weigh(Supervised(), [][]*Rollout{group}, rewards([][]*Rollout{group}), LossToken, 64)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		l.zero()
		if err := l.accumulate(context.Background(), Supervised(), samples, 1, func(*sample) {}); err != nil {
			b.Fatal(err)
		}
		if _, err := l.step(factor, 1e-4); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(rows)*float64(b.N)/b.Elapsed().Seconds(), "rows/s")
	b.ReportMetric(6*float64(model.Count(c))*float64(rows)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GFLOP/s")
}
