package engine_test

import (
	"context"
	"math"
	"math/rand/v2"
	"testing"

	"tandem/engine"
	"tandem/kernels"
	"tandem/kernels/kerneltest"
	"tandem/model"
	"tandem/trainer"
)

// tiny is a model of a few thousand weights whose samples are far from uniform.
func tiny(t testing.TB, d kernels.DType) (kernels.Device, *model.Weights) {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	w, err := tinyWeights(dev, d)
	if err != nil {
		t.Fatal(err)
	}
	return dev, w
}

func exampleWeights(dev kernels.Device) (*model.Weights, error) {
	return tinyWeights(dev, kernels.BF16)
}

func tinyWeights(dev kernels.Device, d kernels.DType) (*model.Weights, error) {
	c, err := model.Shape("tiny")
	if err != nil {
		return nil, err
	}
	c.Vocab, c.Live, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.MLP, c.MaxPositions, c.InitRange = 97, 95, 32, 2, 4, 2, 16, 48, 512, 0.3
	w, err := model.NewWeights(dev, c, d, 512)
	if err != nil {
		return nil, err
	}
	x, err := kernels.NewTransfer(dev)
	if err != nil {
		return nil, err
	}
	return w, model.Random(x, w, 7)
}

func TestSamplerLogProbsEqualTrainers(t *testing.T) {
	for _, d := range []kernels.DType{kernels.F32, kernels.BF16} {
		t.Run(d.String(), func(t *testing.T) {
			dev, w := tiny(t, d)
			samplerEqualsTrainer(t, dev, w, engine.Config{Pages: 40, Seqs: 8, Rows: 40, Context: 400, Edits: 95, Allowed: 95}, 12, 100)
		})
	}
}

// TestSamplerLogProbsEqualTrainersCUDA says it of a GPU: prompts in chunks, shared prefixes, preemption and decoding, against
// whole sequences, in bits.
func TestSamplerLogProbsEqualTrainersCUDA(t *testing.T) {
	for _, d := range kerneltest.GPU(t) {
		w, err := tinyWeights(d.Device, kernels.BF16)
		if err != nil {
			t.Fatal(err)
		}
		samplerEqualsTrainer(t, d.Device, w, engine.Config{Pages: 8, Seqs: 8, Rows: 40, Context: 300, Edits: 95, Allowed: 95}, 3, 40)
	}
}

// samplerEqualsTrainer samples n groups of three with up to maxTokens each and compares what it says of them with the
// trainer's.
func samplerEqualsTrainer(t *testing.T, dev kernels.Device, w *model.Weights, c engine.Config, n, maxTokens int) {
	t.Helper()
	e, err := engine.New(dev, w, c)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r := rand.New(rand.NewPCG(1, 2))
	var sessions []*engine.Session
	var prompts [][]int32
	for i := range n {
		prompt := make([]int32, 1+r.IntN(150))
		for j := range prompt {
			prompt[j] = int32(r.IntN(95))
		}
		for g := range 3 {
			p := engine.Params{MaxTokens: 1 + r.IntN(maxTokens), Temperature: 0.7}
			switch g { // what changes the draw does not change what is reported of it
			case 1:
				p.Repetition, p.Presence, p.Frequency, p.Bias = 1.3, 0.5, 0.2, map[int32]float32{3: 2}
			case 2:
				p.Allowed, p.TopP, p.MinP = prompt, 0.9, 0.05
			}
			s, err := e.Open(engine.Request{Tokens: prompt, Seed: uint64(i*10 + g), Params: p})
			if err != nil {
				t.Fatal(err)
			}
			sessions, prompts = append(sessions, s), append(prompts, prompt)
		}
	}
	sc, err := trainer.NewScorer(dev, w, 512, c.Context)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range sessions {
		got, err := s.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		s.Close()
		want, err := sc.LogProbs([][]int32{append(prompts[i : i+1 : i+1][0], got.Tokens...)}, 1/(1/float32(0.7)))
		if err != nil {
			t.Fatal(err)
		}
		for j, lp := range got.LogProbs {
			if w := want[0][len(prompts[i])-1+j]; math.Float32bits(w) != math.Float32bits(lp) {
				t.Fatalf("sample %d token %d: sampler %v, trainer %v", i, j, lp, w)
			}
		}
	}
	t.Logf("%+v", e.Stats())
}
