package kernels_test

import (
	"math"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// TestAdamWMomentsFollow feeds a gradient for some steps, then none: a moment has to fall as fast as it rose, within what
// its bits can say, if 1-Beta is at least MomentRest; and MomentRest is no larger than it has to be.
func TestAdamWMomentsFollow(t *testing.T) {
	for _, moments := range []kernels.DType{kernels.BF16, kernels.F16} {
		t.Run(moments.String(), func(t *testing.T) {
			rest := kernels.MomentRest(moments)
			after := func(rest float32) (m, v float32) {
				d := kerneltest.Devices(t)[0]
				o := newOptimizer(d, kernels.BF16, moments, []float32{1})
				c := kernels.AdamWConfig{LR: 1e-6, Beta1: 1 - rest, Beta2: 1 - rest, Eps: 1e-8, Scale: 1}
				n := int(8 / rest)
				for range n {
					c.Step++
					o.step([]float32{1}, c)
				}
				kernels.Zero(d.Q, o.g)
				for range n {
					c.Step++
					kernels.AdamW(d.Q, o.w, o.master, o.m, o.v, o.g, c)
				}
				return o.moment(o.m)[0], o.moment(o.v)[0]
			}
			if m, v := after(rest); m > 0.01 || v > 0.01 {
				t.Errorf("with 1-beta %v the moments are still %v and %v", rest, m, v)
			}
			if m, v := after(rest / 4); m < 0.2 || v < 0.2 {
				t.Errorf("with 1-beta %v the moments fell to %v and %v: MomentRest is too strict", rest/4, m, v)
			}
		})
	}
}

// TestAdamWHalfMoments takes gradients of a wide range through float16 moments and compares with float32 ones.
func TestAdamWHalfMoments(t *testing.T) {
	const n = 4096 + 70
	r := kerneltest.Rand(t)
	scales := make([]float64, n)
	for i := range scales {
		switch b := i / kernels.MomentBlock; b % 4 {
		case 0: // far below what float16 holds by itself: squares near the least float32
			scales[i] = 1e-20
		case 1: // far above: squares of 1e30
			scales[i] = 1e15
		case 2: // what one exponent has to span
			scales[i] = math.Ldexp(1e-4, -r.IntN(14))
		default:
			scales[i] = 1e-6
		}
	}
	var half, full kerneltest.Results
	var grads [][]float32
	for range 20 {
		g := make([]float32, n)
		for i := range g {
			g[i] = float32(scales[i] * (0.5 + r.Float64())) // of one sign, so that no mean cancels
		}
		grads = append(grads, g)
	}
	for _, moments := range []kernels.DType{kernels.F32, kernels.F16} {
		got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
			o := newOptimizer(d, kernels.BF16, moments, make([]float32, n))
			for i, g := range grads {
				o.step(g, kernels.AdamWConfig{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-30, Scale: 1, Step: i + 1})
			}
			return o.results()
		})
		if full == nil {
			full = got
		} else {
			half = got
		}
	}
	// A rounding of 2⁻¹² at most a step; the weights move by at most LR a step.
	rel := kerneltest.Tol{Rel: 20 * 0x1p-11}
	kerneltest.Near(t, "m", half["m"], kerneltest.F64(full["m"]), rel)
	kerneltest.Near(t, "v", half["v"], kerneltest.F64(full["v"]), rel)
	kerneltest.Near(t, "master", half["master"], kerneltest.F64(full["master"]), kerneltest.Tol{Abs: 20 * 1e-3 * 20 * 0x1p-11})
}

// TestAdamWSmallSecondMoments puts elements into a block whose largest is 2⁴⁰ times as large: none may be divided by a
// root that has vanished.
func TestAdamWSmallSecondMoments(t *testing.T) {
	for _, d := range kerneltest.Devices(t) {
		g := make([]float32, kernels.MomentBlock)
		for i := range g {
			g[i] = float32(math.Ldexp(1, -i))
		}
		g[63] = 0
		o := newOptimizer(d, kernels.BF16, kernels.F16, make([]float32, len(g)))
		for step := range 10 {
			o.step(g, kernels.AdamWConfig{LR: 1e-3, Beta1: 0.9, Beta2: 0.99, Eps: 1e-30, Scale: 1, Step: step + 1})
		}
		got := o.results()
		for i, x := range got["master"] {
			if !(math.Abs(float64(x)) <= 10*1e-3*1.25) { // √1.5: of the last bit that is left, half may be rounded away
				t.Errorf("a gradient of 2^-%d moved its weight by %v in 10 steps of 1e-3", i, x)
			}
			if i < 63 && got["v"][i] == 0 || i == 63 && got["v"][i] != 0 {
				t.Errorf("the second moment of element %d is %v", i, got["v"][i])
			}
		}
	}
}
