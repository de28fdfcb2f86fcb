package model

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"tandem/model/safetensors"
)

// A golden is a directory of testdata/golden: a tiny model, and what transformers computes with it in float32.
// testdata/gen_golden.py makes them and says what each value is.
type golden struct {
	Name   string
	Dir    string // holds config.json and weights, for ReadConfig and Load
	Config Config

	Prompts     [][]int32   // [P][T]
	LogProbs    [][]float32 // [P][T-1], of every token but the first
	Temperature float32
	LogProbsT   [][]float32 `json:"logprobs_t"` // at Temperature
	Entropy     [][]float32 // [P][T-1], nats, temperature 1
	Greedy      [][]int32   // [P][20]
	Margin      float32     // smallest lead of a chosen logit in Greedy

	Train *goldenTrain // nil for most
}

// A goldenTrain is four supervised steps of AdamW. Param.Decay says what is decayed. Weights afterwards:
// tensors(t, "after"); gradients of the first step before clipping: tensors(t, "grads").
type goldenTrain struct {
	LR, Beta1, Beta2, Eps float64
	WeightDecay           float64 `json:"weight_decay"`
	Clip                  float64
	Steps                 []struct {
		Sequences [][]int32 // [S][T]
		From      []int     // [S], tokens from this index on are learned
		Loss      float64   // mean of -logprob over the learned tokens of the step
		Norm      float64   // of the gradient before it is clipped
	}
}

// goldens reads every directory of testdata/golden.
func goldens(t testing.TB) []golden {
	t.Helper()
	dirs, err := filepath.Glob("testdata/golden/*")
	if err != nil {
		t.Fatal(err)
	}
	var gs []golden
	for _, dir := range dirs {
		g := golden{Name: filepath.Base(dir), Dir: dir}
		text, err := os.ReadFile(filepath.Join(dir, "golden.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, &g); err != nil {
			t.Fatalf("%s: %v", dir, err)
		}
		if g.Config, err = ReadConfig(dir); err != nil {
			t.Fatal(err)
		}
		gs = append(gs, g)
	}
	if len(gs) == 0 {
		t.Fatal("testdata/golden is empty; testdata/gen_golden.py makes it")
	}
	return gs
}

// tensors reads a file beside the model, in float32.
func (g golden) tensors(t testing.TB, stem string) map[string][]float32 {
	t.Helper()
	f, err := safetensors.Open(filepath.Join(g.Dir, stem+".safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	out := map[string][]float32{}
	for _, x := range f.Tensors {
		v := make([]float32, x.Elems())
		b := make([]byte, 4*len(v))
		safetensors.Convert(b, safetensors.F32, x.Data, x.DType)
		copy(v, Float32s(b))
		out[x.Name] = v
	}
	return out
}

func TestGoldens(t *testing.T) {
	groups, trained, tied, yarn, sharded := map[int]bool{}, 0, map[bool]bool{}, false, false
	for _, g := range goldens(t) {
		c := g.Config
		groups[c.Heads/c.KVHeads], tied[c.Tied] = true, true
		yarn = yarn || c.RopeScaling != nil
		if _, err := os.Stat(filepath.Join(g.Dir, "model.safetensors.index.json")); err == nil {
			sharded = true
		}
		if len(g.LogProbs) != len(g.Prompts) || len(g.Entropy) != len(g.Prompts) || len(g.LogProbsT) != len(g.Prompts) || len(g.Greedy) != len(g.Prompts) {
			t.Fatalf("%s: a list is not as long as prompts", g.Name)
		}
		for i, p := range g.Prompts {
			if len(g.LogProbs[i]) != len(p)-1 || len(g.LogProbsT[i]) != len(p)-1 || len(g.Entropy[i]) != len(p)-1 {
				t.Fatalf("%s: prompt %d has %d tokens and %d log-probs", g.Name, i, len(p), len(g.LogProbs[i]))
			}
			if len(p)+len(g.Greedy[i]) > c.Context() {
				t.Errorf("%s: prompt %d does not fit the context of %d", g.Name, i, c.Context())
			}
			for k := range g.LogProbs[i] {
				if e := float64(g.Entropy[i][k]); g.LogProbs[i][k] >= 0 || e <= 0 || e > math.Log(float64(c.Vocab)) {
					t.Fatalf("%s: prompt %d token %d: log-prob %v, entropy %v", g.Name, i, k+1, g.LogProbs[i][k], e)
				}
			}
		}
		if g.Train == nil {
			continue
		}
		trained++
		for _, file := range []string{"after", "grads"} {
			got := g.tensors(t, file)
			for _, p := range Params(c) {
				if len(got[p.Name]) != p.Len() {
					t.Errorf("%s: %s of %s has %d elements, want %d", g.Name, file, p.Name, len(got[p.Name]), p.Len())
				}
			}
		}
	}
	for _, n := range []int{1, 2, 3, 4, 5, 8} {
		if !groups[n] {
			t.Errorf("no model has %d query heads a key/value head", n)
		}
	}
	if trained < 2 || len(tied) != 2 || !yarn || !sharded {
		t.Errorf("trained %d, tied %v, yarn %v, sharded %v: want two, both, one, one", trained, tied, yarn, sharded)
	}
}
