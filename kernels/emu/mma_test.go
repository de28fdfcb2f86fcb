package emu_test

import (
	"math"
	"math/rand/v2"
	"syscall"
	"testing"

	"tandem/kernels/emu"
)

func library(t testing.TB) *emu.Library {
	t.Helper()
	file := emu.Find(emu.Plain)
	if file == "" {
		t.Skipf("there is no %s, which make emu builds", emu.Plain)
	}
	l, err := emu.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A dot product of 16 pairs and an accumulator, in one output of a tile.
func dot(t testing.TB, l *emu.Library, form int, c float32, a, b []float32) float32 {
	t.Helper()
	var cs [128]float32
	var as [128]uint32
	var bs [64]uint32
	for k := range a {
		as[k/2] |= uint32(bf16(a[k])) << (k % 2 * 16)
		bs[k/2*8] |= uint32(bf16(b[k])) << (k % 2 * 16)
	}
	cs[0] = c
	if !l.MMA(form, &cs, &as, &bs) {
		t.Skip("no AVX2")
	}
	return cs[0]
}

// What the exact form cuts off, by hand.
func TestExactByHand(t *testing.T) {
	l := library(t)
	inf := float32(math.Inf(1))
	cases := []struct {
		name string
		c    float32
		a, b []float32
		want float32
	}{
		{"nothing", 0, nil, nil, 0},
		{"a product", 0, []float32{3}, []float32{-5}, -15},
		{"k is summed at once", 0, []float32{0x1p25, 1, -0x1p25}, []float32{1, 1, 1}, 1},
		{"25 fraction bits are kept", 0, []float32{1, 0x1p-25, -1}, []float32{1, 1, 1}, 0x1p-25},
		{"the 26th is cut off", 0, []float32{1, 0x1p-26, -1}, []float32{1, 1, 1}, 0},
		{"each is cut off before the sum", 0, []float32{1, 0x1p-26, 0x1p-26, -1}, []float32{1, 1, 1, 1}, 0},
		{"towards zero", 0, []float32{1, -0x1.8p-25, -1}, []float32{1, 1, 1}, -0x1p-25},
		{"a product of 1.5 and 1.5 has the exponent of 1", 0, []float32{1.5, 0x1p-25, -1.5}, []float32{1.5, 1, 1.5}, 0x1p-25},
		{"the accumulator is aligned as well", 0x1p26, []float32{1.5}, []float32{1}, 0x1p26},
		{"and aligns the products", -0x1p24, []float32{1, 0x1p24}, []float32{0.5, 1}, 0.5},
		{"the sum is cut off to 24 bits", 0x1p24, []float32{1}, []float32{1}, 0x1p24},
		{"and not rounded up", 0, []float32{0x1p24, 1, 1, 1}, []float32{1, 1, 1, 0.5}, 0x1.000002p24},
		{"subnormal factors", 0, []float32{0x1p-130}, []float32{0x1p100}, 0x1p-30},
		{"a subnormal sum", 0, []float32{0x1p-70}, []float32{0x1.8p-70}, 0x1.8p-140},
		{"a sum below all", 0, []float32{0x1p-100}, []float32{0x1p-100}, 0},
		{"overflow", 0x1p127, []float32{0x1p127}, []float32{1}, inf},
		{"beyond float32 and back", 0, []float32{0x1p100, -0x1p100, 1}, []float32{0x1p100, 0x1p100, 1}, 0},
		{"infinity", 0, []float32{inf, 1}, []float32{2, 1}, inf},
		{"minus infinity", -inf, []float32{1}, []float32{1}, -inf},
	}
	for _, form := range []int{emu.ExactPlain, emu.ExactAVX2} {
		for _, c := range cases {
			if got := dot(t, l, form, c.c, c.a, c.b); got != c.want {
				t.Errorf("form %d, %s: %g, want %g", form, c.name, got, c.want)
			}
		}
		for _, c := range [][3]float32{{inf, -inf, 1}, {0, inf, 0}, {float32(math.NaN()), 1, 1}} {
			if got := dot(t, l, form, c[0], c[1:2], c[2:3]); math.Float32bits(got) != 0x7fffffff {
				t.Errorf("form %d: %v gives %x, want 7fffffff", form, c, math.Float32bits(got))
			}
		}
	}
}

// The AVX2 forms have the bits of the plain ones, for numbers of every size.
func TestFormsAgree(t *testing.T) {
	l := library(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	scale := 1.0 // of numbers of some size, which changes every few tiles
	moved := func() uint32 {
		if r.IntN(500) == 0 {
			scale = math.Exp2(float64(r.IntN(200) - 135))
		}
		return math.Float32bits(float32(r.NormFloat64() * scale))
	}
	kinds := map[string]func() uint32{
		"moved":        moved,
		"moved sparse": func() uint32 { return moved() * uint32(r.IntN(4)/3) },
		"normal":       func() uint32 { return math.Float32bits(float32(r.NormFloat64())) },
		"wide":         func() uint32 { return math.Float32bits(float32(r.NormFloat64() * math.Exp2(float64(r.IntN(60)-30)))) },
		"small":        func() uint32 { return math.Float32bits(float32(r.NormFloat64() * math.Exp2(float64(-r.IntN(80)-50)))) },
		"sparse":       func() uint32 { return math.Float32bits(float32(r.NormFloat64())) * uint32(r.IntN(4)/3) },
		"equal":        func() uint32 { return 0x3fff0000 },
		"finite": func() uint32 {
			for {
				if x := r.Uint32(); x>>23&255 != 255 {
					return x
				}
			}
		},
		"any": r.Uint32,
	}
	for name, draw := range kinds {
		for range 300 {
			var c, want [128]float32
			var a [128]uint32
			var b [64]uint32
			for i := range c {
				c[i] = math.Float32frombits(draw())
			}
			for i := range a {
				a[i] = draw()>>16 | draw()&0xffff0000
			}
			for i := range b {
				b[i] = draw()>>16 | draw()&0xffff0000
			}
			for form := emu.FastPlain; form <= emu.ExactPlain; form += 2 {
				got := c
				want = c
				if !l.MMA(form, &want, &a, &b) || !l.MMA(form+1, &got, &a, &b) {
					t.Skip("no AVX2")
				}
				for i := range got {
					g, w := math.Float32bits(got[i]), math.Float32bits(want[i])
					if g != w && !(form == emu.FastPlain && got[i] != got[i] && want[i] != want[i]) {
						t.Fatalf("%s, form %d, output %d: %x, want %x", name, form, i, g, w)
					}
				}
			}
		}
	}
}

// cpu is the time that the process has had, which others on the machine do not change much.
func cpu(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// A product on one thread of the host: how fast a core is.
func BenchmarkProduct(b *testing.B) {
	for _, library := range []string{emu.Plain, emu.Checked} {
		for _, mma := range []string{"fast", "exact"} {
			b.Run(library[len("build/emu/libcuda-emu"):len(library)-len(".so")]+"/"+mma, func(b *testing.B) {
				c := open(b, library, "mma", mma, "threads", "1", "schedule", "fixed")
				const T, N, K = 256, 256, 512
				r := rand.New(rand.NewPCG(1, 1))
				a := productArgs{x: place(b, c, randoms(r, T*K)), w: place(b, c, randoms(r, N*K)), T: T, N: N, K: K}
				a.y, _ = c.dev.Alloc(4 * T * N)
				before := cpu(b)
				for b.Loop() {
					launch(c.q, &productOp, a)
					if err := c.q.Sync(); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.N)*2*T*N*K/(cpu(b)-before)/1e9, "GFLOP/s/core")
			})
		}
	}
}
