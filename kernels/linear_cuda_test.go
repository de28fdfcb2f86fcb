package kernels_test

import (
	"fmt"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// Shapes for the tensor cores: rows of 16 bytes and others, tails of every tile.
var linearCUDACases = []struct {
	name    string
	T, N, K int
}{
	{"one product", 1, 1, 1},
	{"a row", 1, 200, 264},
	{"a row of odd width", 1, 33, 31},
	{"a few rows", 15, 70, 128},
	{"a small tile", 16, 32, 128},
	{"over a small tile", 17, 65, 72},
	{"under a tile", 63, 62, 64},
	{"a tile", 64, 64, 64},
	{"over a tile", 65, 66, 200},
	{"two tiles and a row", 129, 130, 40},
	{"odd all over", 67, 35, 51},
	{"over a Hopper tile", 130, 260, 136},
	{"several Hopper tiles", 257, 518, 64},
	{"Hopper tiles of gradients", 77, 136, 264},
}

func TestLinearCUDA(t *testing.T) {
	const bf16 = kernels.BF16
	for _, sms := range []string{"132", "1"} { // few multiprocessors get large tiles
		for _, c := range linearCUDACases {
			t.Run(fmt.Sprint(c.name, ", ", sms, " multiprocessors"), func(t *testing.T) {
				multiprocessors(t, sms)
				r := kerneltest.Rand(t)
				x := newOperand(bf16, kerneltest.Normal(r, c.T*c.K, 1), c.T, c.K)
				w := newOperand(bf16, kerneltest.Normal(r, c.N*c.K, 1), c.N, c.K)
				dy := newOperand(bf16, kerneltest.Normal(r, c.T*c.N, 1), c.T, c.N)
				was := kerneltest.Normal(r, c.N*c.K, 1)
				row := r.IntN(c.T)
				tols := kerneltest.Tols{}
				tol := func(a, b []float64, aT, bT bool, M, N, K int, d kernels.DType, names ...string) {
					_, abs := product(a, b, aT, bT, M, N, K)
					for _, name := range names {
						tols[name] = kerneltest.Rounded(d, kerneltest.Sum(K+2)*maxAbs(append(abs, 4)...))
					}
				}
				tol(x.at, w.at, false, true, c.T, c.N, c.K, bf16, "y", "alone")
				tol(x.at, w.at, false, true, c.T, c.N, c.K, kernels.F32, "logits")
				tol(dy.at, w.at, false, false, c.T, c.K, c.N, bf16, "dx")
				tol(dy.at, x.at, true, false, c.N, c.K, c.T, kernels.F32, "dw", "dw in two")
				kerneltest.Twin(t, tols, func(d *kerneltest.Device) kerneltest.Results {
					x, w, dy := x.on(d, bf16), w.on(d, bf16), dy.on(d, bf16)
					y, logits, alone := d.Tensor(bf16, c.T, c.N), d.Tensor(kernels.F32, c.T, c.N), d.Tensor(bf16, 1, c.N)
					kernels.Linear(d.Q, y, x, w)
					kernels.Linear(d.Q, logits, x, w)
					kernels.Linear(d.Q, alone, x.Rows(row, row+1), w)
					dx, dw, two := d.Tensor(bf16, c.T, c.K), d.Put(kernels.F32, was, c.N, c.K), d.Put(kernels.F32, was, c.N, c.K)
					kernels.LinearBackward(d.Q, dx, dw, dy, x, w)
					cut := c.T / 2 / 16 * 16 // where a sequence may begin
					if cut > 0 {
						kernels.LinearBackward(d.Q, kernels.Tensor{}, two, dy.Rows(0, cut), x.Rows(0, cut), w)
					}
					kernels.LinearBackward(d.Q, kernels.Tensor{}, two, dy.Rows(cut, c.T), x.Rows(cut, c.T), w)
					got := kerneltest.Results{
						"y": d.Get(y), "logits": d.Get(logits), "alone": d.Get(alone), "dx": d.Get(dx), "dw": d.Get(dw), "dw in two": d.Get(two),
					}
					on := " on " + d.Name()
					kerneltest.Same(t, "y is logits rounded"+on, got["y"], kerneltest.Round(bf16, got["logits"]))
					kerneltest.Same(t, "a row alone"+on, got["alone"], got["y"][row*c.N:][:c.N])
					kerneltest.Same(t, "dw in two"+on, got["dw in two"], got["dw"])
					return got
				})
			})
		}
	}
}
