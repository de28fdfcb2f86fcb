package kerneltest_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// A recorder is a test that may fail.
type recorder struct {
	testing.TB
	errors []string
}

func (r *recorder) Helper()                   {}
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }

// says fails unless the only failure recorded has this text; "" means none.
func (r *recorder) says(t *testing.T, want string) {
	t.Helper()
	if got := strings.Join(r.errors, "\n"); got != want {
		t.Errorf("test says %q, want %q", got, want)
	}
}

func TestNear(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	for _, c := range []struct {
		got  []float32
		want []float64
		tol  kerneltest.Tol
		says string
	}{
		{[]float32{1, 2}, []float64{1, 2}, kerneltest.Tol{}, ""},
		{[]float32{1, 2.5}, []float64{1, 2}, kerneltest.Tol{Abs: 0.5}, ""},
		{[]float32{1, 2.5}, []float64{1, 2}, kerneltest.Tol{Rel: 0.25}, ""},
		{[]float32{1.5, 3, 1}, []float64{1, 2, 1}, kerneltest.Tol{Abs: 0.25}, "y: error is 4 times what is allowed at 1 of 3: got 3, want 2"},
		{[]float32{1}, []float64{2}, kerneltest.Tol{}, "y: error is +Inf times what is allowed at 0 of 1: got 1, want 2"},
		{[]float32{float32(nan)}, []float64{2}, kerneltest.Tol{Abs: 9}, "y: error is +Inf times what is allowed at 0 of 1: got NaN, want 2"},
		{[]float32{2}, []float64{nan}, kerneltest.Tol{Abs: 9}, "y: error is +Inf times what is allowed at 0 of 1: got 2, want NaN"},
		{[]float32{float32(-inf)}, []float64{inf}, kerneltest.Tol{Rel: 1}, "y: error is +Inf times what is allowed at 0 of 1: got -Inf, want +Inf"},
		{[]float32{float32(nan), float32(inf)}, []float64{nan, inf}, kerneltest.Tol{}, ""},
		{[]float32{1}, []float64{1, 2}, kerneltest.Tol{}, "y: 1 elements, want 2"},
	} {
		r := &recorder{}
		kerneltest.Near(r, "y", c.got, c.want, c.tol)
		r.says(t, c.says)
	}
}

func TestSame(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		got, want []float32
		says      string
	}{
		{[]float32{1, nan}, []float32{1, -nan}, ""},
		{[]float32{0}, []float32{float32(math.Copysign(0, -1))}, "y: 1 of 1 elements differ in bits, most at 0: got 0 (00000000), want -0 (80000000)"},
		{[]float32{1, 2, 3}, []float32{1, 2.5, 5}, "y: 2 of 3 elements differ in bits, most at 2: got 3 (40400000), want 5 (40a00000)"},
		{[]float32{1}, nil, "y: 1 elements, want 0"},
	} {
		r := &recorder{}
		kerneltest.Same(r, "y", c.got, c.want)
		r.says(t, c.says)
	}
}

func TestGradient(t *testing.T) {
	x := []float64{3, -0.5, 1000}
	got := kerneltest.Gradient(func() float64 { return x[0]*x[0]*x[1] + math.Sin(x[1]) + x[2] }, x)
	for i, want := range []float64{-3, 9 + math.Cos(0.5), 1} {
		if math.Abs(got[i]-want) > 1e-6 {
			t.Errorf("derivative %d is %v, want %v", i, got[i], want)
		}
	}
	if x[0] != 3 || x[1] != -0.5 || x[2] != 1000 {
		t.Errorf("x is left as %v", x)
	}
}

// A write just outside of a tensor is found, and one inside is not mistaken for it.
func TestGuards(t *testing.T) {
	for _, c := range []struct {
		name    string
		at, len int
		says    string
	}{
		{"inside", 0, 10, ""},
		{"one past the end", 0, 12, ": byte 10 of the 10 of bfloat16 [5] was written"},
		{"one before", -2, 2, ": byte -2 of the 10 of bfloat16 [5] was written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recorder{TB: t}
			d := kerneltest.CPU(r, kernels.CPUConfig{Workers: 1})
			x := d.Tensor(kernels.BF16, 5)
			kernels.Zero(d.Q, kernels.NewTensor(x.Ptr+kernels.Ptr(c.at), kernels.U8, c.len))
			d.Close()
			if want := c.says; want != "" {
				c.says = d.Name() + want
			}
			r.says(t, c.says)
		})
	}
}

// What is put comes back, tensors start as NaNs, and results that differ between devices are found.
func TestDevice(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
	x := []float32{1, -2, 0.1}
	kerneltest.Same(t, "float32", d.Get(d.Put(kernels.F32, x, 3)), x)
	kerneltest.Same(t, "bfloat16", d.Get(d.Put(kernels.BF16, x, 3)), kerneltest.Round(kernels.BF16, x))
	if got := d.GetI32(d.PutI32([]int32{-1, 7}, 2)); got[0] != -1 || got[1] != 7 {
		t.Errorf("int32: %v", got)
	}
	for _, dt := range kerneltest.DTypes {
		for i, v := range append(d.Get(d.Tensor(dt, 3)), d.Get(d.Tensor(dt, 4))...) {
			if v == v {
				t.Errorf("%v is %v at %d before anybody wrote", dt, v, i)
			}
		}
	}

	r, n := &recorder{TB: t}, float32(0)
	kerneltest.Agree(r, func(*kerneltest.Device) kerneltest.Results {
		n++
		return kerneltest.Results{"n": {n}}
	})
	if len(r.errors) != int(n)-1 || !strings.Contains(r.errors[0], "n on cpu (") || !strings.Contains(r.errors[0], ", 2 workers) against cpu (") {
		t.Errorf("devices that disagree: %q", r.errors)
	}
}
