package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// A ropeCase is the inputs of a case on the host.
type ropeCase struct {
	T, H, K, E, N     int
	dt                kernels.DType
	qkv, wq, wk, dout []float32
	cos, sin          []float32
	pos               []int32
	dwq, dwk          []float32 // before
	rstd              []float32
}

func newRopeCase(r *rand.Rand, T, H, K, E int, dt kernels.DType) *ropeCase {
	c := &ropeCase{T: T, H: H, K: K, E: E, N: T + 40, dt: dt}
	n := T * (H + 2*K) * E
	c.qkv, c.dout = values(r, dt, n), values(r, dt, n)
	c.wq, c.wk = values(r, dt, E), values(r, dt, E)
	c.dwq, c.dwk = values(r, kernels.F32, E), values(r, kernels.F32, E)
	for p := range c.N {
		for i := range E / 2 {
			a := float64(p) * math.Pow(1e6, -float64(2*i)/float64(E))
			c.cos, c.sin = append(c.cos, float32(math.Cos(a))), append(c.sin, float32(math.Sin(a)))
		}
	}
	for range T {
		c.pos = append(c.pos, int32(r.IntN(c.N)))
	}
	if T > 1 {
		c.pos[T/2] = -1
	}
	_, rstd := c.forward(kerneltest.F64(c.qkv), kerneltest.F64(c.wq), kerneltest.F64(c.wk))
	for _, v := range rstd {
		c.rstd = append(c.rstd, float32(v))
	}
	return c
}

func eachRopeCase(t *testing.T, f func(t *testing.T, c *ropeCase)) {
	for _, s := range []struct {
		T, H, K, E int
		dt         kernels.DType
	}{
		{1, 4, 2, 128, kernels.BF16}, {15, 1, 1, 16, kernels.F32}, {16, 6, 2, 32, kernels.F32}, {17, 5, 1, 64, kernels.BF16},
		{17, 2, 2, 128, kernels.F32}, {33, 4, 2, 40, kernels.F32}, {64, 3, 1, 2, kernels.BF16}, {65, 4, 2, 32, kernels.BF16},
	} {
		t.Run(fmt.Sprintf("T%d H%d K%d E%d %v", s.T, s.H, s.K, s.E, s.dt), func(t *testing.T) {
			f(t, newRopeCase(kerneltest.Rand(t), s.T, s.H, s.K, s.E, s.dt))
		})
	}
}

// ropeTensors is the case on a device.
type ropeTensors struct{ qkv, wq, wk, pos, cos, sin, rstd, dqkv, dwq, dwk, leaves kernels.Tensor }

func (c *ropeCase) put(d *kerneltest.Device) ropeTensors {
	return ropeTensors{
		qkv: d.Put(c.dt, c.qkv, c.T, c.H+2*c.K, c.E), wq: d.Put(c.dt, c.wq, c.E), wk: d.Put(c.dt, c.wk, c.E),
		pos: d.PutI32(c.pos, c.T), cos: d.Put(kernels.F32, c.cos, c.N, c.E/2), sin: d.Put(kernels.F32, c.sin, c.N, c.E/2),
		rstd: d.Put(kernels.F32, c.rstd, c.T, c.H+c.K), dqkv: d.Put(c.dt, c.dout, c.T, c.H+2*c.K, c.E),
		dwq: d.Put(kernels.F32, c.dwq, c.E), dwk: d.Put(kernels.F32, c.dwk, c.E), leaves: d.Tensor(kernels.F32, (c.T+15)/16, 2, c.E),
	}
}

// units is the relative error of the norm and of turning.
func (c *ropeCase) units() float64 { return 2 * dotUnits(c.E) }

func TestQKNormRope(t *testing.T) {
	eachRopeCase(t, func(t *testing.T, c *ropeCase) {
		got := kerneltest.Agree(t, c.run(t))
		out, rstd := c.forward(kerneltest.F64(c.qkv), kerneltest.F64(c.wq), kerneltest.F64(c.wk))
		kerneltest.Near(t, "out", got["out"], out, kerneltest.Tol{Abs: maxAbs(out...) * c.units(), Rel: kerneltest.Unit(c.dt)})
		kerneltest.Near(t, "rstd", got["rstd"], rstd, kerneltest.Tol{Rel: dotUnits(c.E)})
	})
}

func (c *ropeCase) run(t *testing.T) func(d *kerneltest.Device) kerneltest.Results {
	M := c.H + c.K
	return func(d *kerneltest.Device) kerneltest.Results {
		x := c.put(d)
		out, rstd := d.Tensor(c.dt, c.T, M, c.E), d.Tensor(kernels.F32, c.T, M)
		kernels.QKNormRope(d.Q, out, rstd, x.qkv, x.wq, x.wk, x.pos, x.cos, x.sin, eps)
		alone := d.Tensor(c.dt, c.T, M, c.E)
		for i := range c.T {
			kernels.QKNormRope(d.Q, alone.Rows(i, i+1), kernels.Tensor{}, x.qkv.Rows(i, i+1), x.wq, x.wk, x.pos.Rows(i, i+1), x.cos, x.sin, eps)
		}
		kerneltest.Same(t, "out of rows alone", d.Get(alone), d.Get(out))
		return kerneltest.Results{"out": d.Get(out), "rstd": d.Get(rstd)}
	}
}

