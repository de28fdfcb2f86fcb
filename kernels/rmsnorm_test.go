package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

const eps = 1e-6

func TestRMSNorm(t *testing.T) {
	eachRowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		T, D, dt := c.T, c.D, c.DType
		x, w := values(r, dt, T*D), values(r, dt, D)
		clear(x[(T-1)*D:]) // a padding row
		got := kerneltest.Agree(t, c.rmsNorm(t, x, w))
		out, rstd := rmsNorm(kerneltest.F64(x), kerneltest.F64(w), D, eps)
		kerneltest.Near(t, "out", got["out"], out, kerneltest.Tol{Rel: kerneltest.Unit(dt) + dotUnits(D)})
		kerneltest.Near(t, "rstd", got["rstd"], rstd, kerneltest.Tol{Rel: dotUnits(D)})
	})
}

func (c rowCase) rmsNorm(t *testing.T, x, w []float32) func(d *kerneltest.Device) kerneltest.Results {
	T, D, dt := c.T, c.D, c.DType
	return func(d *kerneltest.Device) kerneltest.Results {
		out, rstd := d.Tensor(dt, T, D), d.Tensor(kernels.F32, T)
		silent, alone := d.Tensor(dt, T, D), d.Tensor(dt, T, D)
		dx, dw := d.Put(dt, x, T, D), d.Put(dt, w, D)
		kernels.RMSNorm(d.Q, out, rstd, dx, dw, eps)
		kernels.RMSNorm(d.Q, silent, kernels.Tensor{}, dx, dw, eps)
		for i := range T {
			kernels.RMSNorm(d.Q, alone.Rows(i, i+1), kernels.Tensor{}, dx.Rows(i, i+1), dw, eps)
		}
		kerneltest.Same(t, "out without rstd", d.Get(silent), d.Get(out))
		kerneltest.Same(t, "out of rows alone", d.Get(alone), d.Get(out))
		return kerneltest.Results{"out": d.Get(out), "rstd": d.Get(rstd)}
	}
}

func TestAddRMSNorm(t *testing.T) {
	eachRowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		T, D, dt := c.T, c.D, c.DType
		x, res, w := values(r, dt, T*D), values(r, dt, T*D), values(r, dt, D)
		got := kerneltest.Agree(t, c.addRMSNorm(t, x, res, w))
		sum := make([]float32, len(x))
		for i := range x {
			sum[i] = x[i] + res[i]
		}
		kerneltest.Same(t, "sum", got["sum"], kerneltest.Round(dt, sum))
		out, _ := rmsNorm(kerneltest.F64(got["sum"]), kerneltest.F64(w), D, eps)
		kerneltest.Near(t, "out", got["out"], out, kerneltest.Tol{Rel: kerneltest.Unit(dt) + dotUnits(D)})
	})
}

func (c rowCase) addRMSNorm(t *testing.T, x, res, w []float32) func(d *kerneltest.Device) kerneltest.Results {
	T, D, dt := c.T, c.D, c.DType
	return func(d *kerneltest.Device) kerneltest.Results {
		dx, dr, dw := d.Put(dt, x, T, D), d.Put(dt, res, T, D), d.Put(dt, w, D)
		sum, out, rstd := d.Tensor(dt, T, D), d.Tensor(dt, T, D), d.Tensor(kernels.F32, T)
		kernels.AddRMSNorm(d.Q, sum, out, rstd, dx, dr, dw, eps)
		apart := d.Tensor(dt, T, D)
		kernels.RMSNorm(d.Q, apart, kernels.Tensor{}, sum, dw, eps)
		kerneltest.Same(t, "out against RMSNorm(sum)", d.Get(out), d.Get(apart))

		in := d.Put(dt, x, T, D)
		kernels.AddRMSNorm(d.Q, in, apart, kernels.Tensor{}, in, dr, dw, eps)
		kerneltest.Same(t, "sum in place of x", d.Get(in), d.Get(sum))
		kerneltest.Same(t, "out with sum in place of x", d.Get(apart), d.Get(out))
		kernels.AddRMSNorm(d.Q, dr, apart, kernels.Tensor{}, dx, dr, dw, eps)
		kerneltest.Same(t, "sum in place of r", d.Get(dr), d.Get(sum))
		kerneltest.Same(t, "out with sum in place of r", d.Get(apart), d.Get(out))
		return kerneltest.Results{"sum": d.Get(sum), "out": d.Get(out)}
	}
}

