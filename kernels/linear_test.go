package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

var linearCases = []struct {
	name    string
	T, N, K int
}{
	{"one product", 1, 1, 1},
	{"a row", 1, 1000, 33},
	{"two rows", 2, 257, 128},
	{"under a block of rows", 15, 31, 65},
	{"a block of rows", 16, 48, 64},
	{"over a block of rows", 17, 49, 31},
	{"under an item's rows", 63, 130, 40},
	{"an item's rows", 64, 17, 129},
	{"over an item's rows", 65, 64, 320},
	{"two items and a row", 129, 70, 95},
	{"over a step of the chains", 257, 34, 64},
	{"wide", 3, 130, 1120},
	{"as wide as a large model's MLP", 16, 2, 70000},
	{"the demo's", 64, 28, 64},
}

// An operand is a matrix in both precisions.
type operand struct {
	rows, cols int
	x          []float32
	at         []float64
}

func newOperand(dtype kernels.DType, x []float32, rows, cols int) operand {
	x = kerneltest.Round(dtype, x)
	return operand{rows, cols, x, kerneltest.F64(x)}
}

func (o operand) on(d *kerneltest.Device, dtype kernels.DType) kernels.Tensor {
	return d.Put(dtype, o.x, o.rows, o.cols)
}

// product is Σ_k a[i,k]·b[k,j] and the same of absolute values, with either operand transposed.
func product(a, b []float64, aT, bT bool, M, N, K int) (sum, abs []float64) {
	sum, abs = make([]float64, M*N), make([]float64, M*N)
	for i := range M {
		for j := range N {
			for k := range K {
				ia, ib := i*K+k, k*N+j
				if aT {
					ia = k*M + i
				}
				if bT {
					ib = j*K + k
				}
				sum[i*N+j] += a[ia] * b[ib]
				abs[i*N+j] += math.Abs(a[ia] * b[ib])
			}
		}
	}
	return sum, abs
}

// sumTol allows n float32 roundings of the largest sum of absolute values, and one to the dtype.
func sumTol(abs []float64, n int, dtype kernels.DType) kerneltest.Tol {
	most := 0.0
	for _, a := range abs {
		most = max(most, a)
	}
	return kerneltest.Tol{Abs: float64(n) * 0x1p-24 * most, Rel: 2 * kerneltest.Unit(dtype)}
}

func TestLinear(t *testing.T) {
	for _, c := range linearCases {
		for _, dtype := range kerneltest.DTypes {
			t.Run(fmt.Sprint(c.name, " ", dtype), func(t *testing.T) {
				r := kerneltest.Rand(t)
				x := newOperand(dtype, kerneltest.Normal(r, c.T*c.K, 1), c.T, c.K)
				w := newOperand(dtype, kerneltest.Normal(r, c.N*c.K, 1), c.N, c.K)
				row := r.IntN(c.T)
				got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
					y, logits := d.Tensor(dtype, c.T, c.N), d.Tensor(kernels.F32, c.T, c.N)
					alone := d.Tensor(dtype, 1, c.N)
					dx, dw := x.on(d, dtype), w.on(d, dtype)
					kernels.Linear(d.Q, y, dx, dw)
					kernels.Linear(d.Q, logits, dx, dw)
					kernels.Linear(d.Q, alone, dx.Rows(row, row+1), dw)
					return kerneltest.Results{"y": d.Get(y), "logits": d.Get(logits), "alone": d.Get(alone)}
				})
				want, abs := product(x.at, w.at, false, true, c.T, c.N, c.K)
				n := c.K/16 + 6 // a lane's chain, twice as long for pairs, and the fold
				kerneltest.Near(t, "y", got["y"], want, sumTol(abs, n, dtype))
				kerneltest.Near(t, "logits", got["logits"], want, sumTol(abs, n, kernels.F32))
				kerneltest.Same(t, "y is logits rounded", got["y"], kerneltest.Round(dtype, got["logits"]))
				kerneltest.Same(t, "a row alone", got["alone"], got["y"][row*c.N:][:c.N])
			})
		}
	}
}

func TestLinearBackward(t *testing.T) {
	for _, c := range linearCases {
		for _, dtype := range kerneltest.DTypes {
			t.Run(fmt.Sprint(c.name, " ", dtype), func(t *testing.T) {
				r := kerneltest.Rand(t)
				x := newOperand(dtype, kerneltest.Normal(r, c.T*c.K, 1), c.T, c.K)
				w := newOperand(dtype, kerneltest.Normal(r, c.N*c.K, 1), c.N, c.K)
				dy := newOperand(dtype, kerneltest.Normal(r, c.T*c.N, 1), c.T, c.N)
				was := kerneltest.Normal(r, c.N*c.K, 1)
				row := r.IntN(c.T)
				got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
					x, w, dy := x.on(d, dtype), w.on(d, dtype), dy.on(d, dtype)
					dx, dw := d.Tensor(dtype, c.T, c.K), d.Put(kernels.F32, was, c.N, c.K)
					kernels.LinearBackward(d.Q, dx, dw, dy, x, w)
					// Each alone, and one row of dx.
					onlyDX, onlyDW, alone := d.Tensor(dtype, c.T, c.K), d.Put(kernels.F32, was, c.N, c.K), d.Tensor(dtype, 1, c.K)
					kernels.LinearBackward(d.Q, onlyDX, kernels.Tensor{}, dy, x, w)
					kernels.LinearBackward(d.Q, kernels.Tensor{}, onlyDW, dy, x, w)
					kernels.LinearBackward(d.Q, alone, kernels.Tensor{}, dy.Rows(row, row+1), x.Rows(row, row+1), w)
					return kerneltest.Results{
						"dx": d.Get(dx), "dw": d.Get(dw), "only dx": d.Get(onlyDX), "only dw": d.Get(onlyDW), "alone": d.Get(alone),
					}
				})
				kerneltest.Same(t, "only dx", got["only dx"], got["dx"])
				kerneltest.Same(t, "only dw", got["only dw"], got["dw"])
				kerneltest.Same(t, "a row of dx alone", got["alone"], got["dx"][row*c.K:][:c.K])
				want, abs := product(dy.at, w.at, false, false, c.T, c.K, c.N)
				kerneltest.Near(t, "dx", got["dx"], want, sumTol(abs, c.N, dtype))
				want, abs = product(dy.at, x.at, true, false, c.N, c.K, c.T)
				for i, v := range was {
					want[i] += float64(v)
					abs[i] += math.Abs(float64(v))
				}
				kerneltest.Near(t, "dw", got["dw"], want, sumTol(abs, c.T, kernels.F32))
			})
		}
	}
}