func TestQKNormRopeBackward(t *testing.T) {
	eachRopeCase(t, func(t *testing.T, c *ropeCase) {
		got := kerneltest.Agree(t, c.runBackward(t))
		dqkv, dwq, dwk, size := c.backward(kerneltest.F64(c.qkv), kerneltest.F64(c.wq), kerneltest.F64(c.wk))
		kerneltest.Near(t, "dqkv", got["dqkv"], dqkv, kerneltest.Tol{Abs: size * c.units(), Rel: kerneltest.Unit(c.dt)})
		for i := range c.E {
			dwq[i] += float64(c.dwq[i])
			dwk[i] += float64(c.dwk[i])
		}
		// A term is at most about 2·|dout|·|x·r| <= 2·5·√E, and errors of a chain of n terms grow no faster than n.
		terms := float64(c.T * c.H)
		tol := kerneltest.Tol{Abs: terms * 10 * math.Sqrt(float64(c.E)) * (dotUnits(c.E) + 0x1p-24*math.Sqrt(terms))}
		kerneltest.Near(t, "dwq", got["dwq"], dwq, tol)
		kerneltest.Near(t, "dwk", got["dwk"], dwk, tol)
	})
}

func (c *ropeCase) runBackward(t *testing.T) func(d *kerneltest.Device) kerneltest.Results {
	return func(d *kerneltest.Device) kerneltest.Results {
		x, y := c.put(d), c.put(d)
		kernels.QKNormRopeBackward(d.Q, x.dqkv, x.dwq, x.dwk, x.leaves, x.rstd, x.qkv, x.wq, x.wk, x.pos, x.cos, x.sin)
		for i := 0; i < c.T; i += 16 { // as micro-batches
			j := min(i+16, c.T)
			kernels.QKNormRopeBackward(d.Q, y.dqkv.Rows(i, j), y.dwq, y.dwk, y.leaves.Rows(0, 1), y.rstd.Rows(i, j), y.qkv.Rows(i, j), y.wq, y.wk, y.pos.Rows(i, j), y.cos, y.sin)
		}
		kerneltest.Same(t, "dqkv of 16 rows at a time", d.Get(y.dqkv), d.Get(x.dqkv))
		kerneltest.Same(t, "dwq of 16 rows at a time", d.Get(y.dwq), d.Get(x.dwq))
		kerneltest.Same(t, "dwk of 16 rows at a time", d.Get(y.dwk), d.Get(x.dwk))
		return kerneltest.Results{"dqkv": d.Get(x.dqkv), "dwq": d.Get(x.dwq), "dwk": d.Get(x.dwk)}
	}
}

func TestQKNormRopeGolden(t *testing.T) {
	g := golden(t).QKNormRope
	c := &ropeCase{T: g.T, H: g.H, K: g.K, E: g.E, N: g.N, dt: kernels.F32, qkv: g.QKV, wq: g.WQ, wk: g.WK, dout: g.DOut, cos: g.Cos,
		sin: g.Sin, pos: g.Pos, dwq: make([]float32, g.E), dwk: make([]float32, g.E), rstd: make([]float32, g.T*(g.H+g.K))}
	d := kerneltest.Devices(t)[0]
	x, out := c.put(d), d.Tensor(kernels.F32, g.T, g.H+g.K, g.E)
	kernels.QKNormRope(d.Q, out, x.rstd, x.qkv, x.wq, x.wk, x.pos, x.cos, x.sin, g.Eps)
	kernels.QKNormRopeBackward(d.Q, x.dqkv, x.dwq, x.dwk, x.leaves, x.rstd, x.qkv, x.wq, x.wk, x.pos, x.cos, x.sin)
	tol := kerneltest.Tol{Abs: 1e-6, Rel: 1e-6}
	kerneltest.Near(t, "out", d.Get(out), g.Out, tol)
	kerneltest.Near(t, "dqkv", d.Get(x.dqkv), g.DQKV, tol)
	kerneltest.Near(t, "dwq", d.Get(x.dwq), g.DWQ, tol)
	kerneltest.Near(t, "dwk", d.Get(x.dwk), g.DWK, tol)
}

