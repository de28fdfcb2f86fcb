package kernels_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

func TestDTypes(t *testing.T) {
	for _, c := range []struct {
		d    kernels.DType
		size int
		name string
	}{
		{kernels.F32, 4, "float32"}, {kernels.BF16, 2, "bfloat16"}, {kernels.I32, 4, "int32"}, {kernels.U64, 8, "uint64"}, {kernels.U8, 1, "uint8"},
	} {
		if c.d.Size() != c.size || c.d.String() != c.name {
			t.Errorf("%v: size %d, name %q, want %d, %q", c.d, c.d.Size(), c.d.String(), c.size, c.name)
		}
	}
	if got := kernels.DType(77).String(); got != "dtype(77)" {
		t.Errorf("unknown dtype prints %q", got)
	}
	mustPanic(t, "kernels: dtype 0 has no size", func() { kernels.DType(0).Size() })
}

func TestTensor(t *testing.T) {
	x := kernels.NewTensor(1000, kernels.BF16, 6, 5, 2)
	if x.Rank() != 3 || x.Len() != 60 || x.Bytes() != 120 || !cmp.Equal(x.Dims(), []int{6, 5, 2}) {
		t.Errorf("tensor %+v: rank %d, %d elements, %d bytes, dims %v", x, x.Rank(), x.Len(), x.Bytes(), x.Dims())
	}
	for _, c := range []struct {
		name      string
		got, want kernels.Tensor
	}{
		{"rows 2 to 5", x.Rows(2, 5), kernels.NewTensor(1040, kernels.BF16, 3, 5, 2)},
		{"all rows", x.Rows(0, 6), x},
		{"rows of rows", x.Rows(1, 6).Rows(1, 4), x.Rows(2, 5)},
		{"view", x.View(2, 3, 10), kernels.NewTensor(1000, kernels.BF16, 2, 3, 10)},
		{"rows of a vector", kernels.NewTensor(8, kernels.U64, 9).Rows(3, 4), kernels.NewTensor(32, kernels.U64, 1)},
	} {
		if c.got != c.want {
			t.Errorf("%s: %+v, want %+v", c.name, c.got, c.want)
		}
	}
	if n := (kernels.Tensor{}).Len() + x.Rows(3, 3).Bytes(); n != 0 {
		t.Errorf("tensors without elements have %d", n)
	}
	mustPanic(t, "kernels: view [7 9] of [6 5 2]: 63 elements, want 60", func() { x.View(7, 9) })
}

// What is checked by letters, seen from outside.
func TestShapes(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{Vec: "go", Workers: 1})
	bf16 := func(shape ...int) kernels.Tensor { return d.Zeros(kernels.BF16, shape...) }
	x, none := bf16(96, 24), kernels.Tensor{}
	for _, c := range []struct {
		want string
		f    func()
	}{
		{"RMSNorm: w is [48], want [D] with D=24", func() { kernels.RMSNorm(d.Q, x, none, x, bf16(48), eps) }},
		{"RMSNorm: x is [96 25], want [T D] with T=96 D=24", func() { kernels.RMSNorm(d.Q, x, none, bf16(96, 25), bf16(24), eps) }},
		{"RMSNorm: x is [96 24 1], want [T D] with T=96 D=24", func() { kernels.RMSNorm(d.Q, x, none, bf16(96, 24, 1), bf16(24), eps) }},
		{"RMSNorm: x is [96], want [T D] with T=96 D=24", func() { kernels.RMSNorm(d.Q, x, none, bf16(96), bf16(24), eps) }},
		{"RMSNorm: w has no memory, want [D]", func() { kernels.RMSNorm(d.Q, x, none, x, none, eps) }},
		{"RMSNorm: w is float32, want bfloat16", func() { kernels.RMSNorm(d.Q, x, none, x, d.Zeros(kernels.F32, 24), eps) }},
		{"RMSNorm: out is int32, want float32 or bfloat16", func() { kernels.RMSNorm(d.Q, d.PutI32(make([]int32, 6), 2, 3), none, x, x, eps) }},
		{"SwiGLU: gateup is [96 24], want [T 2·F] with T=96 2·F=48", func() { kernels.SwiGLU(d.Q, x, x) }},
		{"GradNorm: norm is [2], want [1]", func() { kernels.GradNorm(d.Q, d.Zeros(kernels.F32, 2), none, none) }},
		{"Zero: x has no memory", func() { kernels.Zero(d.Q, none) }},
		{"Add: dst is float32 [2], src is float32 [3]", func() { kernels.Add(d.Q, d.Zeros(kernels.F32, 2), d.Zeros(kernels.F32, 3)) }},
		{"AdamW: step 0, want 1 for the first", func() {
			v := d.Zeros(kernels.F32, 2)
			kernels.AdamW(d.Q, v, v, kernels.Moment{Mean: v}, kernels.Moment{Mean: v}, v, kernels.AdamWConfig{})
		}},
		{"AdamW: m's exponents is [3], want [N/64]", func() {
			v, h := d.Zeros(kernels.F32, 80), kernels.Moment{Mean: d.Zeros(kernels.F16, 80), Exponent: d.Zeros(kernels.U8, 3)}
			kernels.AdamW(d.Q, v, v, h, h, v, kernels.AdamWConfig{})
		}},
		{"AdamW: master is the low halves of w, which is float32, want bfloat16", func() {
			v := d.Zeros(kernels.F32, 2)
			kernels.AdamW(d.Q, v, d.Zeros(kernels.U16, 2), kernels.Moment{Mean: v}, kernels.Moment{Mean: v}, v, kernels.AdamWConfig{Step: 1})
		}},
		{"QKNormRope: H+K=4 H+2K=4 E=6", func() {
			h, e := bf16(96, 4, 6), bf16(6)
			kernels.QKNormRope(d.Q, h, none, h, e, e, none, none, none, eps)
		}},
	} {
		mustPanic(t, c.want, c.f)
	}
	d.Sync()
}

