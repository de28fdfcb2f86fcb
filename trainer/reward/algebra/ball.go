package algebra

import "math/big"

// A ball is a real number known up to an error: the true value lies within
// 2^err of mid. Errors are carried as exponents only, rounded up, which costs a bit
// or two per operation and nothing else.
type ball struct {
	mid *big.Float
	err int // exact when noError
}

const (
	noError = -1 << 40
	// maxMagnitude bounds exponents, far inside big.Float's, so that products stay finite.
	maxMagnitude = 1 << 28
)

// A field does ball arithmetic at one precision. It is sticky: after an operation
// without a value (a division by something that may be zero, an argument out of
// range) failed is set and results mean nothing.
type field struct {
	prec   uint
	failed bool
	budget *Budget
}

func (f *field) charge(words int) { // words × cost of a multiplication
	n := int(f.prec) / 64
	if !f.budget.Spend(words * (60 + n*n*2)) {
		f.failed = true
	}
}

func (f *field) float() *big.Float { return new(big.Float).SetPrec(f.prec) }

func (f *field) fail() ball {
	f.failed = true
	return ball{f.float(), noError}
}

// exponent is the smallest k with |x| < 2^k; a zero has the smallest of all.
func exponent(x *big.Float) int {
	if x.Sign() == 0 {
		return noError
	}
	return x.MantExp(nil)
}

// rounded closes an operation: its rounding error joins err.
func (f *field) rounded(z *big.Float, err int) ball {
	e := exponent(z)
	if z.IsInf() || e > maxMagnitude || e < -maxMagnitude && z.Sign() != 0 {
		return f.fail()
	}
	if err <= noError+8 && z.Acc() == big.Exact {
		return ball{z, noError}
	}
	if z.Sign() != 0 {
		err = max(err, e-int(f.prec)) + 1
	}
	return ball{z, err}
}

func (f *field) fromRat(r *big.Rat) ball {
	f.charge(4 + ratBits(r)/64)
	z := f.float().SetRat(r)
	if z.Acc() == big.Exact {
		return ball{z, noError}
	}
	return f.rounded(z, noError)
}

func (f *field) add(a, b ball) ball {
	f.charge(1)
	return f.rounded(f.float().Add(a.mid, b.mid), max(a.err, b.err)+1)
}

func (f *field) neg(a ball) ball { return ball{f.float().Neg(a.mid), a.err} }

func (f *field) sub(a, b ball) ball { return f.add(a, f.neg(b)) }

func (f *field) mul(a, b ball) ball {
	f.charge(1)
	if f.failed {
		return f.fail()
	}
	err := max(exponent(a.mid)+b.err, exponent(b.mid)+a.err, a.err+b.err)
	return f.rounded(f.float().Mul(a.mid, b.mid), max(err+2, noError))
}

// away reports whether a is certainly not zero.
func (a ball) away() bool { return a.mid.Sign() != 0 && exponent(a.mid)-2 >= a.err }

// sign is the sign of a, or 0 where it is not certain.
func (a ball) sign() int {
	if !a.away() {
		return 0
	}
	return a.mid.Sign()
}

func (f *field) quo(a, b ball) ball {
	f.charge(3)
	if f.failed || !b.away() {
		return f.fail()
	}
	z := f.float().Quo(a.mid, b.mid)
	eb := exponent(b.mid) - 1 // |b| ≥ 2^eb, at least half of it after the error
	err := max(a.err-eb, exponent(z)+b.err-eb)
	return f.rounded(z, max(err+3, noError))
}

func (f *field) sqrt(a ball) ball {
	f.charge(12)
	if f.failed {
		return f.fail()
	}
	if a.mid.Sign() == 0 && a.err == noError {
		return a
	}
	if a.sign() <= 0 {
		return f.fail()
	}
	z := f.float().Sqrt(a.mid)
	if a.err == noError && new(big.Float).SetPrec(2*f.prec).Mul(z, z).Cmp(a.mid) == 0 {
		return ball{z, noError}
	}
	// Sqrt does not say whether it rounded
	return f.rounded(z, max(a.err-exponent(z)+2, exponent(z)-int(f.prec)))
}

// widen adds an error to a.
func widen(a ball, err int) ball { return ball{a.mid, max(a.err, err) + 1} }

// powInt is a^n by repeated squaring.
func (f *field) powInt(a ball, n int64) ball {
	out := ball{f.float().SetInt64(1), noError}
	if n < 0 {
		return f.quo(out, f.powInt(a, -n))
	}
	for ; n > 0 && !f.failed; n >>= 1 {
		if n&1 == 1 {
			out = f.mul(out, a)
		}
		if n > 1 {
			a = f.mul(a, a)
		}
	}
	return out
}
