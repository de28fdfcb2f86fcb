package kernels_test

import (
	"encoding/binary"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/x448/float16"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// An optimizer is the tensors of AdamW on a device.
type optimizer struct {
	d         *kerneltest.Device
	w, master kernels.Tensor
	m, v      kernels.Moment
	g         kernels.Tensor
}

func newOptimizer(d *kerneltest.Device, dt, moments kernels.DType, w []float32) *optimizer {
	n := len(w)
	return &optimizer{d, d.Tensor(dt, n), d.Put(kernels.F32, w, n), zeroMoment(d, moments, n), zeroMoment(d, moments, n), d.Tensor(kernels.F32, n)}
}

// splitOptimizer has low halves for masters.
func splitOptimizer(d *kerneltest.Device, moments kernels.DType, w []float32) *optimizer {
	o, n := newOptimizer(d, kernels.BF16, moments, w), len(w)
	o.master = d.Tensor(kernels.U16, n)
	var upper, lower []byte
	for _, x := range w {
		hi, lo := kernels.SplitMaster(x)
		upper, lower = binary.LittleEndian.AppendUint16(upper, hi), binary.LittleEndian.AppendUint16(lower, lo)
	}
	d.PutBytes(o.w, upper)
	d.PutBytes(o.master, lower)
	return o
}

func zeroMoment(d *kerneltest.Device, dt kernels.DType, n int) kernels.Moment {
	m := kernels.Moment{Mean: d.Zeros(dt, n)}
	if dt == kernels.F16 {
		m.Exponent = d.Zeros(kernels.U8, (n+kernels.MomentBlock-1)/kernels.MomentBlock)
	}
	return m
}

func (o *optimizer) step(g []float32, c kernels.AdamWConfig) {
	b := o.d.Put(o.g.DType, g, len(g))
	o.d.Q.Copy(o.g.Ptr, b.Ptr, b.Bytes())
	kernels.AdamW(o.d.Q, o.w, o.master, o.m, o.v, o.g, c)
}

func (o *optimizer) results() kerneltest.Results {
	return kerneltest.Results{"w": o.d.Get(o.w), "master": o.masters(), "m": o.moment(o.m), "v": o.moment(o.v)}
}

func (o *optimizer) masters() []float32 {
	if o.master.DType == kernels.F32 {
		return o.d.Get(o.master)
	}
	upper, lower := o.d.GetBytes(o.w), o.d.GetBytes(o.master)
	x := make([]float32, o.w.Len())
	for i := range x {
		x[i] = kernels.JoinMaster(binary.LittleEndian.Uint16(upper[2*i:]), binary.LittleEndian.Uint16(lower[2*i:]))
	}
	return x
}

func (o *optimizer) moment(m kernels.Moment) []float32 {
	if m.Mean.DType != kernels.F16 {
		return o.d.Get(m.Mean)
	}
	mean, exponent := o.d.GetBytes(m.Mean), o.d.GetBytes(m.Exponent)
	x := make([]float32, m.Mean.Len())
	for i := range x {
		h := float16.Frombits(binary.LittleEndian.Uint16(mean[2*i:])).Float32()
		x[i] = float32(math.Ldexp(float64(h), int(exponent[i/kernels.MomentBlock])-125))
	}
	return x
}

// nearest is x rounded to bfloat16 with ties away from zero.
func nearest(x []float32) []float32 {
	out := make([]float32, len(x))
	for i, v := range x {
		w, _ := kernels.SplitMaster(v)
		out[i] = kernels.F32Of(w)
	}
	return out
}

func TestAdamW(t *testing.T) {
	for i, run := range golden(t).AdamW {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
				o := newOptimizer(d, kernels.F32, kernels.F32, run.W0)
				for i, g := range run.Grads {
					o.step(g, kernels.AdamWConfig{LR: run.LR, Beta1: run.Beta1, Beta2: run.Beta2, Eps: run.Eps, Decay: run.Decay, Scale: 1, Step: i + 1})
				}
				return o.results()
			})
			// A few roundings a step.
			n := float64(len(run.Grads))
			kerneltest.Near(t, "m", got["m"], run.M, kerneltest.Tol{Abs: maxAbs(run.M...) * n * 0x1p-24, Rel: n * 0x1p-24})
			kerneltest.Near(t, "v", got["v"], run.V, kerneltest.Tol{Rel: 3 * n * 0x1p-24})
			kerneltest.Near(t, "master", got["master"], run.W, kerneltest.Tol{Abs: float64(run.LR) * n * 4 * 0x1p-24, Rel: n * 0x1p-24})
			kerneltest.Same(t, "w", got["w"], got["master"])
		})
	}
}

