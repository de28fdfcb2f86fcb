package algebra

import "math/big"

// unary evaluates the functions of one argument that answers use; ok is false for
// a name that is none of them.
func (f *field) unary(name string, x value) (value, bool) {
	switch name {
	case "exp":
		return f.vexp(x), true
	case "ln":
		return f.vlog(x), true
	case "abs":
		return realValue(f.vabs(x)), true
	case "factorial":
		return f.combinatorial(x, nil), true
	case "floor", "ceil", "sgn":
		if x.im != nil {
			return realValue(f.fail()), true
		}
		return realValue(f.step(name, x.re)), true
	case "re":
		return realValue(x.re), true
	case "im":
		return realValue(f.imag(x)), true
	case "conj":
		return complexValue(x.re, f.neg(f.imag(x))), true
	case "sin", "cos", "tan", "cot", "sec", "csc":
		return f.trig(name, x), true
	case "arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc":
		if x.im != nil {
			return realValue(f.fail()), true
		}
		return realValue(f.arc(name, x.re)), true
	case "sinh", "cosh", "tanh", "coth":
		return f.hyperbolic(name, x), true
	}
	return value{}, false
}

func (f *field) trig(name string, x value) value {
	s, c := f.vsincos(x)
	switch name {
	case "sin":
		return s
	case "cos":
		return c
	case "tan":
		return f.vmul(s, f.vinv(c))
	case "cot":
		return f.vmul(c, f.vinv(s))
	case "sec":
		return f.vinv(c)
	}
	return f.vinv(s)
}

// arc is an inverse trigonometric function of a real number: the angle of the point
// whose coordinates the function compares, by way of arctan.
func (f *field) arc(name string, x ball) ball {
	one := ball{f.float().SetInt64(1), noError}
	half := f.quo(f.pi(), ball{f.float().SetInt64(2), noError})
	switch name {
	case "arctan":
		return f.atan(x)
	case "arccot":
		return f.sub(half, f.atan(x))
	case "arcsec", "arccsc":
		x = f.quo(one, x)
	}
	sine := name == "arcsin" || name == "arccsc"
	rest := f.sub(one, f.mul(x, x))
	angle := half
	if x.sign() < 0 {
		angle = f.neg(half)
	}
	if rest.mid.Sign() != 0 || rest.err != noError { // not exactly ±1
		angle = f.atan(f.quo(x, f.sqrt(rest)))
	}
	if sine {
		return angle
	}
	return f.sub(half, angle)
}

func (f *field) hyperbolic(name string, x value) value {
	a := f.vexp(x)
	b := f.vinv(a)
	half := realValue(ball{f.float().SetFloat64(0.5), noError})
	sinh, cosh := f.vmul(half, f.vsub(a, b)), f.vmul(half, f.vadd(a, b))
	switch name {
	case "sinh":
		return sinh
	case "cosh":
		return cosh
	case "tanh":
		return f.vmul(sinh, f.vinv(cosh))
	}
	return f.vmul(cosh, f.vinv(sinh))
}

// step is a function with jumps; its argument must be certainly away from one.
func (f *field) step(name string, x ball) ball {
	f.charge(4)
	if f.failed || exponent(x.mid) > 4096 {
		return f.fail()
	}
	if name == "sgn" {
		if x.mid.Sign() != 0 && x.sign() == 0 {
			return f.fail()
		}
		return ball{f.float().SetInt64(int64(x.mid.Sign())), noError}
	}
	if name == "ceil" {
		return f.neg(f.step("floor", f.neg(x)))
	}
	n, acc := x.mid.Int(nil)
	if acc == big.Above { // truncated towards zero from below
		n.Sub(n, big.NewInt(1))
	}
	if x.err != noError {
		for _, edge := range []int64{0, 1} {
			e := f.float().SetInt(new(big.Int).Add(n, big.NewInt(edge)))
			if d := e.Sub(x.mid, e); d.Sign() == 0 || exponent(d)-2 < x.err {
				return f.fail()
			}
		}
	}
	return ball{f.float().SetInt(n), noError}
}

// known reports whether name is a function that this package evaluates.
func known(name string, args int) bool {
	switch name {
	case "exp", "ln", "abs", "factorial", "floor", "ceil", "sgn", "re", "im", "conj",
		"sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc",
		"sinh", "cosh", "tanh", "coth":
		return args == 1
	case "log", "binomial", "max", "min":
		return args == 2
	}
	return false
}

// hasNamedFunction reports whether e applies a function that is only a name.
func hasNamedFunction(e *Expr) bool {
	found := false
	e.Each(func(n *Expr) bool {
		found = found || n.Op == Call && !known(n.Name, len(n.Args))
		return !found
	})
	return found
}
