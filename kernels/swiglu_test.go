package kernels_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// siluUnits is the relative error of silu in float32: exp2 to 1 ulp, whose argument is rounded (up to 2^-24·|g|·log2 e
// in the exponent), and a few more roundings.
func siluUnits(maxGate float64) float64 { return (8 + 2*maxGate) * 0x1p-24 }

func TestSwiGLU(t *testing.T) {
	eachRowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		T, F, dt := c.T, c.D, c.DType
		x := kerneltest.Round(dt, kerneltest.Normal(r, T*2*F, 4))
		got := kerneltest.Agree(t, c.swiglu(t, x))
		x64 := kerneltest.F64(x)
		kerneltest.Near(t, "out", got["out"], swiglu(x64, F), kerneltest.Tol{Abs: 0x1p-126, Rel: kerneltest.Unit(dt) + siluUnits(maxAbs(x64...))})
	})
}

func (c rowCase) swiglu(t *testing.T, x []float32) func(d *kerneltest.Device) kerneltest.Results {
	T, F, dt := c.T, c.D, c.DType
	return func(d *kerneltest.Device) kerneltest.Results {
		out, alone, in := d.Tensor(dt, T, F), d.Tensor(dt, T, F), d.Put(dt, x, T, 2*F)
		kernels.SwiGLU(d.Q, out, in)
		for i := range T {
			kernels.SwiGLU(d.Q, alone.Rows(i, i+1), in.Rows(i, i+1))
		}
		kerneltest.Same(t, "out of rows alone", d.Get(alone), d.Get(out))
		return kerneltest.Results{"out": d.Get(out)}
	}
}

func TestSwiGLUBackward(t *testing.T) {
	eachRowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		T, F, dt := c.T, c.D, c.DType
		x, dout := kerneltest.Round(dt, kerneltest.Normal(r, T*2*F, 4)), values(r, dt, T*F)
		got := kerneltest.Agree(t, c.swigluBackward(t, dout, x))
		// Near its zero, s·(1 + gate·(1-s)) is a difference of numbers up to |gate|.
		x64, d64 := kerneltest.F64(x), kerneltest.F64(dout)
		abs := siluUnits(maxAbs(x64...)) * maxAbs(x64...) * maxAbs(d64...)
		kerneltest.Near(t, "dgateup", got["dgateup"], swigluBackward(d64, x64, F), kerneltest.Tol{Abs: abs, Rel: kerneltest.Unit(dt) + siluUnits(maxAbs(x64...))})
	})
}

func (c rowCase) swigluBackward(t *testing.T, dout, x []float32) func(d *kerneltest.Device) kerneltest.Results {
	T, F, dt := c.T, c.D, c.DType
	return func(d *kerneltest.Device) kerneltest.Results {
		dx, alone, in, up := d.Tensor(dt, T, 2*F), d.Tensor(dt, T, 2*F), d.Put(dt, x, T, 2*F), d.Put(dt, dout, T, F)
		kernels.SwiGLUBackward(d.Q, dx, up, in)
		for i := range T {
			kernels.SwiGLUBackward(d.Q, alone.Rows(i, i+1), up.Rows(i, i+1), in.Rows(i, i+1))
		}
		kerneltest.Same(t, "dgateup of rows alone", d.Get(alone), d.Get(dx))
		kernels.SwiGLUBackward(d.Q, in, up, in)
		kerneltest.Same(t, "dgateup in place of gateup", d.Get(in), d.Get(dx))
		return kerneltest.Results{"dgateup": d.Get(dx)}
	}
}

