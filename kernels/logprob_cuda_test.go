package kernels_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// Heads whose last tile is whole, short, and missing from a block of two.
var hopperHeads = []struct {
	name    string
	R, V, D int
	invT    float32
}{
	{"two tiles", 64, 256, 64, 1},
	{"three tiles", 130, 300, 72, 0.8},
	{"a tile and a token", 3, 129, 200, 1},
}

func TestLogProbCUDA(t *testing.T) {
	for _, c := range append(slices.Clone(headCases), hopperHeads...) {
		t.Run(c.name, func(t *testing.T) {
			h := randomHead(t, kernels.BF16, c.R, c.V, c.D, c.invT)
			logp, entropy, lse := h.solve()
			for _, d := range kerneltest.GPU(t) {
				got := h.run(d, kernels.BF16)
				multiprocessors(t, "1") // enough work for Hopper's form
				one := kerneltest.GPU(t)[0]
				for name, x := range h.run(one, kernels.BF16) {
					kerneltest.Same(t, name+" of the other form", x, got[name])
				}
				tol := h.tol()
				tol.Abs *= 2 // tensor cores cut off where others round
				kerneltest.Near(t, "logp", got["logp"], logp, tol)
				kerneltest.Near(t, "lse", got["lse"], lse, tol)
				tol.Abs *= math.Log(float64(c.V)) + 1
				kerneltest.Near(t, "entropy", got["entropy"], entropy, tol)
			}
		})
	}
}

// TestLogProbBackwardCUDA compares with the CPU's gradients, which are held to float64.
func TestLogProbBackwardCUDA(t *testing.T) {
	for _, c := range headCases {
		t.Run(c.name, func(t *testing.T) {
			r := kerneltest.Rand(t)
			h := randomHead(t, kernels.BF16, c.R, c.V, c.D, c.invT)
			dlogp, dentropy, was := kerneltest.Normal(r, c.R, 1), kerneltest.Normal(r, c.R, 1), kerneltest.Normal(r, c.V*c.D, 1)
			dlogp[0], dentropy[c.R-1] = 0, 0
			// A dz that rounds to a neighbour differs by a unit of its last place; sums of them by that of each term.
			dz := h.gradient(kerneltest.F64(dlogp), kerneltest.F64(dentropy))
			_, byX := product(dz, h.x.at, true, false, c.V, c.D, c.R)
			_, byW := product(dz, h.w.at, false, false, c.R, c.D, c.V)
			slip := 2*kerneltest.Unit(kernels.BF16) + h.tol().Abs*8
			tols := kerneltest.Tols{
				"dx": kerneltest.Rounded(kernels.BF16, slip*maxAbs(byW...)+kerneltest.Sum(c.V)*maxAbs(byW...)),
				"dw": kerneltest.Rounded(kernels.F32, slip*maxAbs(byX...)+kerneltest.Sum(c.R)*maxAbs(append(byX, 4)...)),
			}
			kerneltest.Twin(t, tols, func(d *kerneltest.Device) kerneltest.Results {
				return h.backward(d, kernels.BF16, dlogp, dentropy, was, min(c.V, max(2, c.V/3&^1)))
			})
		})
	}
}

// TestLogProbCutsCUDA says that dw's bits do not depend on how the rows, in groups of 16, are cut into calls.
func TestLogProbCutsCUDA(t *testing.T) {
	r := kerneltest.Rand(t)
	h := randomHead(t, kernels.BF16, 80, 300, 24, 1)
	dlogp, was := kerneltest.Normal(r, h.R, 1), kerneltest.Normal(r, h.V*h.D, 1)
	for _, d := range kerneltest.GPU(t) {
		whole := h.backward(d, kernels.BF16, dlogp, nil, was, 128)
		for _, cuts := range [][]int{{16}, {32, 48}} {
			cut := h.backward(d, kernels.BF16, dlogp, nil, was, 128, cuts...)
			kerneltest.Same(t, "dx", cut["dx"], whole["dx"])
			kerneltest.Same(t, "dw", cut["dw"], whole["dw"])
		}
	}
}

// TestSampleLogProbCUDA holds the GPU's sampler to its trainer: the bits of LogProb for the same rows.
func TestSampleLogProbCUDA(t *testing.T) {
	const R, D = 7, 40
	for _, V := range []int{28, 128, 129, 1024, 2050} {
		for _, invT := range []float32{1, 0.7, 1 / float32(0.6)} {
			t.Run(fmt.Sprint(V, " ", invT), func(t *testing.T) {
				r := kerneltest.Rand(t)
				x := newOperand(kernels.BF16, kerneltest.Normal(r, R*D, 1), R, D)
				w := newOperand(kernels.BF16, kerneltest.Normal(r, V*D, 0.5), V, D)
				params := make([]kernels.SampleParams, R)
				for i := range params {
					params[i] = randomParams(r, V)
					params[i].InvT, params[i].Greedy = invT, 0
				}
				for _, d := range kerneltest.GPU(t) {
					x, w, logits := x.on(d, kernels.BF16), w.on(d, kernels.BF16), d.Tensor(kernels.F32, R, V)
					kernels.Linear(d.Q, logits, x, w)
					tokens, sampled := sample(d, logits, params)
					logp, lse := d.Tensor(kernels.F32, R), d.Tensor(kernels.F32, R)
					kernels.LogProb(d.Q, logp, kernels.Tensor{}, lse, x, w, d.PutI32(tokens, R), invT, d.Tensor(kernels.F32, R, kernels.LogProbParts(V), 4))
					kerneltest.Same(t, "sampled on "+d.Name(), sampled, d.Get(logp))
				}
			})
		}
	}
}