// TestLinearGradient differentiates Σ dy·(x·wᵀ) numerically.
func TestLinearGradient(t *testing.T) {
	const T, N, K = 5, 7, 6
	r := kerneltest.Rand(t)
	x := newOperand(kernels.F32, kerneltest.Normal(r, T*K, 1), T, K)
	w := newOperand(kernels.F32, kerneltest.Normal(r, N*K, 1), N, K)
	dy := newOperand(kernels.F32, kerneltest.Normal(r, T*N, 1), T, N)
	loss := func() float64 {
		y, _ := product(x.at, w.at, false, true, T, N, K)
		return kerneltest.Dot(y, dy.at)
	}
	got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
		dx, dw := d.Tensor(kernels.F32, T, K), d.Zeros(kernels.F32, N, K)
		kernels.LinearBackward(d.Q, dx, dw, dy.on(d, kernels.F32), x.on(d, kernels.F32), w.on(d, kernels.F32))
		return kerneltest.Results{"dx": d.Get(dx), "dw": d.Get(dw)}
	})
	tol := kerneltest.Tol{Abs: 1e-5, Rel: 1e-5}
	kerneltest.Near(t, "dx", got["dx"], kerneltest.Gradient(loss, x.at), tol)
	kerneltest.Near(t, "dw", got["dw"], kerneltest.Gradient(loss, w.at), tol)
}

// TestLinearBackwardCuts says that dw does not depend on how sequences that start at multiples of 16 rows are cut into
// calls, nor on zero rows between them.
func TestLinearBackwardCuts(t *testing.T) {
	const N, K = 37, 50
	lengths := []int{16, 3, 130, 31, 64}
	for _, dtype := range kerneltest.DTypes {
		t.Run(dtype.String(), func(t *testing.T) {
			r := kerneltest.Rand(t)
			var x, dy []float32
			var starts []int
			for _, n := range lengths {
				starts = append(starts, len(x)/K)
				x = append(x, kerneltest.Normal(r, n*K, 1)...)
				dy = append(dy, kerneltest.Normal(r, n*N, 1)...)
				pad := (16 - n%16) % 16
				x, dy = append(x, make([]float32, pad*K)...), append(dy, make([]float32, pad*N)...)
			}
			T := len(x) / K
			was := kerneltest.Normal(r, N*K, 1)
			got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
				dx, ddy := d.Put(dtype, x, T, K), d.Put(dtype, dy, T, N)
				w := d.Zeros(dtype, N, K)
				run := func(cuts ...int) []float32 {
					dw := d.Put(kernels.F32, was, N, K)
					for i, at := range cuts[1:] {
						lo := cuts[i]
						kernels.LinearBackward(d.Q, kernels.Tensor{}, dw, ddy.Rows(lo, at), dx.Rows(lo, at), w)
					}
					return d.Get(dw)
				}
				return kerneltest.Results{
					"whole":       run(0, T),
					"by sequence": run(append(starts, T)...),
					"in two":      run(0, starts[2], T),
				}
			})
			kerneltest.Same(t, "by sequence", got["by sequence"], got["whole"])
			kerneltest.Same(t, "in two", got["in two"], got["whole"])
		})
	}
}

// TestLinearStale says that what lies in y, dx or beyond the operands has no influence: everything is poisoned, and
// infinities in x stay in their rows.
func TestLinearStale(t *testing.T) {
	const T, N, K = 9, 20, 40
	for _, dtype := range kerneltest.DTypes {
		x := make([]float32, T*K)
		x[3*K+5] = float32(math.Inf(1))
		w := make([]float32, N*K)
		for i := range w {
			w[i] = 1
		}
		got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
			y := d.Tensor(dtype, T, N)
			kernels.Linear(d.Q, y, d.Put(dtype, x, T, K), d.Put(dtype, w, N, K))
			return kerneltest.Results{"y": d.Get(y)}
		})
		want := make([]float64, T*N)
		for n := range N {
			want[3*N+n] = math.Inf(1)
		}
		kerneltest.Near(t, dtype.String(), got["y"], want, kerneltest.Tol{})
	}
}

func TestLinearShapes(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
	y, x, w := d.Zeros(kernels.F32, 2, 3), d.Zeros(kernels.F32, 2, 4), d.Zeros(kernels.F32, 3, 5)
	wantPanic(t, "Linear: w is [3 5], want [N K] with N=3 K=4", func() { kernels.Linear(d.Q, y, x, w) })
	wantPanic(t, "LinearBackward: dx is [2 3], want [T K] with T=2 K=5", func() {
		kernels.LinearBackward(d.Q, y, kernels.Tensor{}, y, d.Zeros(kernels.F32, 2, 5), w)
	})
}

func wantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := recover(); fmt.Sprint(got) != want {
			t.Errorf("panic %v, want %q", got, want)
		}
	}()
	f()
}