func TestRMSNormBackward(t *testing.T) {
	eachRowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		T, D, dt := c.T, c.D, c.DType
		x, w, dout, dres := values(r, dt, T*D), values(r, dt, D), values(r, dt, T*D), values(r, dt, T*D)
		before := values(r, kernels.F32, D)
		_, rstd64 := rmsNorm(kerneltest.F64(x), kerneltest.F64(w), D, eps)
		rstd := make([]float32, T)
		for i := range rstd {
			rstd[i] = float32(rstd64[i])
		}
		got := kerneltest.Agree(t, c.rmsNormBackward(t, dout, dres, rstd, x, w, before))
		dx, dw, size, sizeW := rmsNormBackward(kerneltest.F64(dout), kerneltest.F64(rstd), kerneltest.F64(x), kerneltest.F64(w))
		tol := kerneltest.Tol{Abs: size * dotUnits(D), Rel: kerneltest.Unit(dt)}
		kerneltest.Near(t, "dx without dres", got["bare"], dx, tol)
		for i := range dx {
			dx[i] += float64(dres[i])
		}
		kerneltest.Near(t, "dx", got["dx"], dx, tol)
		for i := range dw {
			dw[i] += float64(before[i])
		}
		kerneltest.Near(t, "dw", got["dw"], dw, kerneltest.Tol{Abs: (sizeW + maxAbs(dw...)) * dotUnits(16*T), Rel: 0})
	})
}

func (c rowCase) rmsNormBackward(t *testing.T, dout, dres, rstd, x, w, before []float32) func(d *kerneltest.Device) kerneltest.Results {
	T, D, dt := c.T, c.D, c.DType
	return func(d *kerneltest.Device) kerneltest.Results {
		X, W, DOut, DRes := d.Put(dt, x, T, D), d.Put(dt, w, D), d.Put(dt, dout, T, D), d.Put(dt, dres, T, D)
		Rstd, none, leaves := d.Put(kernels.F32, rstd, T), kernels.Tensor{}, d.Tensor(kernels.F32, (T+15)/16, D)
		dx, dw := d.Tensor(dt, T, D), d.Put(kernels.F32, before, D)
		kernels.RMSNormBackward(d.Q, dx, dw, leaves, DOut, DRes, Rstd, X, W)
		bare, dw2 := d.Tensor(dt, T, D), d.Put(kernels.F32, before, D)
		kernels.RMSNormBackward(d.Q, bare, dw2, leaves, DOut, none, Rstd, X, W)
		kerneltest.Same(t, "dw without dres", d.Get(dw2), d.Get(dw))

		alone, dw3 := d.Tensor(dt, T, D), d.Put(kernels.F32, before, D)
		for i := 0; i < T; i += 16 { // as micro-batches
			j := min(i+16, T)
			kernels.RMSNormBackward(d.Q, alone.Rows(i, j), dw3, leaves.Rows(0, 1), DOut.Rows(i, j), DRes.Rows(i, j), Rstd.Rows(i, j), X.Rows(i, j), W)
		}
		kerneltest.Same(t, "dx of 16 rows at a time", d.Get(alone), d.Get(dx))
		kerneltest.Same(t, "dw of 16 rows at a time", d.Get(dw3), d.Get(dw))

		kernels.RMSNormBackward(d.Q, DRes, dw3, leaves, DOut, DRes, Rstd, X, W)
		kerneltest.Same(t, "dx in place of dres", d.Get(DRes), d.Get(dx))
		dw4 := d.Put(kernels.F32, before, D)
		kernels.RMSNormBackward(d.Q, DOut, dw4, leaves, DOut, none, Rstd, X, W)
		kerneltest.Same(t, "dx in place of dout", d.Get(DOut), d.Get(bare))
		kerneltest.Same(t, "dw with dx in place of dout", d.Get(dw4), d.Get(dw))
		return kerneltest.Results{"dx": d.Get(dx), "bare": d.Get(bare), "dw": d.Get(dw)}
	}
}

func TestRMSNormGolden(t *testing.T) {
	g := golden(t).RMSNorm
	d := kerneltest.Devices(t)[0]
	f32 := func(x []float32) kernels.Tensor { return d.Put(kernels.F32, x, g.T, g.D) }
	sum, out, rstd := d.Tensor(kernels.F32, g.T, g.D), d.Tensor(kernels.F32, g.T, g.D), d.Tensor(kernels.F32, g.T)
	dx, dw, w := d.Tensor(kernels.F32, g.T, g.D), d.Zeros(kernels.F32, g.D), d.Put(kernels.F32, g.W, g.D)
	leaves := d.Tensor(kernels.F32, (g.T+15)/16, g.D)
	kernels.AddRMSNorm(d.Q, sum, out, rstd, f32(g.X), f32(g.R), w, g.Eps)
	kernels.RMSNormBackward(d.Q, dx, dw, leaves, f32(g.DOut), f32(g.DRes), rstd, sum, w)
	tol := kerneltest.Tol{Abs: 1e-6, Rel: 1e-6}
	kerneltest.Near(t, "out", d.Get(out), g.Out, tol)
	kerneltest.Near(t, "dx", d.Get(dx), g.DX, tol)
	kerneltest.Near(t, "dw", d.Get(dw), g.DW, tol)
}

