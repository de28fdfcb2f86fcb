package engine

import (
	"testing"

	"tandem/kernels"
	"tandem/model"
)

// BenchmarkHostWork is what the host does for one decoding step of 128 sequences: the plan, the batch, and the drawn
// tokens; everything but the kernels. With penalties it also keeps lists of some hundred tokens for each.
func BenchmarkHostWork(b *testing.B) {
	b.Run("plain", func(b *testing.B) { benchmarkHostWork(b, Params{}) })
	b.Run("penalties", func(b *testing.B) { benchmarkHostWork(b, Params{Repetition: 1.1, Presence: 1}) })
}

func benchmarkHostWork(b *testing.B, params Params) {
	const n = 128
	dev, err := kernels.NewCPU(kernels.CPUConfig{Workers: 1})
	if err != nil {
		b.Fatal(err)
	}
	defer dev.Close()
	c, err := model.Shape("tiny")
	if err != nil {
		b.Fatal(err)
	}
	c.Vocab, c.Live = 1024, 1024
	w, err := model.NewWeights(dev, c, kernels.BF16, 1024)
	if err != nil {
		b.Fatal(err)
	}
	cfg := Config{Pages: n * model.PagesFor(1024), Seqs: n, Rows: 2048, Context: 1024}.For(params)
	st, err := newStep(dev, w, cfg)
	if err != nil {
		b.Fatal(err)
	}
	e := &Engine{cfg: cfg, w: w, step: st}
	d := drawn{tokens: make([]int32, n), logProbs: make([]float32, n)}
	start := func() {
		e.sched = newScheduler(cfg)
		for i := range n {
			tokens := make([]int32, 100)
			tokens[0] = int32(i)
			e.sched.arrive(&seq{request: Request{Params: params}, tokens: tokens, turn: 100, maxTokens: 1 << 20, deliver: make(chan turn, 1)})
		}
	}
	steps := 1 << 20
	for b.Loop() {
		if steps++; steps > 900 {
			b.StopTimer()
			start()
			for e.sched.now().Waiting > 0 || e.sched.running[n-1].need() > 1 {
				e.settle(e.sched.next(), d)
			}
			steps = 0
			b.StartTimer()
		}
		for i := range d.tokens { // far from each other in a list
			d.tokens[i] = int32((steps*619 + i) % 1024)
		}
		p := e.sched.next()
		st.fill(p)
		st.pad(bucket(n))
		e.settle(p, d)
	}
}
