package algebra

import (
	"hash/fnv"
	"math/big"
)

// A point gives every variable, and every function that is only a name, a value
// that depends on that name and on the point alone.
type point struct {
	n       uint64
	integer bool // small non-negative integers, for expressions with factorials
}

// draw returns a rational for a name: in ±[0.25, 2.25), positive at the
// first two points and negative at the third, so that √x² and x part.
func (p point) draw(name string) *big.Rat {
	h := fnv.New64a()
	h.Write([]byte(name))
	x := h.Sum64() + (p.n+1)*0x9E3779B97F4A7C15
	x = (x ^ x>>30) * 0xBF58476D1CE4E5B9
	x = (x ^ x>>27) * 0x94D049BB133111EB
	x ^= x >> 31
	if p.integer {
		return big.NewRat(int64(x%7)+int64(p.n%3), 1)
	}
	v := int64(x>>32&(1<<21-1)) + 1<<18
	if p.n == 2 || p.n > 2 && x&1 == 1 {
		v = -v
	}
	return big.NewRat(v, 1<<20)
}

// eval evaluates e at p. Check f.failed before using the result.
func (f *field) eval(e *Expr, p point) value {
	f.charge(4)
	if f.failed {
		return realValue(f.zero())
	}
	switch e.Op {
	case Num:
		return realValue(f.fromRat(e.Value))
	case Sym:
		return realValue(f.fromRat(p.draw(e.Name)))
	case Pi:
		return realValue(f.pi())
	case E:
		return realValue(f.exp(ball{f.float().SetInt64(1), noError}))
	case I:
		return complexValue(f.zero(), ball{f.float().SetInt64(1), noError})
	case Add:
		sum := realValue(f.zero())
		for _, a := range e.Args {
			sum = f.vadd(sum, f.eval(a, p))
		}
		return sum
	case Mul:
		product := realValue(ball{f.float().SetInt64(1), noError})
		for _, a := range e.Args {
			product = f.vmul(product, f.eval(a, p))
		}
		return product
	case Pow:
		return f.evalPower(e.Args[0], e.Args[1], p)
	case Root:
		n, ok := Rational(e.Args[1], f.budget)
		if !ok || n.Sign() == 0 {
			return f.vpow(f.eval(e.Args[0], p), f.vinv(f.eval(e.Args[1], p)))
		}
		return f.ratPower(f.eval(e.Args[0], p), new(big.Rat).Inv(n))
	case Call:
		return f.call(e, p)
	}
	return realValue(f.fail()) // ∞
}

func (f *field) evalPower(a, b *Expr, p point) value {
	if a.Op == E {
		return f.vexp(f.eval(b, p))
	}
	base := f.eval(a, p)
	if q, ok := Rational(b, f.budget); ok {
		return f.ratPower(base, q)
	}
	return f.vpow(base, f.eval(b, p))
}

// ratPower is a^q; an odd root of a negative real is real.
func (f *field) ratPower(a value, q *big.Rat) value {
	if f.failed {
		return a
	}
	if q.IsInt() && q.Num().BitLen() < 24 {
		n := q.Num().Int64()
		if n == 0 && !a.re.away() && a.im == nil {
			return realValue(f.fail()) // 0^0
		}
		if a.im == nil {
			return realValue(f.powInt(a.re, n))
		}
		return f.complexPowInt(a, n)
	}
	if q.Cmp(big.NewRat(1, 2)) == 0 {
		return f.vsqrt(a)
	}
	if a.im == nil && a.re.mid.Sign() == 0 && a.re.err == noError && q.Sign() > 0 {
		return a
	}
	negative := a.im == nil && a.re.sign() < 0 && q.Denom().Bit(0) == 1
	if negative {
		a = realValue(f.neg(a.re))
	}
	z := f.vpow(a, realValue(f.fromRat(q)))
	if negative && q.Num().Bit(0) == 1 {
		z = realValue(f.neg(z.re))
	}
	return z
}

func (f *field) complexPowInt(a value, n int64) value {
	if n < 0 {
		return f.vinv(f.complexPowInt(a, -n))
	}
	out := realValue(ball{f.float().SetInt64(1), noError})
	for ; n > 0 && !f.failed; n >>= 1 {
		if n&1 == 1 {
			out = f.vmul(out, a)
		}
		if n > 1 {
			a = f.vmul(a, a)
		}
	}
	return out
}

// call evaluates a function. A name that is none stands for a cubic that depends on
// the name: equal arguments give equal values and, but for chance, only they do.
func (f *field) call(e *Expr, p point) value {
	args := make([]value, len(e.Args))
	for i, a := range e.Args {
		args[i] = f.eval(a, p)
	}
	if f.failed {
		return realValue(f.zero())
	}
	switch len(args) {
	case 1:
		if v, ok := f.unary(e.Name, args[0]); ok {
			return v
		}
	case 2:
		if v, ok := f.binary(e.Name, args[0], args[1]); ok {
			return v
		}
	}
	sum := realValue(f.fromRat(p.draw(e.Name)))
	for i, a := range args {
		name := e.Name + string(rune('0'+i))
		c := f.vmul(a, realValue(f.fromRat(p.draw(name))))
		sum = f.vadd(sum, f.vadd(c, f.vmul(f.vmul(a, a), f.vmul(c, realValue(f.fromRat(p.draw(name+"'")))))))
		sum = f.vmul(sum, realValue(f.fromRat(p.draw(name+"\""))))
	}
	return sum
}

func (f *field) binary(name string, a, b value) (value, bool) {
	switch name {
	case "log": // base, argument
		return f.vmul(f.vlog(b), f.vinv(f.vlog(a))), true
	case "binomial":
		return f.combinatorial(a, &b), true
	case "max", "min":
		d := f.vsub(a, b)
		if d.im != nil {
			return realValue(f.fail()), true
		}
		if (d.re.mid.Sign() < 0) == (name == "min") {
			return a, true
		}
		return b, true
	}
	return value{}, false
}

// combinatorial is a factorial, or a binomial coefficient where b is given, of
// numbers that are integers.
func (f *field) combinatorial(a value, b *value) value {
	n, ok := smallInt(a)
	if !ok {
		return realValue(f.fail())
	}
	z := new(big.Int)
	if b == nil {
		f.charge(int(n))
		z.MulRange(1, n)
	} else {
		k, ok := smallInt(*b)
		if !ok {
			return realValue(f.fail())
		}
		f.charge(int(k) * 2)
		z.Binomial(n, k)
	}
	return realValue(f.fromRat(new(big.Rat).SetInt(z)))
}

func smallInt(v value) (int64, bool) {
	if v.im != nil || !v.re.mid.IsInt() || v.re.mid.Sign() < 0 || exponent(v.re.mid) > 11 {
		return 0, false
	}
	n, _ := v.re.mid.Int64()
	return n, true
}
