package kernels

import (
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

func TestExp2(t *testing.T) {
	inf := float32(math.Inf(1))
	for _, c := range []struct{ x, want float32 }{
		{0, 1}, {float32(math.Copysign(0, -1)), 1}, {1, 2}, {-1, 0.5}, {127, 0x1p127}, {-126, 0x1p-126},
		{128, inf}, {1e30, inf}, {inf, inf}, {-126.5, 0}, {-1e30, 0}, {-inf, 0}, {1e-30, 1}, {math.SmallestNonzeroFloat32, 1},
	} {
		if got := exp2(c.x); got != c.want {
			t.Errorf("exp2(%v) = %v, want %v", c.x, got, c.want)
		}
	}
	if got := exp2(float32(math.NaN())); got == got {
		t.Errorf("exp2(NaN) = %v", got)
	}
	worst, at := 0.0, float32(0)
	for x := float32(-126); x < 128; x += 0x1.1p-11 {
		want := math.Exp2(float64(x))
		ulp := math.Ldexp(1, max(-126, math.Ilogb(want))-23)
		if e := math.Abs(float64(exp2(x))-want) / ulp; e > worst {
			worst, at = e, x
		}
	}
	if worst > 1 {
		t.Errorf("exp2 is %.3f ulp off at %v, want at most 1", worst, at)
	}
}

// TestFMA32 compares with 300 bits of precision, rounded once.
func TestFMA32(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 20000 {
		x := wildF32(r, 3, i%4)
		if i%3 == 0 { // the sum is close to the middle between two float32
			x[2] = -x[0] * x[1] * (1 + 0x1p-23*float32(r.IntN(5)))
		}
		if math.IsInf(float64(x[0]), 0) || math.IsInf(float64(x[1]), 0) || math.IsInf(float64(x[2]), 0) || x[2] != x[2] {
			continue
		}
		exact := func(v float32) *big.Float { return new(big.Float).SetPrec(700).SetFloat64(float64(v)) }
		sum := new(big.Float).SetPrec(700).Mul(exact(x[0]), exact(x[1]))
		sum.Add(sum, exact(x[2]))
		want, _ := sum.Float32()
		if got := fma32(x[0], x[1], x[2]); got != want {
			t.Fatalf("fma32(%x, %x, %x) = %x, want %x", x[0], x[1], x[2], got, want)
		}
	}
}

// TestStepBF16 compares with the exact sum, rounded to 24 bits whatever the exponent and then flushed.
func TestStepBF16(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	for i := range 50000 {
		a := wildBF16(r, 2, 1+i%2)
		c := wildF32(r, 1, 1+i%2)[0]
		x, y, z := flush(F32Of(a[0])), flush(F32Of(a[1])), flush(c)
		sum := new(big.Float).SetPrec(700).SetFloat64(float64(x))
		sum.Mul(sum, new(big.Float).SetFloat64(float64(y)))
		sum.Add(sum, new(big.Float).SetFloat64(float64(z)))
		near, _ := new(big.Float).SetPrec(24).SetMode(big.ToNearestEven).Set(sum).Float64()
		want := float32(near)
		if math.Abs(near) < 0x1p-126 {
			want = 0
		}
		if got := stepBF16(a[0], a[1], c); got != want {
			t.Fatalf("stepBF16(%x, %x, %x) = %x, want %x", x, y, c, got, want)
		}
	}
}

func TestFold(t *testing.T) {
	var l [16]float32
	for j := range l {
		l[j] = float32(math.Ldexp(1, j*2-10)) * 1.1
	}
	r8 := func(j int) float32 { return l[j] + l[j+8] }
	r4 := func(j int) float32 { return r8(j) + r8(j+4) }
	want := (r4(0) + r4(2)) + (r4(1) + r4(3))
	if got := fold(&l); got != want {
		t.Errorf("fold = %v, want %v", got, want)
	}
}