// mustPanic fails unless f panics with a text that contains want.
func mustPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got := fmt.Sprint(recover()); !strings.Contains(got, want) {
			t.Errorf("panic is %q, want %q", got, want)
		}
	}()
	f()
}

func TestBF16Values(t *testing.T) {
	inf := math.Inf(1)
	for _, c := range []struct {
		name     string
		in, want float64
	}{
		{"tie to even, down", 1.00390625, 1}, {"tie to even, up", 1.01171875, 1.015625},
		{"below the middle", 1.001953125, 1}, {"above the middle", 1.005859375, 1.0078125},
		{"zero", 0, 0}, {"infinity", inf, inf}, {"minus infinity", -inf, -inf},
		{"largest", 0x1.fep127, 0x1.fep127}, {"rounds to infinity", 0x1.ffp127, inf}, {"stays finite", 0x1.fefffep127, 0x1.fep127},
		{"smallest subnormal", 0x1p-133, 0x1p-133}, {"half of it", 0x1p-134, 0}, {"just above half", 0x1.0002p-134, 0x1p-133},
	} {
		for _, s := range []float64{1, -1} {
			if got := kernels.F32Of(kernels.BF16Of(float32(s * c.in))); float64(got) != s*c.want {
				t.Errorf("%s: %v becomes %v, want %v", c.name, s*c.in, got, s*c.want)
			}
		}
	}
	if b := kernels.BF16Of(float32(math.Copysign(0, -1))); b != 0x8000 {
		t.Errorf("-0 becomes %04x", b)
	}
	for _, bits := range []uint32{0x7f800001, 0x7fffffff, 0xff800001, 0x7fc00000} {
		if got := kernels.F32Of(kernels.BF16Of(math.Float32frombits(bits))); got == got {
			t.Errorf("NaN %08x becomes %v", bits, got)
		}
	}
}

// Every bfloat16 is itself, and what lies between two of them goes to the nearer one, or to the even one.
func TestBF16Of(t *testing.T) {
	for hi := range uint32(0x7f80) {
		for _, lo := range []uint32{0, 1, 0x7fff, 0x8000, 0x8001, 0xffff} {
			want := hi
			if lo > 0x8000 || lo == 0x8000 && hi&1 == 1 {
				want++
			}
			for _, sign := range []uint32{0, 0x8000} {
				if got := kernels.BF16Of(math.Float32frombits((hi|sign)<<16 | lo)); uint32(got) != want|sign {
					t.Fatalf("%04x%04x becomes %04x, want %04x", hi|sign, lo, got, want|sign)
				}
			}
		}
	}
}