// Far out the gate is either open or shut: no infinity over infinity.
func TestSwiGLUExtremes(t *testing.T) {
	gates := []float32{0, 88, -88, 100, -100, 1e30, -1e30}
	F := len(gates)
	x := append(append([]float32{}, gates...), make([]float32, F)...)
	for i := range gates {
		x[F+i] = 1
	}
	for _, d := range kerneltest.Devices(t) {
		out, dx, in := d.Tensor(kernels.F32, 1, F), d.Tensor(kernels.F32, 1, 2*F), d.Put(kernels.F32, x, 1, 2*F)
		kernels.SwiGLU(d.Q, out, in)
		kernels.SwiGLUBackward(d.Q, dx, d.Put(kernels.F32, x[F:], 1, F), in)
		tol := kerneltest.Tol{Abs: 1e-35, Rel: siluUnits(100)}
		kerneltest.Near(t, "out", d.Get(out), swiglu(kerneltest.F64(x), F), tol)
		kerneltest.Near(t, "dgateup", d.Get(dx), []float64{0.5, 1, 0, 1, 0, 1, 0, 0, 88, 0, 100, 0, 1e30, 0}, kerneltest.Tol{Abs: 1e-35, Rel: siluUnits(100)})
	}
}

func TestSwiGLUGolden(t *testing.T) {
	g := golden(t).SwiGLU
	d := kerneltest.Devices(t)[0]
	out, dx, x := d.Tensor(kernels.F32, g.T, g.F), d.Tensor(kernels.F32, g.T, 2*g.F), d.Put(kernels.F32, g.X, g.T, 2*g.F)
	kernels.SwiGLU(d.Q, out, x)
	kernels.SwiGLUBackward(d.Q, dx, d.Put(kernels.F32, g.DOut, g.T, g.F), x)
	tol := kerneltest.Tol{Abs: 1e-6, Rel: 2e-6}
	kerneltest.Near(t, "out", d.Get(out), g.Out, tol)
	kerneltest.Near(t, "dgateup", d.Get(dx), g.DX, tol)
}

func TestSwiGLUReference(t *testing.T) {
	r := kerneltest.Rand(t)
	const T, F = 2, 3
	x, dout := kerneltest.F64(values(r, kernels.F32, T*2*F)), kerneltest.F64(values(r, kernels.F32, T*F))
	nearGradient(t, "dgateup", swigluBackward(dout, x, F), kerneltest.Gradient(func() float64 { return kerneltest.Dot(swiglu(x, F), dout) }, x))
}

func swiglu(x []float64, F int) []float64 {
	var out []float64
	for ; len(x) > 0; x = x[2*F:] {
		for i, g := range x[:F] {
			out = append(out, g/(1+math.Exp(-g))*x[F+i])
		}
	}
	return out
}

func swigluBackward(dout, x []float64, F int) []float64 {
	dx := make([]float64, len(x))
	for i, d := range dout {
		at := i/F*2*F + i%F
		g, u := x[at], x[at+F]
		s := 1 / (1 + math.Exp(-g))
		dx[at], dx[at+F] = d*u*s*(1+g*(1-s)), d*g*s
	}
	return dx
}

var swigluBenchmarks = []struct {
	name string
	T, F int
}{{"demo", 1024, 384}, {"0.6B", 128, 3072}, {"8B decode", 1, 12288}, {"8B", 32, 12288}}

func BenchmarkSwiGLU(b *testing.B) {
	for _, c := range swigluBenchmarks {
		b.Run(c.name, func(b *testing.B) {
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			out, in := d.Zeros(kernels.BF16, c.T, c.F), d.Zeros(kernels.BF16, c.T, 2*c.F)
			for b.Loop() {
				kernels.SwiGLU(d.Q, out, in)
			}
			reportGBs(b, 3*out.Bytes())
		})
	}
}

func BenchmarkSwiGLUBackward(b *testing.B) {
	for _, c := range swigluBenchmarks {
		b.Run(c.name, func(b *testing.B) {
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			dx, dout, in := d.Zeros(kernels.BF16, c.T, 2*c.F), d.Zeros(kernels.BF16, c.T, c.F), d.Zeros(kernels.BF16, c.T, 2*c.F)
			for b.Loop() {
				kernels.SwiGLUBackward(d.Q, dx, dout, in)
			}
			reportGBs(b, 5*dout.Bytes())
		})
	}
}
