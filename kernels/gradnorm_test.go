package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// gradNorm runs GradNorm on every device.
func gradNorm(t *testing.T, g []float32) float32 {
	t.Helper()
	return kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
		norm := d.Tensor(kernels.F32, 1)
		leaves := d.Tensor(kernels.U64, (len(g)+kernels.NormLeaf-1)/kernels.NormLeaf)
		kernels.GradNorm(d.Q, norm, leaves, d.Put(kernels.F32, g, len(g)))
		return kerneltest.Results{"norm": d.Get(norm)}
	})["norm"][0]
}

func TestGradNorm(t *testing.T) {
	for _, n := range []int{1, 3, 4, 5, 4095, 4096, 4097, 3*4096 + 1, 50000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			g := values(kerneltest.Rand(t), kernels.F32, n)
			sum := 0.0
			for _, v := range g {
				sum += float64(v) * float64(v)
			}
			kerneltest.Near(t, "norm", []float32{gradNorm(t, g)}, []float64{math.Sqrt(sum)}, kerneltest.Tol{Rel: 0x1p-24 * (1 + 1e-4)})
		})
	}
}

func TestGradNormValues(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	long := make([]float32, 10000)
	long[9999] = nan
	for _, c := range []struct {
		name string
		g    []float32
		want float64
	}{
		{"clip case", []float32{3, 4}, 5},
		{"zero", make([]float32, 5000), 0},
		{"NaN", []float32{3, nan}, math.NaN()},
		{"NaN in the last leaf", long, math.NaN()},
		{"infinity", []float32{1, inf, 2}, math.Inf(1)},
		{"minus infinity", []float32{1, -inf, 2}, math.Inf(1)},
		{"squares beyond float32", []float32{3e30, 4e30}, 5e30},
		{"squares below float32", []float32{3e-30, 4e-30}, 5e-30},
		{"norm beyond float32", []float32{3e38, 3e38}, math.Inf(1)},
		{"torch", golden(t).GradNorm.G, golden(t).GradNorm.Norm},
	} {
		t.Run(c.name, func(t *testing.T) {
			kerneltest.Near(t, "norm", []float32{gradNorm(t, c.g)}, []float64{c.want}, kerneltest.Tol{Rel: 1e-7})
		})
	}
}

func BenchmarkGradNorm(b *testing.B) {
	d := kerneltest.CPU(b, kernels.CPUConfig{})
	g, norm, leaves := d.Zeros(kernels.F32, 1<<22), d.Zeros(kernels.F32, 1), d.Zeros(kernels.U64, 1<<10)
	for b.Loop() {
		kernels.GradNorm(d.Q, norm, leaves, g)
	}
	reportGBs(b, g.Bytes())
}
