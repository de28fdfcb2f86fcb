package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// What the tests of the row-wise operations share.

// rowsGolden is testdata/rows.json, written by gen_rows.py beside it.
type rowsGolden struct {
	RMSNorm struct {
		T, D                int
		Eps                 float32
		X, R, W, DOut, DRes []float32
		Out, DX, DW         []float64
	}
	QKNormRope struct {
		T, H, K, E, N               int
		Eps                         float32
		Pos                         []int32
		Cos, Sin, QKV, WQ, WK, DOut []float32
		Out, DQKV, DWQ, DWK         []float64
	}
	SwiGLU struct {
		T, F    int
		X, DOut []float32
		Out, DX []float64
	}
	Embedding struct {
		V, D    int
		Tokens  []int32
		W, DOut []float32
		Out, DW []float64
	}
	AdamW []struct {
		LR, Beta1, Beta2, Eps, Decay float32
		W0                           []float32
		Grads                        [][]float32
		W, M, V                      []float64
	}
	GradNorm struct {
		G       []float32
		Norm    float64
		Clipped []float64
	}
}

func golden(t *testing.T) *rowsGolden {
	g := new(rowsGolden)
	kerneltest.Golden(t, "testdata/rows.json", g)
	return g
}

// A rowCase is a shape that blocks, tiles and vectors don't divide, or just do.
type rowCase struct {
	T, D  int
	DType kernels.DType
}

var rowCases = []rowCase{
	{1, 128, kernels.BF16}, {15, 1, kernels.F32}, {15, 16, kernels.BF16}, {16, 40, kernels.F32}, {17, 7, kernels.BF16},
	{17, 128, kernels.F32}, {63, 65, kernels.BF16}, {64, 64, kernels.F32}, {65, 200, kernels.F32}, {65, 129, kernels.BF16},
}

// eachRowCase runs f on every case with a source of its own.
func eachRowCase(t *testing.T, f func(t *testing.T, c rowCase, r *rand.Rand)) {
	for _, c := range rowCases {
		t.Run(fmt.Sprintf("%dx%d %v", c.T, c.D, c.DType), func(t *testing.T) { f(t, c, kerneltest.Rand(t)) })
	}
}

// values is n normal values as dtype d holds them.
func values(r *rand.Rand, d kernels.DType, n int) []float32 {
	return kerneltest.Round(d, kerneltest.Normal(r, n, 1))
}

func maxAbs(xs ...float64) float64 {
	m := 0.0
	for _, x := range xs {
		m = max(m, math.Abs(x))
	}
	return m
}

// nearGradient holds a reference's derivative to finite differences of its forward.
func nearGradient(t *testing.T, name string, got, want []float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > 1e-7*(1+maxAbs(want...)) {
			t.Errorf("reference of %s: %v at %d, finite differences give %v", name, got[i], i, want[i])
			return
		}
	}
}

// reportGBs reports the bytes that an iteration must move, over its time.
func reportGBs(b *testing.B, bytes int) {
	b.ReportMetric(float64(bytes)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
}
