package algebra

import "math/big"

// The constants are good to 1060 bits; the functions below work at up to maxPrec
// plus guard bits.
const (
	piDigits  = "3.1415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679821480865132823066470938446095505822317253594081284811174502841027019385211055596446229489549303819644288109756659334461284756482337867831652712019091456485669234603486104543266482133936072602491412737245870066063155882"
	ln2Digits = "0.69314718055994530941723212145817656807550013436025525412068000949339362196969471560586332699641868754200148102057068573368552023575813055703267075163507596193072757082837143519030703862389167347112335011536449795523912047517268157493206515552473413952588295045300709532636664265410423915781495204374043038550080194417064"
	guard     = 64
	maxPrec   = 960
)

var (
	piFloat  = parseConstant(piDigits)
	ln2Float = parseConstant(ln2Digits)
)

func parseConstant(digits string) *big.Float {
	x, _, err := big.ParseFloat(digits, 10, maxPrec+guard, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	return x
}

func (f *field) pi() ball { return f.rounded(f.float().Set(piFloat), noError+9) }

// wide returns a float with guard bits, set to x.
func (f *field) wide(x *big.Float) *big.Float {
	return new(big.Float).SetPrec(f.prec + guard).Set(x)
}

// series sums Σ tₙ with t₀ = first and tₙ₊₁ = tₙ · x / next(n), until a term no longer counts.
func (f *field) series(first, x *big.Float, next func(n int64) int64) *big.Float {
	sum, t := f.wide(first), f.wide(first)
	var d big.Float
	for n := int64(0); t.Sign() != 0 && exponent(t) > exponent(sum)-int(f.prec)-guard/2; n++ {
		f.charge(7)
		if f.failed {
			return sum
		}
		t.Mul(t, x)
		t.Quo(t, d.SetInt64(next(n)))
		sum.Add(sum, t)
	}
	return sum
}

// exp is eˣ = 2^k · e^r with r = x - k·ln 2.
func (f *field) exp(x ball) ball {
	if x.mid.Sign() == 0 && x.err == noError {
		return ball{f.float().SetInt64(1), noError}
	}
	if exponent(x.mid) > 27 || x.err > -8 {
		return f.fail()
	}
	k, r := reduceBy(f, x.mid, ln2Float)
	z := f.series(big.NewFloat(1), r, func(n int64) int64 { return n + 1 })
	z.SetMantExp(z, int(k))
	out := f.float().Set(z)
	return f.rounded(out, max(exponent(out)+x.err+1, exponent(out)-int(f.prec)))
}

// reduceBy returns k = round(x / m) and x - k·m with guard bits.
func reduceBy(f *field, x, m *big.Float) (int64, *big.Float) {
	f.charge(8)
	q := f.wide(x)
	q.Quo(q, m)
	half := big.NewFloat(0.5)
	if q.Sign() < 0 {
		half.Neg(half)
	}
	k, _ := q.Add(q, half).Int64()
	r := new(big.Float).SetPrec(maxPrec + guard).SetInt64(k)
	r.Mul(r, m)
	return k, f.wide(r.Sub(x, r))
}

// log is ln x = k·ln 2 + 2·artanh((m-1)/(m+1)) for x = m·2^k, after m has been
// brought near 1 by square roots.
func (f *field) log(x ball) ball {
	if x.sign() <= 0 {
		return f.fail()
	}
	const roots = 6
	m := f.wide(x.mid)
	k := m.MantExp(m)
	if m.Cmp(big.NewFloat(0.7)) < 0 {
		m.Mul(m, big.NewFloat(2))
		k--
	}
	f.charge(12 * roots)
	if f.failed {
		return f.fail()
	}
	for range roots {
		m.Sqrt(m)
	}
	one := big.NewFloat(1)
	z := f.wide(m)
	z.Sub(z, one)
	z.Quo(z, m.Add(m, one))
	z = f.artanh(z)
	z.SetMantExp(z, roots+1)
	kf := f.wide(ln2Float)
	kf.Mul(kf, new(big.Float).SetInt64(int64(k)))
	z.Add(z, kf)
	out := f.float().Set(z)
	lost := -int(f.prec) - guard/2 // absolute error of the sum, which may cancel when x is near 1
	return f.rounded(out, max(x.err-exponent(x.mid)+3, lost, noError))
}

// artanh is Σ z^(2n+1)/(2n+1) for small z.
func (f *field) artanh(z *big.Float) *big.Float { return f.oddSeries(z, false) }

// oddSeries sums z^(2n+1)/(2n+1), with alternating signs for the arctangent.
func (f *field) oddSeries(z *big.Float, alternate bool) *big.Float {
	sum, pow := f.wide(z), f.wide(z)
	z2 := f.wide(z)
	z2.Mul(z2, z)
	if alternate {
		z2.Neg(z2)
	}
	t := f.wide(z)
	var d big.Float
	for n := int64(3); t.Sign() != 0 && exponent(t) > exponent(sum)-int(f.prec)-guard/2; n += 2 {
		f.charge(7)
		if f.failed {
			return sum
		}
		pow.Mul(pow, z2)
		t.Quo(pow, d.SetInt64(n))
		sum.Add(sum, t)
	}
	return sum
}

// sincos returns sin x and cos x, reducing x by multiples of π/2.
func (f *field) sincos(x ball) (sin, cos ball) {
	if exponent(x.mid) > 40 || x.err > -8 {
		return f.fail(), f.fail()
	}
	halfPi := new(big.Float).SetPrec(maxPrec+guard).Quo(piFloat, big.NewFloat(2))
	k, r := reduceBy(f, x.mid, halfPi)
	r2 := f.wide(r)
	r2.Mul(r2, r)
	r2.Neg(r2)
	s := f.series(r, r2, func(n int64) int64 { return (2*n + 2) * (2*n + 3) })
	c := f.series(big.NewFloat(1), r2, func(n int64) int64 { return (2*n + 1) * (2*n + 2) })
	// r carries the rounding of k·π/2 at full precision, so its error is absolute
	lost := max(x.err, -int(f.prec)-guard/2) + 1
	a, b := f.rounded(f.float().Set(s), lost), f.rounded(f.float().Set(c), lost)
	switch ((k % 4) + 4) % 4 {
	case 1:
		return b, f.neg(a)
	case 2:
		return f.neg(a), f.neg(b)
	case 3:
		return f.neg(b), a
	}
	return a, b
}

// atan halves its argument's angle until the series is short:
// atan x = 2·atan(x / (1 + √(1+x²))).
func (f *field) atan(x ball) ball {
	if x.mid.Sign() == 0 {
		return x
	}
	const halvings = 5
	z := f.wide(x.mid)
	one := big.NewFloat(1)
	f.charge(16 * halvings)
	if f.failed || exponent(x.mid) > 1<<20 {
		return f.fail()
	}
	for range halvings {
		t := f.wide(z)
		t.Mul(t, z)
		t.Add(t, one)
		t.Sqrt(t)
		z.Quo(z, t.Add(t, one))
	}
	s := f.oddSeries(z, true)
	s.SetMantExp(s, halvings)
	return f.rounded(f.float().Set(s), max(x.err+1, noError))
}
