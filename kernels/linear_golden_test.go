package kernels_test

import (
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// linearGolden is what testdata/gen_linear.py writes.
type linearGolden struct {
	Products []struct {
		T, N, K  int
		X, W, DY []float32
		Y, DX    []float64
		DW       []float64
	}
	Heads []struct {
		R, V, D               int
		Inv                   float32
		Target                []int32
		X, W, DLogp, DEntropy []float32
		Logp, Entropy, DX     []float64
		DW                    []float64
	}
	Filters []struct {
		Logits      []float32
		Temperature float64
		TopK        int32   `json:"top_k"`
		TopP        float32 `json:"top_p"`
		MinP        float32 `json:"min_p"`
		Kept        []int
	}
}

// golden values are float64: what is off is the float32 of the operation, a few dozen terms of the order of 1 to 10.
var goldenTol = kerneltest.Tol{Abs: 2e-5, Rel: 1e-5}

func TestLinearTorch(t *testing.T) {
	var g linearGolden
	kerneltest.Golden(t, "testdata/linear.json", &g)
	for _, c := range g.Products {
		got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
			x, w, dy := d.Put(kernels.F32, c.X, c.T, c.K), d.Put(kernels.F32, c.W, c.N, c.K), d.Put(kernels.F32, c.DY, c.T, c.N)
			y, dx, dw := d.Tensor(kernels.F32, c.T, c.N), d.Tensor(kernels.F32, c.T, c.K), d.Zeros(kernels.F32, c.N, c.K)
			kernels.Linear(d.Q, y, x, w)
			kernels.LinearBackward(d.Q, dx, dw, dy, x, w)
			return kerneltest.Results{"y": d.Get(y), "dx": d.Get(dx), "dw": d.Get(dw)}
		})
		kerneltest.Near(t, "y", got["y"], c.Y, goldenTol)
		kerneltest.Near(t, "dx", got["dx"], c.DX, goldenTol)
		kerneltest.Near(t, "dw", got["dw"], c.DW, goldenTol)
	}
}

func TestLogProbTorch(t *testing.T) {
	var g linearGolden
	kerneltest.Golden(t, "testdata/linear.json", &g)
	for _, c := range g.Heads {
		h := &head{R: c.R, V: c.V, D: c.D, invT: c.Inv, target: c.Target}
		h.x, h.w = newOperand(kernels.F32, c.X, c.R, c.D), newOperand(kernels.F32, c.W, c.V, c.D)
		got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
			all := h.run(d, kernels.F32)
			for name, v := range h.backward(d, kernels.F32, c.DLogp, c.DEntropy, make([]float32, c.V*c.D), 10) {
				all[name] = v
			}
			return all
		})
		kerneltest.Near(t, "logp", got["logp"], c.Logp, goldenTol)
		kerneltest.Near(t, "entropy", got["entropy"], c.Entropy, goldenTol)
		kerneltest.Near(t, "dx", got["dx"], c.DX, goldenTol)
		kerneltest.Near(t, "dw", got["dw"], c.DW, goldenTol)
	}
}

// TestSampleTransformers holds kept, which TestSample holds the sampler to, and the draws to transformers' filters.
func TestSampleTransformers(t *testing.T) {
	var g linearGolden
	kerneltest.Golden(t, "testdata/linear.json", &g)
	for _, c := range g.Filters {
		s := kernels.SampleParams{Seed: 5, InvT: float32(1 / c.Temperature), TopK: c.TopK, TopP: c.TopP, MinP: c.MinP}
		if got := kept(c.Logits, s); !slices.Equal(got, c.Kept) {
			t.Errorf("%+v: kept %v, want %v", s, got, c.Kept)
		}
		const R = 100
		params := make([]kernels.SampleParams, R)
		for i := range params {
			params[i] = s
			params[i].Pos = int32(i)
		}
		tokens, _ := draws(t, repeat(c.Logits, R), len(c.Logits), params)
		for i, j := range tokens {
			if want, margin := cdf(c.Logits, c.Kept, s.InvT, uniformOf(params[i])); int(j) != want && margin > 1e-5 {
				t.Errorf("%+v: token %d, want %d of %v", params[i], j, want, c.Kept)
			}
		}
	}
}
