package kernels_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// gradient is dz in float64 from the definitions.
func (h *head) gradient(dlogp, dentropy []float64) []float64 {
	dz := make([]float64, h.R*h.V)
	for r, target := range h.target {
		if target < 0 {
			continue
		}
		u, lse, entropy := h.logSoftmax(r)
		for j := range u {
			p, d := math.Exp(u[j]-lse), 0.0
			if j == int(target) {
				d = dlogp[r]
			}
			d -= dlogp[r] * p
			if p > 0 {
				d -= dentropy[r] * p * (u[j] - lse + entropy)
			}
			dz[r*h.V+j] = float64(h.invT) * d
		}
	}
	return dz
}

// backward runs LogProb and its backward in chunks of C, rows cut at the given places. An empty dentropy leaves it out.
func (h *head) backward(d *kerneltest.Device, dtype kernels.DType, dlogp, dentropy, was []float32, C int, cuts ...int) kerneltest.Results {
	f32 := func() kernels.Tensor { return d.Tensor(kernels.F32, h.R) }
	logp, entropy, lse, target := f32(), f32(), f32(), d.PutI32(h.target, h.R)
	x, w := h.x.on(d, dtype), h.w.on(d, dtype)
	kernels.LogProb(d.Q, logp, entropy, lse, x, w, target, h.invT, h.parts(d, h.R))
	dx, dw := d.Tensor(dtype, h.R, h.D), d.Put(kernels.F32, was, h.V, h.D)
	g := d.Put(kernels.F32, dlogp, h.R)
	var e kernels.Tensor
	if dentropy != nil {
		e = d.Put(kernels.F32, dentropy, h.R)
	}
	for i, hi := range append(slices.Clone(cuts), h.R) {
		lo := 0
		if i > 0 {
			lo = cuts[i-1]
		}
		e, ent := e, entropy.Rows(lo, hi)
		if dentropy != nil {
			e = e.Rows(lo, hi)
		} else {
			ent = kernels.Tensor{}
		}
		kernels.LogProbBackward(d.Q, dx.Rows(lo, hi), dw, g.Rows(lo, hi), e, lse.Rows(lo, hi), ent, x.Rows(lo, hi), w, target.Rows(lo, hi),
			h.invT, d.Tensor(dtype, hi-lo, C), d.Tensor(kernels.F32, hi-lo, h.D))
	}
	return kerneltest.Results{"dx": d.Get(dx), "dw": d.Get(dw)}
}

func TestLogProbBackward(t *testing.T) {
	for _, c := range headCases {
		for _, dtype := range kerneltest.DTypes {
			t.Run(fmt.Sprint(c.name, " ", dtype), func(t *testing.T) {
				r := kerneltest.Rand(t)
				h := randomHead(t, dtype, c.R, c.V, c.D, c.invT)
				dlogp, was := kerneltest.Normal(r, c.R, 1), kerneltest.Normal(r, c.V*c.D, 1)
				dentropy := kerneltest.Normal(r, c.R, 1)
				dlogp[0], dentropy[c.R-1] = 0, 0
				C := min(c.V, max(2, c.V/3&^1))
				got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
					return h.backward(d, dtype, dlogp, dentropy, was, C)
				})
				dz := h.gradient(kerneltest.F64(dlogp), kerneltest.F64(dentropy))
				// dz is off by its rounding, and by what lse and u are off, times its largest factors.
				slip := h.tol().Abs * (8 + 4*math.Log(float64(c.V)))
				tol := func(abs []float64, n int) kerneltest.Tol {
					tol := sumTol(abs, n, dtype)
					tol.Abs += slices.Max(abs) * (slip + kerneltest.Unit(dtype))
					return tol
				}
				want, abs := product(dz, h.w.at, false, false, c.R, c.D, c.V)
				kerneltest.Near(t, "dx", got["dx"], want, tol(abs, c.V))
				want, abs = product(dz, h.x.at, true, false, c.V, c.D, c.R)
				for i, v := range was {
					want[i] += float64(v)
					abs[i] += math.Abs(float64(v))
				}
				kerneltest.Near(t, "dw", got["dw"], want, tol(abs, c.R))
			})
		}
	}
}

