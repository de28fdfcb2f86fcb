package kernels_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// A head is rows that go to the vocabulary, with float64 copies that references and finite differences read.
type head struct {
	R, V, D int
	x, w    operand
	target  []int32
	invT    float32
}

// logSoftmax is one row's u, log-sum-exp and entropy.
func (h *head) logSoftmax(r int) (u []float64, lse, entropy float64) {
	u = make([]float64, h.V)
	top := math.Inf(-1)
	for j := range u {
		u[j] = kerneltest.Dot(h.x.at[r*h.D:][:h.D], h.w.at[j*h.D:][:h.D]) * float64(h.invT)
		top = max(top, u[j])
	}
	sum := 0.0
	for _, v := range u {
		sum += math.Exp(v - top)
	}
	rest := sum - 1
	lse = top + math.Log1p(rest)
	for _, v := range u {
		if e := math.Exp(v - top); e != 0 {
			entropy += e / sum * (math.Log1p(rest) + top - v)
		}
	}
	return u, lse, entropy
}

// solve is every row's log-probability, entropy and log-sum-exp; padding has zeros.
func (h *head) solve() (logp, entropy, lse []float64) {
	logp, entropy, lse = make([]float64, h.R), make([]float64, h.R), make([]float64, h.R)
	for r, target := range h.target {
		if target >= 0 {
			var u []float64
			u, lse[r], entropy[r] = h.logSoftmax(r)
			logp[r] = u[target] - lse[r]
		}
	}
	return logp, entropy, lse
}

// parts is LogProb's scratch.
func (h *head) parts(d *kerneltest.Device, R int) kernels.Tensor {
	return d.Tensor(kernels.F32, R, kernels.LogProbParts(h.V), 4)
}

// run is LogProb on one device.
func (h *head) run(d *kerneltest.Device, dtype kernels.DType) kerneltest.Results {
	logp, entropy, lse := d.Tensor(kernels.F32, h.R), d.Tensor(kernels.F32, h.R), d.Tensor(kernels.F32, h.R)
	kernels.LogProb(d.Q, logp, entropy, lse, h.x.on(d, dtype), h.w.on(d, dtype), d.PutI32(h.target, h.R), h.invT, h.parts(d, h.R))
	return kerneltest.Results{"logp": d.Get(logp), "entropy": d.Get(entropy), "lse": d.Get(lse)}
}

var headCases = []struct {
	name    string
	R, V, D int
	invT    float32
}{
	{"one row, the demo's vocabulary", 1, 28, 64, 1},
	{"under a block of rows", 15, 1000, 8, 1},
	{"a block of rows, a tile", 16, 1024, 8, 0.5},
	{"over a block of rows, over a tile", 17, 1025, 8, 1},
	{"under an item's rows", 63, 28, 16, 2},
	{"an item's rows", 64, 77, 33, 1},
	{"over an item's rows", 65, 2049, 5, 1.25},
	{"many rows", 129, 130, 20, 1},
	{"two tokens", 3, 2, 4, 1},
	{"one token", 2, 1, 4, 1},
	{"Qwen3's vocabulary", 1, 151936, 2, 1},
}

func randomHead(t *testing.T, dtype kernels.DType, R, V, D int, invT float32) *head {
	r := kerneltest.Rand(t)
	h := &head{R: R, V: V, D: D, invT: invT}
	h.x = newOperand(dtype, kerneltest.Normal(r, R*D, 2), R, D)
	h.w = newOperand(dtype, kerneltest.Normal(r, V*D, 2/math.Sqrt(float64(D))), V, D)
	h.target = make([]int32, R)
	for i := range h.target {
		h.target[i] = int32(r.IntN(V))
		if i > 0 && r.IntN(4) == 0 {
			h.target[i] = -1
		}
	}
	return h
}

// tol is what u and lse may be off: the dot, the scaling and a few roundings of the largest u there can be, and 64 of
// a lane's sum, which is of the order of 1.
func (h *head) tol() kerneltest.Tol {
	most := 1.0
	for r := range h.R {
		x := h.x.at[r*h.D:][:h.D]
		norm := math.Sqrt(kerneltest.Dot(x, x))
		for j := 0; j < h.V; j++ {
			w := h.w.at[j*h.D:][:h.D]
			most = max(most, norm*math.Sqrt(kerneltest.Dot(w, w))*float64(h.invT))
		}
	}
	return kerneltest.Tol{Abs: 0x1p-24 * (float64(h.D/16+12)*most + 64)}
}