func TestQKNormRopeReference(t *testing.T) {
	c := newRopeCase(kerneltest.Rand(t), 3, 2, 1, 6, kernels.F32)
	qkv, wq, wk := kerneltest.F64(c.qkv), kerneltest.F64(c.wq), kerneltest.F64(c.wk)
	M := c.H + c.K
	loss := func() float64 {
		out, _ := c.forward(qkv, wq, wk)
		sum := 0.0
		for t := range c.T {
			n := M * c.E
			sum += kerneltest.Dot(out[t*n:][:n], kerneltest.F64(c.dout[t*(M+c.K)*c.E:][:n]))
		}
		return sum
	}
	dqkv, dwq, dwk, _ := c.backward(qkv, wq, wk)
	want := kerneltest.Gradient(loss, qkv)
	for t := range c.T { // values pass through
		at, end := (t*(M+c.K)+M)*c.E, (t+1)*(M+c.K)*c.E
		copy(want[at:end], kerneltest.F64(c.dout[at:end]))
	}
	nearGradient(t, "dqkv", dqkv, want)
	nearGradient(t, "dwq", dwq, kerneltest.Gradient(loss, wq))
	nearGradient(t, "dwk", dwk, kerneltest.Gradient(loss, wk))
}

// heads calls f with every query and key head: its row, its place in out and in qkv, and whether it is a key.
func (c *ropeCase) heads(f func(t, out, qkv int, key bool)) {
	for t := range c.T {
		for h := range c.H + c.K {
			f(t, t*(c.H+c.K)+h, (t*(c.H+2*c.K)+h)*c.E, h >= c.H)
		}
	}
}

// forward is the operation in float64.
func (c *ropeCase) forward(qkv, wq, wk []float64) (out, rstd []float64) {
	out, rstd = make([]float64, c.T*(c.H+c.K)*c.E), make([]float64, c.T*(c.H+c.K))
	c.heads(func(t, i, at int, key bool) {
		if c.pos[t] < 0 {
			return
		}
		w := wq
		if key {
			w = wk
		}
		y, r := rmsNorm(qkv[at:][:c.E], w, c.E, eps)
		rstd[i] = r[0]
		c.turn(out[i*c.E:][:c.E], y, int(c.pos[t]), 1)
	})
	return out, rstd
}

// backward is the gradients in float64 and the size of the terms of dqkv.
func (c *ropeCase) backward(qkv, wq, wk []float64) (dqkv, dwq, dwk []float64, size float64) {
	dqkv, dwq, dwk = kerneltest.F64(c.dout), make([]float64, c.E), make([]float64, c.E)
	c.heads(func(t, i, at int, key bool) {
		x, d := qkv[at:][:c.E], dqkv[at:][:c.E]
		if c.pos[t] < 0 {
			clear(d)
			return
		}
		w, dw := wq, dwq
		if key {
			w, dw = wk, dwk
		}
		g := make([]float64, c.E)
		c.turn(g, d, int(c.pos[t]), -1)
		_, r := rmsNorm(x, w, c.E, eps)
		dx, dwHead, s, _ := rmsNormBackward(g, r, x, w)
		copy(d, dx)
		size = max(size, s)
		for j := range dw {
			dw[j] += dwHead[j]
		}
	})
	return dqkv, dwq, dwk, 2 * size
}

func (c *ropeCase) turn(y, x []float64, pos int, sign float64) {
	n := c.E / 2
	for i := range n {
		cos, sin := float64(c.cos[pos*n+i]), sign*float64(c.sin[pos*n+i])
		y[i], y[i+n] = x[i]*cos-x[i+n]*sin, x[i+n]*cos+x[i]*sin
	}
}

var ropeBenchmarks = []struct {
	name       string
	T, H, K, E int
}{{"demo", 1024, 4, 2, 32}, {"0.6B", 128, 16, 8, 128}, {"8B decode", 1, 32, 8, 128}}

func BenchmarkQKNormRope(b *testing.B) {
	for _, s := range ropeBenchmarks {
		b.Run(s.name, func(b *testing.B) {
			c := newRopeCase(rand.New(rand.NewPCG(1, 1)), s.T, s.H, s.K, s.E, kernels.BF16)
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			x, out := c.put(d), d.Zeros(c.dt, c.T, c.H+c.K, c.E)
			for b.Loop() {
				kernels.QKNormRope(d.Q, out, x.rstd, x.qkv, x.wq, x.wk, x.pos, x.cos, x.sin, eps)
			}
			reportGBs(b, 2*out.Bytes())
		})
	}
}

func BenchmarkQKNormRopeBackward(b *testing.B) {
	for _, s := range ropeBenchmarks {
		b.Run(s.name, func(b *testing.B) {
			c := newRopeCase(rand.New(rand.NewPCG(1, 1)), s.T, s.H, s.K, s.E, kernels.BF16)
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			x := c.put(d)
			for b.Loop() {
				kernels.QKNormRopeBackward(d.Q, x.dqkv, x.dwq, x.dwk, x.leaves, x.rstd, x.qkv, x.wq, x.wk, x.pos, x.cos, x.sin)
			}
			reportGBs(b, 3*2*c.T*(c.H+c.K)*c.E)
		})
	}
}
