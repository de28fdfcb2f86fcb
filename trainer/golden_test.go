package trainer

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"tandem/engine"
	"tandem/kernels"
	"tandem/model"
	"tandem/model/safetensors"
)

// A golden is what transformers and torch compute in float32 with a tiny model; model/testdata/gen_golden.py makes them.
type golden struct {
	dir         string
	config      model.Config
	Prompts     [][]int32   // [P][T]
	LogProbs    [][]float32 // [P][T-1]
	Temperature float32
	LogProbsT   [][]float32 `json:"logprobs_t"`
	Entropy     [][]float32
	Greedy      [][]int32
	Margin      float32
	Train       *struct {
		LR, Beta1, Beta2, Eps float32
		WeightDecay           float32 `json:"weight_decay"`
		Clip                  float64
		Steps                 []struct {
			Sequences [][]int32
			From      []int
			Loss      float64
			Norm      float64
		}
	}
}

func goldens(t *testing.T) map[string]*golden {
	t.Helper()
	dirs, err := filepath.Glob("../model/testdata/golden/*")
	if err != nil || len(dirs) < 6 {
		t.Fatalf("%d golden models, %v", len(dirs), err)
	}
	out := make(map[string]*golden)
	for _, dir := range dirs {
		g := &golden{dir: dir}
		b, err := os.ReadFile(filepath.Join(dir, "golden.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(b, g); err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		if g.config, err = model.ReadConfig(dir); err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(dir)] = g
	}
	return out
}

func (g *golden) load(t *testing.T, dev kernels.Device, d kernels.DType) *model.Weights {
	t.Helper()
	w, err := model.NewWeights(dev, g.config, d, g.config.Context())
	if err != nil {
		t.Fatal(err)
	}
	x, err := kernels.NewTransfer(dev)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Load(x, g.dir); err != nil {
		t.Fatal(err)
	}
	return w
}

func cpu(t *testing.T) *kernels.CPU {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUConfig{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

// worst is the largest difference, with its place.
func worst(got, want [][]float32) (d float64, i, j int) {
	for a := range want {
		for b := range want[a] {
			if e := math.Abs(float64(got[a][b]) - float64(want[a][b])); !(e <= d) {
				d, i, j = e, a, b
			}
		}
	}
	return d, i, j
}

func TestLogProbsEqualTransformers(t *testing.T) {
	for name, g := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			dev := cpu(t)
			s, err := NewScorer(dev, g.load(t, dev, kernels.F32), 256, g.config.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range []struct {
				temperature float32
				want        [][]float32
			}{{1, g.LogProbs}, {g.Temperature, g.LogProbsT}} {
				got, err := s.LogProbs(g.Prompts, c.temperature)
				if err != nil {
					t.Fatal(err)
				}
				if d, i, j := worst(got, c.want); d > 2e-5 {
					t.Errorf("temperature %v: %.3g: prompt %d, token %d: %v, want %v", c.temperature, d, i, j+1, got[i][j], c.want[i][j])
				}
			}
			p := s.pass
			for i, prompt := range g.Prompts {
				p.reset()
				p.add(prompt, []span{{1, len(prompt)}})
				if err := p.forward(1); err != nil {
					t.Fatal(err)
				}
				got := p.entropy.host[:len(prompt)-1]
				if d, _, j := worst([][]float32{got}, g.Entropy[i:i+1]); d > 2e-5 {
					t.Errorf("entropy: %.3g: prompt %d, token %d: %v, want %v", d, i, j+1, got[j], g.Entropy[i][j])
				}
			}
		})
	}
}

func TestGreedyEqualsTransformers(t *testing.T) {
	for name, g := range goldens(t) {
		t.Run(name, func(t *testing.T) {
			dev := cpu(t)
			longest := 0
			for _, p := range g.Prompts {
				longest = max(longest, len(p))
			}
			context := longest + len(g.Greedy[0])
			e, err := engine.New(dev, g.load(t, dev, kernels.F32), engine.Config{Pages: 2 * model.PagesFor(context), Seqs: 3, Rows: 13, Context: context})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			var sessions []*engine.Session
			for i, p := range g.Prompts {
				s, err := e.Open(engine.Request{Tokens: p, Params: engine.Params{MaxTokens: len(g.Greedy[i])}})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				sessions = append(sessions, s)
			}
			for i, s := range sessions {
				got, err := s.Next(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for j, want := range g.Greedy[i] {
					if got.Tokens[j] != want {
						t.Fatalf("prompt %d: token %d of the reply is %d, want %d (the smallest lead of a chosen logit is %g)", i, j, got.Tokens[j], want, g.Margin)
					}
				}
			}
		})
	}
}

// TestAdamWStepsEqualTorch repeats four supervised steps: losses and norms to float32 rounding, weights to a small part of
// what a step moves them.
func TestAdamWStepsEqualTorch(t *testing.T) {
	trained := 0
	for name, g := range goldens(t) {
		if g.Train == nil {
			continue
		}
		trained++
		t.Run(name, func(t *testing.T) {
			dev := cpu(t)
			w := g.load(t, dev, kernels.F32)
			r := testRecipe()
			r.Model.Context, r.Train.Rows = g.config.Context(), 256
			l, err := newLearner(dev, apart(dev), w, r)
			if err != nil {
				t.Fatal(err)
			}
			tr := g.Train
			if tr.Clip != 1 {
				t.Fatalf("clip %v", tr.Clip)
			}
			if err := l.restart(OptimizerConfig{Beta1: tr.Beta1, Beta2: tr.Beta2, Eps: tr.Eps, WeightDecay: tr.WeightDecay, ClipNorm: "1", MaxSkips: 1}); err != nil {
				t.Fatal(err)
			}
			for n, st := range tr.Steps {
				var group []*Rollout
				for i, tokens := range st.Sequences {
					group = append(group, &Rollout{Tokens: tokens, Spans: []span{{st.From[i], len(tokens)}}})
				}
				samples, factor, err := weigh(Supervised(), [][]*Rollout{group}, rewards([][]*Rollout{group}), LossToken, 1)
				if err != nil {
					t.Fatal(err)
				}
				l.zero()
				var loss float64
				if err := l.accumulate(context.Background(), Supervised(), samples, 1, func(s *sample) { loss += float64(s.loss) * float64(factor) }); err != nil {
					t.Fatal(err)
				}
				norm, err := l.step(factor, tr.LR)
				if err != nil {
					t.Fatal(err)
				}
				if math.Abs(loss-st.Loss) > 1e-5*st.Loss || math.Abs(norm-st.Norm) > 1e-4*st.Norm {
					t.Errorf("step %d: loss %.7g, norm %.7g, want %.7g and %.7g", n, loss, norm, st.Loss, st.Norm)
				}
			}
			g.compareWeights(t, l, "after", float64(tr.LR))
		})
	}
	if trained < 2 {
		t.Errorf("%d golden models have training steps, want 2", trained)
	}
}

// compareWeights holds every weight to the file's within a hundredth of what the steps may have moved it: where a gradient
// is near 0, AdamW's quotient magnifies its rounding.
func (g *golden) compareWeights(t *testing.T, l *learner, stem string, lr float64) {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(g.dir, stem+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	want := make(map[string][]float32)
	for _, x := range f.Tensors {
		b := make([]byte, 4*x.Elems())
		safetensors.Convert(b, safetensors.F32, x.Data, x.DType)
		want[x.Name] = model.Float32s(b)
	}
	for _, p := range model.Params(g.config) {
		got := make([]float32, p.Len())
		if err := l.host.Get(got, l.w.Arena, p.Off); err != nil {
			t.Fatal(err)
		}
		if d, _, j := worst([][]float32{got}, [][]float32{want[p.Name]}); d > 0.04*lr {
			t.Errorf("%s: %.3g: element %d: %v, want %v", p.Name, d, j, got[j], want[p.Name][j])
		}
	}
}