func TestAdamWSizes(t *testing.T) {
	for _, n := range []int{1, 15, 16, 17, 4095, 4096, 4097, 3*4096 + 5} {
		for _, dt := range kerneltest.DTypes {
			for _, moments := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16} {
				t.Run(fmt.Sprint(n, dt, moments), func(t *testing.T) {
					r := kerneltest.Rand(t)
					w, g := values(r, kernels.F32, n), values(r, kernels.F32, n)
					c := kernels.AdamWConfig{LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Scale: 0.5, Step: 1}
					got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
						o, halves := newOptimizer(d, dt, moments, w), newOptimizer(d, dt, moments, w)
						o.step(g, c)
						next := c
						next.Step = 2
						o.step(g, next)
						for s := range 2 { // in two slices, as ranks would
							c := c
							c.Step = s + 1
							d.Q.Copy(halves.g.Ptr, o.g.Ptr, o.g.Bytes())
							half := n / 2 / kernels.MomentBlock * kernels.MomentBlock
							for _, at := range [][2]int{{0, half}, {half, n}} {
								if i, j := at[0], at[1]; i < j {
									kernels.AdamW(d.Q, halves.w.Rows(i, j), halves.master.Rows(i, j), halves.m.Rows(i, j), halves.v.Rows(i, j), halves.g.Rows(i, j), c)
								}
							}
						}
						whole := o.results()
						for name, x := range halves.results() {
							kerneltest.Same(t, name+" in slices", x, whole[name])
						}
						return whole
					})
					if want := got["master"]; dt == kernels.F32 {
						kerneltest.Same(t, "w", got["w"], want)
					} else {
						kerneltest.Same(t, "w", got["w"], nearest(want))
					}
					for i := range w {
						// With equal gradients d, m/bias1 = d and √v/bias2 = |d| in both steps.
						want, d := float64(w[i]), 0.5*float64(g[i])
						if moments == kernels.F16 && math.Abs(d) < 0.01 {
							continue // too far below the block's largest for all bits
						}
						for range 2 {
							want = want*(1-0.01*0.1) - 0.01*d/(math.Abs(d)+1e-8)
						}
						if math.Abs(float64(got["master"][i])-want) > 0.02*4*float64(kernels.MomentRest(moments))+math.Abs(want)*4*0x1p-24 {
							t.Fatalf("master is %v at %d, want %v", got["master"][i], i, want)
						}
					}
				})
			}
		}
	}
}

// Two steps with known results; the second starts from saved state, as after a resume.
func TestAdamWCase(t *testing.T) {
	c := kernels.AdamWConfig{LR: 0.1, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Decay: 0.01, Scale: 1}
	for _, d := range kerneltest.Devices(t) {
		o := newOptimizer(d, kernels.F32, kernels.F32, []float32{1})
		o.w = o.master // one copy in float32
		c.Step = 1
		o.step([]float32{0.5}, c)
		kerneltest.Near(t, "p after step 1", d.Get(o.master), []float64{0.899}, kerneltest.Tol{Abs: 2e-6})
		resumed := newOptimizer(d, kernels.F32, kernels.F32, d.Get(o.master))
		resumed.m.Mean, resumed.v.Mean = d.Put(kernels.F32, d.Get(o.m.Mean), 1), d.Put(kernels.F32, d.Get(o.v.Mean), 1)
		c.Step = 2
		o.step([]float32{-0.25}, c)
		kerneltest.Near(t, "p after step 2", d.Get(o.master), []float64{0.871467}, kerneltest.Tol{Abs: 2e-6})
		resumed.step([]float32{-0.25}, c)
		kerneltest.Same(t, "p after a resume", d.Get(resumed.master), d.Get(o.master))
	}
}

// Updates far below a bfloat16 ulp add up in the master. (w shrinks by 1e-6 a step: lr 1e-6, constant gradient.)
func TestAdamWSmallUpdates(t *testing.T) {
	d := kerneltest.Devices(t)[0]
	o := newOptimizer(d, kernels.BF16, kernels.F32, []float32{1})
	o.step([]float32{1}, kernels.AdamWConfig{LR: 1e-6, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Scale: 1, Step: 1})
	for s := 2; s <= 4000; s++ {
		kernels.AdamW(d.Q, o.w, o.master, o.m, o.v, o.g, kernels.AdamWConfig{LR: 1e-6, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8, Scale: 1, Step: s})
	}
	kerneltest.Near(t, "master", d.Get(o.master), []float64{0.996}, kerneltest.Tol{Abs: 1e-4})
	kerneltest.Same(t, "w", d.Get(o.w), []float32{0.99609375})
}

