// Package kerneltest is what the tests of all operations share: devices to run on, memory with poison in it and guards
// around it, comparison that names the worst element, and finite differences.
//
// A test makes its inputs once on the host and hands Agree a function that runs the operation on one device:
//
//	r := kerneltest.Rand(t)
//	x := kerneltest.Round(dtype, kerneltest.Normal(r, T*D, 1))
//	got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
//		out := d.Tensor(dtype, T, D)
//		kernels.Op(d.Q, out, d.Put(dtype, x, T, D))
//		return kerneltest.Results{"out": d.Get(out)}
//	})
//	kerneltest.Near(t, "out", got["out"], reference(kerneltest.F64(x)), kerneltest.Tol{Rel: kerneltest.Unit(dtype)})
package kerneltest

import (
	"encoding/json"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"tandem/kernels"
)

// DTypes are the dtypes of activations and weights.
var DTypes = []kernels.DType{kernels.F32, kernels.BF16}

// SeedVariable holds a seed that Rand takes instead of a fresh one.
const SeedVariable = "KERNELTEST_SEED"

// Rand is a source with a fresh seed, which the test's log names.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv(SeedVariable); s != "" {
		var err error
		if seed, err = strconv.ParseUint(s, 10, 64); err != nil {
			t.Fatalf("%s: %v", SeedVariable, err)
		}
	}
	t.Logf("%s=%d", SeedVariable, seed)
	return rand.New(rand.NewPCG(seed, 0))
}

// Normal is n values of mean 0 and deviation scale.
func Normal(r *rand.Rand, n int, scale float64) []float32 {
	x := make([]float32, n)
	for i := range x {
		x[i] = float32(r.NormFloat64() * scale)
	}
	return x
}

// Round is x as a tensor of dtype d holds it.
func Round(d kernels.DType, x []float32) []float32 {
	y := slices.Clone(x)
	if d == kernels.BF16 {
		for i := range y {
			y[i] = kernels.F32Of(kernels.BF16Of(y[i]))
		}
	}
	return y
}

// Unit is the largest relative error of one rounding to dtype d.
func Unit(d kernels.DType) float64 {
	if d == kernels.BF16 {
		return 0x1p-8
	}
	return 0x1p-24
}

// F64 is x for a reference to compute with.
func F64(x []float32) []float64 {
	y := make([]float64, len(x))
	for i := range x {
		y[i] = float64(x[i])
	}
	return y
}

// Tol allows an error of Abs + Rel·|want|.
type Tol struct{ Abs, Rel float64 }

// Near fails unless every element of got is within tol of want, NaN for NaN and infinity for infinity. It reports the
// element that exceeds its allowance most.
func Near(t testing.TB, name string, got []float32, want []float64, tol Tol) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", name, len(got), len(want))
		return
	}
	at, worst := -1, 1.0
	for i, w := range want {
		g := float64(got[i])
		if g == w || math.IsNaN(g) && math.IsNaN(w) {
			continue
		}
		e := math.Abs(g-w) / (tol.Abs + tol.Rel*math.Abs(w))
		if math.IsNaN(e) {
			e = math.Inf(1)
		}
		if e > worst {
			at, worst = i, e
		}
	}
	if at >= 0 {
		t.Errorf("%s: error is %.3g times what is allowed at %d of %d: got %v, want %v", name, worst, at, len(got), got[at], want[at])
	}
}

// Same fails unless got and want are equal bit for bit; any two NaN are equal.
func Same(t testing.TB, name string, got, want []float32) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: %d elements, want %d", name, len(got), len(want))
		return
	}
	at, differ := -1, 0
	for i := range got {
		if math.Float32bits(got[i]) == math.Float32bits(want[i]) || got[i] != got[i] && want[i] != want[i] {
			continue
		}
		if differ++; at < 0 || math.Abs(float64(got[i])-float64(want[i])) > math.Abs(float64(got[at])-float64(want[at])) {
			at = i
		}
	}
	if at >= 0 {
		t.Errorf("%s: %d of %d elements differ in bits, most at %d: got %v (%08x), want %v (%08x)", name, differ, len(got), at,
			got[at], math.Float32bits(got[at]), want[at], math.Float32bits(want[at]))
	}
}

// Results are the outputs of a run by name.
type Results map[string][]float32

// Agree runs f on every device, each a fresh one with fresh poison, fails unless all give the same bits, and returns
// them.
func Agree(t testing.TB, f func(d *Device) Results) Results {
	t.Helper()
	var first Results
	var on string
	for _, d := range Devices(t) {
		got := f(d)
		d.Close()
		if first == nil {
			first, on = got, d.Name()
			continue
		}
		for _, name := range slices.Sorted(maps.Keys(first)) {
			Same(t, name+" on "+d.Name()+" against "+on, got[name], first[name])
		}
	}
	return first
}

// Gradient is df/dx by central differences. f reads x, which Gradient changes in place and restores.
func Gradient(f func() float64, x []float64) []float64 {
	g := make([]float64, len(x))
	for i, at := range x {
		h := 1e-5 * max(1, math.Abs(at))
		x[i] = at + h
		up := f()
		x[i] = at - h
		g[i] = (up - f()) / (2 * h)
		x[i] = at
	}
	return g
}

// Dot is Σ a·b: with b random, a scalar whose gradient with respect to a is b.
func Dot(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}

// Golden decodes the JSON file at path, relative to the test's package.
func Golden(t testing.TB, path string, v any) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("golden values: %v", err)
	}
	if err := json.Unmarshal(b, v); err != nil {
		t.Fatalf("golden values: %s: %v", path, err)
	}
}
