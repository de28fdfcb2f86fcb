package algebra

import "math/big"

// A value is a complex ball; im is nil where the value is real.
type value struct {
	re ball
	im *ball
}

func realValue(b ball) value { return value{re: b} }

func (f *field) zero() ball { return ball{f.float(), noError} }

func (f *field) imag(v value) ball {
	if v.im == nil {
		return f.zero()
	}
	return *v.im
}

func complexValue(re, im ball) value {
	if im.mid.Sign() == 0 && im.err == noError {
		return value{re: re}
	}
	return value{re, &im}
}

func (f *field) vadd(a, b value) value {
	if a.im == nil && b.im == nil {
		return realValue(f.add(a.re, b.re))
	}
	return complexValue(f.add(a.re, b.re), f.add(f.imag(a), f.imag(b)))
}

func (f *field) vsub(a, b value) value {
	neg := value{re: f.neg(b.re)}
	if b.im != nil {
		im := f.neg(*b.im)
		neg.im = &im
	}
	return f.vadd(a, neg)
}

func (f *field) vmul(a, b value) value {
	if a.im == nil && b.im == nil {
		return realValue(f.mul(a.re, b.re))
	}
	ai, bi := f.imag(a), f.imag(b)
	return complexValue(
		f.sub(f.mul(a.re, b.re), f.mul(ai, bi)),
		f.add(f.mul(a.re, bi), f.mul(ai, b.re)))
}

func (f *field) vinv(a value) value {
	one := ball{f.float().SetInt64(1), noError}
	if a.im == nil {
		return realValue(f.quo(one, a.re))
	}
	n := f.add(f.mul(a.re, a.re), f.mul(*a.im, *a.im))
	return complexValue(f.quo(a.re, n), f.quo(f.neg(*a.im), n))
}

func (f *field) vabs(a value) ball {
	if a.im == nil {
		return ball{f.float().Abs(a.re.mid), a.re.err}
	}
	return f.sqrt(f.add(f.mul(a.re, a.re), f.mul(*a.im, *a.im)))
}

// arg is the principal argument, in (-π, π].
func (f *field) arg(a value) ball {
	if a.im == nil {
		switch a.re.sign() {
		case 1:
			return f.zero()
		case -1:
			return f.pi()
		}
		return f.fail()
	}
	im := *a.im
	if a.re.sign() > 0 {
		return f.atan(f.quo(im, a.re))
	}
	if im.sign() == 0 {
		if a.re.sign() < 0 { // a real number that came out of complex arithmetic
			return widen(f.pi(), im.err-exponent(a.re.mid)+2)
		}
		return f.fail()
	}
	half := f.quo(f.pi(), ball{f.float().SetInt64(2), noError})
	t := f.atan(f.quo(a.re, im))
	if im.sign() < 0 {
		half = f.neg(half)
	}
	return f.sub(half, t)
}

func (f *field) vlog(a value) value {
	if a.im == nil && a.re.sign() > 0 {
		return realValue(f.log(a.re))
	}
	return complexValue(f.log(f.vabs(a)), f.arg(a))
}

func (f *field) vexp(a value) value {
	e := f.exp(a.re)
	if a.im == nil {
		return realValue(e)
	}
	s, c := f.sincos(*a.im)
	return complexValue(f.mul(e, c), f.mul(e, s))
}

func (f *field) vsqrt(a value) value {
	if a.im == nil {
		if a.re.mid.Sign() >= 0 {
			return realValue(f.sqrt(a.re))
		}
		return complexValue(f.zero(), f.sqrt(f.neg(a.re)))
	}
	return f.vpow(a, realValue(ball{big.NewFloat(0.5).SetPrec(f.prec), noError}))
}

// vpow is the principal aᵇ.
func (f *field) vpow(a, b value) value {
	if f.failed || !a.re.away() && (a.im == nil || !a.im.away()) {
		return realValue(f.fail())
	}
	return f.vexp(f.vmul(b, f.vlog(a)))
}

// vsincos are the sine and the cosine of a complex argument.
func (f *field) vsincos(a value) (sin, cos value) {
	if a.im == nil {
		s, c := f.sincos(a.re)
		return realValue(s), realValue(c)
	}
	s, c := f.sincos(a.re)
	e := f.exp(*a.im)
	one, two := ball{f.float().SetInt64(1), noError}, ball{f.float().SetInt64(2), noError}
	d := f.quo(one, e)
	ch, sh := f.quo(f.add(e, d), two), f.quo(f.sub(e, d), two)
	return complexValue(f.mul(s, ch), f.mul(c, sh)), complexValue(f.mul(c, ch), f.neg(f.mul(s, sh)))
}