func TestRMSNormReference(t *testing.T) {
	r := kerneltest.Rand(t)
	const T, D = 2, 5
	x, w, dout := kerneltest.F64(values(r, kernels.F32, T*D)), kerneltest.F64(values(r, kernels.F32, D)), kerneltest.F64(values(r, kernels.F32, T*D))
	loss := func() float64 { out, _ := rmsNorm(x, w, D, eps); return kerneltest.Dot(out, dout) }
	_, rstd := rmsNorm(x, w, D, eps)
	dx, dw, _, _ := rmsNormBackward(dout, rstd, x, w)
	nearGradient(t, "dx", dx, kerneltest.Gradient(loss, x))
	nearGradient(t, "dw", dw, kerneltest.Gradient(loss, w))
}

// dotUnits bounds the relative error of a float32 sum over n on 16 lanes and of a few steps after it.
func dotUnits(n int) float64 { return float64(n/16+12) * 0x1p-24 }

// rmsNorm is the operation in float64.
func rmsNorm(x, w []float64, D int, eps float64) (out, rstd []float64) {
	out = make([]float64, len(x))
	for at := 0; at < len(x); at += D {
		row := x[at:][:D]
		r := 1 / math.Sqrt(kerneltest.Dot(row, row)/float64(D)+eps)
		for i, v := range row {
			out[at+i] = v * r * w[i]
		}
		rstd = append(rstd, r)
	}
	return out, rstd
}

// rmsNormBackward is the gradients in float64 and the largest sums of absolute terms in them.
func rmsNormBackward(dout, rstd, x, w []float64) (dx, dw []float64, size, sizeW float64) {
	D := len(w)
	dx, dw = make([]float64, len(x)), make([]float64, D)
	absW := make([]float64, D)
	for t, r := range rstd {
		s, abs := 0.0, 0.0
		for i := range D {
			p := dout[t*D+i] * w[i] * x[t*D+i]
			s, abs = s+p, abs+math.Abs(p)
		}
		for i := range D {
			k := t*D + i
			dx[k] = dout[k]*w[i]*r - x[k]*r*r*r*s/float64(D)
			dw[i] += dout[k] * x[k] * r
			size = max(size, math.Abs(dout[k]*w[i]*r)+math.Abs(x[k])*r*r*r*abs/float64(D))
			absW[i] += math.Abs(dout[k] * x[k] * r)
		}
	}
	return dx, dw, size, maxAbs(absW...)
}

// The shapes of the demo and of Qwen3-0.6B and 8B.
var normBenchmarks = []struct {
	name string
	T, D int
}{{"demo", 1024, 128}, {"0.6B", 512, 1024}, {"8B decode", 1, 4096}, {"8B", 128, 4096}}

func BenchmarkRMSNorm(b *testing.B) {
	for _, c := range normBenchmarks {
		b.Run(c.name, func(b *testing.B) {
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			sum, out, rstd := d.Zeros(kernels.BF16, c.T, c.D), d.Zeros(kernels.BF16, c.T, c.D), d.Zeros(kernels.F32, c.T)
			x, r, w := d.Zeros(kernels.BF16, c.T, c.D), d.Zeros(kernels.BF16, c.T, c.D), d.Zeros(kernels.BF16, c.D)
			for b.Loop() {
				kernels.AddRMSNorm(d.Q, sum, out, rstd, x, r, w, eps)
			}
			reportGBs(b, 4*out.Bytes())
		})
	}
}

func BenchmarkRMSNormBackward(b *testing.B) {
	for _, c := range normBenchmarks {
		b.Run(c.name, func(b *testing.B) {
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			dx, dout, rstd := d.Zeros(kernels.BF16, c.T, c.D), d.Zeros(kernels.BF16, c.T, c.D), d.Zeros(kernels.F32, c.T)
			x, w, dw := d.Zeros(kernels.BF16, c.T, c.D), d.Zeros(kernels.BF16, c.D), d.Zeros(kernels.F32, c.D)
			leaves := d.Zeros(kernels.F32, (c.T+15)/16, c.D)
			for b.Loop() {
				kernels.RMSNormBackward(d.Q, dx, dw, leaves, dout, dx, rstd, x, w)
			}
			reportGBs(b, 4*dx.Bytes()+2*leaves.Bytes())
		})
	}
}