// TestLogProbGradient differentiates Σ dlogp·logp + dentropy·entropy numerically.
func TestLogProbGradient(t *testing.T) {
	for _, invT := range []float32{1, 0.7, 2} {
		r := kerneltest.Rand(t)
		h := randomHead(t, kernels.F32, 5, 11, 6, invT)
		dlogp, dentropy := kerneltest.Normal(r, h.R, 1), kerneltest.Normal(r, h.R, 1)
		was := make([]float32, h.V*h.D)
		for _, dentropy := range [][]float32{dentropy, nil} {
			loss := func() float64 {
				logp, entropy, _ := h.solve()
				s := kerneltest.Dot(logp, kerneltest.F64(dlogp))
				if dentropy != nil {
					s += kerneltest.Dot(entropy, kerneltest.F64(dentropy))
				}
				return s
			}
			got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
				return h.backward(d, kernels.F32, dlogp, dentropy, was, 4)
			})
			tol := kerneltest.Tol{Abs: 1e-4, Rel: 1e-4}
			kerneltest.Near(t, "dx", got["dx"], kerneltest.Gradient(loss, h.x.at), tol)
			kerneltest.Near(t, "dw", got["dw"], kerneltest.Gradient(loss, h.w.at), tol)
		}
	}
}

// TestLogProbBackwardCuts says that neither the chunks of the vocabulary nor calls for parts of the rows change a bit.
func TestLogProbBackwardCuts(t *testing.T) {
	for _, dtype := range kerneltest.DTypes {
		t.Run(dtype.String(), func(t *testing.T) {
			r := kerneltest.Rand(t)
			h := randomHead(t, dtype, 80, 131, 24, 1)
			dlogp, dentropy := kerneltest.Normal(r, h.R, 1), kerneltest.Normal(r, h.R, 1)
			was := kerneltest.Normal(r, h.V*h.D, 1)
			got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
				all := kerneltest.Results{}
				add := func(name string, C int, cuts ...int) {
					for k, v := range h.backward(d, dtype, dlogp, dentropy, was, C, cuts...) {
						all[k+" "+name] = v
					}
				}
				add("whole", h.V)
				add("chunks of 2", 2)
				add("chunks of 130", 130)
				add("wide scratch", 200)
				add("rows in calls", 64, 16, 64)
				return all
			})
			for name, v := range got {
				kerneltest.Same(t, name, v, got[name[:2]+" whole"])
			}
		})
	}
}

// TestLogProbBackwardMasks says that padding, and rows that nothing asks about, give exact zeros, whatever is in them.
func TestLogProbBackwardMasks(t *testing.T) {
	const R, V, D = 3, 5, 2
	nan := float32(math.NaN())
	h := &head{R: R, V: V, D: D, invT: 1, target: []int32{-1, 2, -1}}
	h.w = newOperand(kernels.F32, []float32{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, V, D)
	h.x = newOperand(kernels.F32, []float32{0, 0, 3e38, 3e38, 0, 0}, R, D) // the middle row's logits overflow
	got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
		return h.backward(d, kernels.F32, []float32{nan, 0, -1}, []float32{1, 0, nan}, make([]float32, V*D), 2)
	})
	kerneltest.Near(t, "dx", got["dx"], make([]float64, R*D), kerneltest.Tol{})
	kerneltest.Near(t, "dw", got["dw"], make([]float64, V*D), kerneltest.Tol{})
}

// TestLogProbBackwardExtremes has the rows of TestLogProbExtremes whose gradients are easily NaN.
func TestLogProbBackwardExtremes(t *testing.T) {
	for _, c := range []struct {
		name            string
		h               *head
		dlogp, dentropy float32
		dz              []float64
	}{
		{"an impossible token", given(1, 0, 0, 0, -inf), 1, 1, []float64{0.5, -0.5, 0}},
		{"one-hot", given(1, 0, 1e30, 0, -1e30), 1, 1, []float64{0, 0, 0}},
		{"one-hot, another", given(1, 1, 1e30, 0, 0), 1, 0, []float64{-1, 1, 0}},
		{"tiny temperature", given(1e8, 0, 2, 1, -inf), 1, 1, []float64{0, 0, 0}},
		{"equal", given(0.5, 0, 20, 20), 2, 1, []float64{0.5, -0.5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
				return c.h.backward(d, kernels.F32, []float32{c.dlogp}, []float32{c.dentropy}, make([]float32, c.h.V), c.h.V)
			})
			kerneltest.Near(t, "dw", got["dw"], c.dz, kerneltest.Tol{Abs: 1e-6})
		})
	}
}

func TestLogProbBackwardOddChunk(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
	h := given(1, 0, 0, 0, 0, 0)
	wantPanic(t, "LogProbBackward: dz is [1 3]: a chunk of 3 would split a pair of the chain over [V] = [4]", func() {
		h.backward(d, kernels.F32, []float32{1}, nil, make([]float32, 4), 3)
	})
}