// Clipping is a factor on the gradient.
func TestAdamWScale(t *testing.T) {
	g := golden(t).GradNorm
	c := kernels.AdamWConfig{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Scale: 1, Step: 1}
	for _, d := range kerneltest.Devices(t) {
		w := make([]float32, len(g.G))
		a, b := newOptimizer(d, kernels.F32, kernels.F32, w), newOptimizer(d, kernels.F32, kernels.F32, w)
		clipped := make([]float32, len(g.G))
		for i, v := range g.Clipped {
			clipped[i] = float32(v)
		}
		b.step(clipped, c)
		c := c
		c.Scale = float32(1 / (g.Norm + 1e-6))
		a.step(g.G, c)
		kerneltest.Near(t, "m", d.Get(a.m.Mean), kerneltest.F64(d.Get(b.m.Mean)), kerneltest.Tol{Rel: 4 * 0x1p-24})
	}
}

func BenchmarkAdamW(b *testing.B) {
	const n = 1 << 22
	for _, c := range []struct {
		name    string
		split   bool
		moments kernels.DType
		bytes   int
	}{
		{"float32", false, kernels.F32, 2 + 7*4},
		{"split", true, kernels.F32, 4*2 + 5*4},
		{"split, bf16", true, kernels.BF16, 4*2 + 4*2 + 4},
		{"split, float16", true, kernels.F16, 4*2 + 4*2 + 4},
	} {
		b.Run(c.name, func(b *testing.B) {
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			o := newOptimizer(d, kernels.BF16, c.moments, make([]float32, n))
			if c.split {
				o.master = d.Zeros(kernels.U16, n)
			}
			d.Q.Copy(o.g.Ptr, d.Zeros(kernels.F32, n).Ptr, 4*n)
			for b.Loop() {
				kernels.AdamW(d.Q, o.w, o.master, o.m, o.v, o.g, kernels.AdamWConfig{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Scale: 1, Step: 10})
			}
			reportGBs(b, n*c.bytes)
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gparam/s")
		})
	}
}

// Gradients in bfloat16 take the step that the same numbers take in float32.
func TestAdamWTakesRoundedGradients(t *testing.T) {
	for _, n := range []int{1, 65, 4097} {
		for _, moments := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16} {
			t.Run(fmt.Sprint(n, moments), func(t *testing.T) {
				r := kerneltest.Rand(t)
				w, g := values(r, kernels.F32, n), values(r, kernels.BF16, n)
				step := func(d *kerneltest.Device, dt kernels.DType) kerneltest.Results {
					o := splitOptimizer(d, moments, w)
					for i := range 2 {
						kernels.AdamW(d.Q, o.w, o.master, o.m, o.v, d.Put(dt, g, n), kernels.AdamWConfig{LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Scale: 0.5, Step: i + 1})
					}
					return o.results()
				}
				want := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results { return step(d, kernels.F32) })
				got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results { return step(d, kernels.BF16) })
				for name, x := range want {
					kerneltest.Same(t, name, got[name], x)
				}
			})
		}
	}
}

// BenchmarkAdamWOffloaded is the step that a host takes for a card, in turn with a plain copy of as many bytes: 28 for a
// parameter with float32 states, 18 with bf16 moments and split masters.
func BenchmarkAdamWOffloaded(b *testing.B) {
	const n = 1 << 22
	for _, c := range []struct {
		name    string
		moments kernels.DType
		split   bool
		bytes   int
	}{{"float32", kernels.F32, false, 28 * n}, {"bf16 and split masters", kernels.BF16, true, 18 * n}} {
		b.Run(c.name, func(b *testing.B) {
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			o := &optimizer{d, d.Zeros(kernels.BF16, n), d.Zeros(kernels.F32, n), zeroMoment(d, c.moments, n), zeroMoment(d, c.moments, n), d.Zeros(kernels.BF16, n)}
			if c.split {
				o.master = d.Zeros(kernels.U16, n)
			}
			from, to := d.Zeros(kernels.U8, c.bytes/2), d.Zeros(kernels.U8, c.bytes/2) // each byte is read and written
			var step, move time.Duration
			for b.Loop() {
				begun := time.Now()
				kernels.AdamW(d.Q, o.w, o.master, o.m, o.v, o.g, kernels.AdamWConfig{LR: 1e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-8, Scale: 1, Step: 1})
				step += time.Since(begun)
				begun = time.Now()
				d.Q.Copy(to.Ptr, from.Ptr, c.bytes/2)
				move += time.Since(begun)
			}
			b.ReportMetric(float64(n)*float64(b.N)/step.Seconds()/1e6, "Mparam/s")
			b.ReportMetric(float64(c.bytes)*float64(b.N)/step.Seconds()/1e9, "GB/s")
			b.ReportMetric(float64(c.bytes)*float64(b.N)/move.Seconds()/1e9, "copy-GB/s")
		})
	}
}