func TestLogProb(t *testing.T) {
	for _, c := range headCases {
		for _, dtype := range kerneltest.DTypes {
			t.Run(fmt.Sprint(c.name, " ", dtype), func(t *testing.T) {
				h := randomHead(t, dtype, c.R, c.V, c.D, c.invT)
				row := len(h.target) / 2
				got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
					res := h.run(d, dtype)
					logp, lse := d.Tensor(kernels.F32, 1), d.Tensor(kernels.F32, 1)
					x := h.x.on(d, dtype).Rows(row, row+1)
					kernels.LogProb(d.Q, logp, kernels.Tensor{}, lse, x, h.w.on(d, dtype), d.PutI32(h.target[row:row+1], 1), h.invT, h.parts(d, 1))
					res["alone"] = append(d.Get(logp), d.Get(lse)...)
					return res
				})
				logp, entropy, lse := h.solve()
				tol := h.tol()
				kerneltest.Near(t, "logp", got["logp"], logp, tol)
				kerneltest.Near(t, "lse", got["lse"], lse, tol)
				// The entropy's derivative is u times its deviation: a nat of error in u costs ln V nats.
				tol.Abs *= 1 + math.Log(float64(c.V))
				kerneltest.Near(t, "entropy", got["entropy"], entropy, tol)
				kerneltest.Same(t, "a row alone", got["alone"], []float32{got["logp"][row], got["lse"][row]})
			})
		}
	}
}

// given is a head of one column, so that logits are exactly what a test says.
func given(invT float32, target int32, logits ...float32) *head {
	h := &head{R: 1, V: len(logits), D: 1, invT: invT, target: []int32{target}}
	h.x = newOperand(kernels.F32, []float32{1}, 1, 1)
	h.w = newOperand(kernels.F32, logits, len(logits), 1)
	return h
}

var inf = float32(math.Inf(1))

// TestLogProbExtremes has logits for which a careless softmax overflows, cancels or divides by zero.
func TestLogProbExtremes(t *testing.T) {
	nan := math.NaN()
	wide := make([]float32, 3000) // three tiles: the largest in the last, the first nothing but -Inf
	for j := range wide {
		wide[j] = -inf
	}
	wide[2999], wide[1500] = 7, 6
	for _, c := range []struct {
		name          string
		h             *head
		logp, entropy float64
	}{
		{"temperature divides the logits", given(2, 0, 2, 0), -0.0181499, 0.0900947},
		{"two equal and one impossible", given(1, 0, 0, 0, -inf), -math.Ln2, math.Ln2},
		{"impossible target", given(1, 2, 0, 0, -inf), math.Inf(-1), math.Ln2},
		{"equal", given(1, 1, 5, 5, 5, 5), -math.Log(4), math.Log(4)},
		{"one token", given(1, 0, -3), 0, 0},
		{"one-hot", given(1, 1, 0, 1e30, 0), 0, 0},
		{"one-hot, another", given(1, 0, 0, 1e30, 0), -1e30, 0},
		{"large and equal", given(1, 0, 1e30, 1e30), -math.Ln2, math.Ln2},
		{"large and negative", given(1, 0, -1e30, -1e30, -3e38), -math.Ln2, math.Ln2},
		{"the widest", given(1, 0, 3e38, -3e38), 0, 0},
		{"tiny temperature", given(1e8, 0, 2, 1, -inf), 0, 0},
		{"tiny temperature, a tie", given(1e8, 1, 2, 2, 1), -math.Ln2, math.Ln2},
		{"no temperature", given(0, 1, 3, 2, 1), -math.Log(3), math.Log(3)},
		{"nearly certain", given(1, 0, 25, 0), -1.3887944e-11, 3.6108653e-10},
		{"nearly certain, of many", given(1, 0, append([]float32{30}, make([]float32, 2000)...)...), -1.87152e-10, 5.80172e-9},
		{"over tiles of nothing", given(1, 1500, wide...), -1.3132617, 0.5822031},
		{"NaN", given(1, 0, 1, float32(nan)), nan, nan},
		{"+Inf", given(1, 0, 1, inf), nan, nan},
		{"nothing but -Inf", given(1, 0, -inf, -inf), nan, nan},
		{"overflow at the temperature", given(1e10, 0, 1e30, 0), nan, nan},
		{"NaN in another tile", given(1, 0, append(make([]float32, 2048), float32(nan))...), nan, nan},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results { return c.h.run(d, kernels.F32) })
			kerneltest.Near(t, "logp", got["logp"], []float64{c.logp}, kerneltest.Tol{Abs: 0x1p-23, Rel: 1e-6})
			kerneltest.Near(t, "entropy", got["entropy"], []float64{c.entropy}, kerneltest.Tol{Rel: 1e-5})
		})
	}
}

func TestLogProbTargetOutside(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
	h := given(1, 2, 0, 0)
	logp, lse := d.Tensor(kernels.F32, 1), d.Tensor(kernels.F32, 1)
	kernels.LogProb(d.Q, logp, kernels.Tensor{}, lse, h.x.on(d, kernels.F32), h.w.on(d, kernels.F32), d.PutI32(h.target, 1), 1, h.parts(d, 1))
	if err := d.Q.Sync(); err == nil || !strings.Contains(err.Error(), "target 2 is outside the vocabulary of 2") {
		t.Errorf("error %v, want the target and the vocabulary", err)
	}
}
