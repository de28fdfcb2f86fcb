package algebra

import (
	"math/big"
	"sort"
	"strings"
)

// A fraction is the normal form of an expression: num / den, not in lowest terms.
// It is undefined where den is zero as a polynomial.
type fraction struct {
	num, den poly
}

func whole(p poly) fraction { return fraction{p, constant(big.NewRat(1, 1))} }

// normal brings e into normal form. What it cannot look into becomes a kernel atom
// named after the normal form of its parts, so that equal kernels are equal atoms.
func (r *ring) normal(e *Expr) fraction {
	if len(e.Args) == 0 {
		return r.form(e)
	}
	f, ok := r.forms[e]
	if !ok {
		f = r.form(e)
		r.forms[e] = f
	}
	return f
}

func (r *ring) form(e *Expr) fraction {
	if !r.budget.Spend(400) {
		return whole(nil)
	}
	switch e.Op {
	case Num:
		return whole(constant(e.Value))
	case Sym:
		return whole(r.atomPower(factor{r.atom("v"+e.Name, atom{kind: symbol, name: e.Name}), 1, 1}))
	case Pi:
		return whole(r.atomPower(factor{r.atom("pi", atom{kind: piAtom}), 1, 1}))
	case E:
		return whole(r.atomPower(factor{r.atom("e", atom{kind: eAtom}), 1, 1}))
	case I:
		return whole(r.atomPower(factor{r.atom("i", atom{kind: imagUnit}), 1, 1}))
	case Add:
		sum := whole(nil)
		for _, a := range e.Args {
			sum = r.addFraction(sum, r.normal(a))
		}
		return sum
	case Mul:
		product := whole(constant(big.NewRat(1, 1)))
		for _, a := range e.Args {
			f := r.normal(a)
			product = fraction{r.mul(product.num, f.num), r.mul(product.den, f.den)}
		}
		return product
	case Pow:
		return r.normalPower(e)
	case Root:
		n := r.normal(e.Args[1])
		if q, ok := r.value(n); ok && q.IsInt() && q.Sign() > 0 {
			base := r.normal(e.Args[0])
			if f, ok := r.root(base, new(big.Rat).Inv(q)); ok {
				return f
			}
		}
	case Call:
		if v, ok := Rational(e, r.budget); ok {
			return whole(constant(v))
		}
	}
	return r.kernel(e)
}

func (r *ring) addFraction(a, b fraction) fraction {
	if isOne(a.den) && isOne(b.den) {
		return fraction{r.add(a.num, b.num), a.den}
	}
	return fraction{r.add(r.mul(a.num, b.den), r.mul(b.num, a.den)), r.mul(a.den, b.den)}
}

// value returns the rational that f is, if it is one.
func (r *ring) value(f fraction) (*big.Rat, bool) {
	n, ok := f.num.rational()
	if !ok {
		return nil, false
	}
	d, ok := f.den.rational()
	if !ok || d.Sign() == 0 {
		return nil, false
	}
	return new(big.Rat).Quo(n, d), true
}

func (r *ring) normalPower(e *Expr) fraction {
	q, ok := r.value(r.normal(e.Args[1]))
	if !ok {
		return r.kernel(e)
	}
	base := r.normal(e.Args[0])
	if q.Sign() == 0 {
		if len(base.num) == 0 {
			return fraction{nil, nil} // 0^0
		}
		return whole(constant(big.NewRat(1, 1)))
	}
	if !q.IsInt() {
		if f, ok := r.root(base, q); ok {
			return f
		}
		return r.kernel(e)
	}
	if !q.Num().IsInt64() {
		return r.kernel(e)
	}
	n := q.Num().Int64()
	if n < 0 {
		base, n = fraction{base.den, base.num}, -n
	}
	if n > maxExponent || (len(base.num) > 1 || len(base.den) > 1) && n > 200 || r.tooLarge(base, n) {
		return r.kernel(e)
	}
	return fraction{r.powerOf(base.num, n), r.powerOf(base.den, n)}
}

// tooLarge reports whether the n-th power of f has coefficients beyond maxBits.
func (r *ring) tooLarge(f fraction, n int64) bool {
	for _, p := range []poly{f.num, f.den} {
		for _, t := range p {
			if int64(ratBits(t.c)-1)*n > maxBits && ratBits(t.c) > 2 {
				return true
			}
		}
	}
	return false
}

// powerOf is p^n; a single term is raised factor by factor.
func (r *ring) powerOf(p poly, n int64) poly {
	if len(p) != 1 || n == 1 {
		return r.power(p, n)
	}
	m, c := p[0].m, p[0].c
	v, ok := powRat(c, big.NewRat(n, 1), r.budget)
	if !ok {
		r.budget.exhaust()
		return p
	}
	out := constant(v)
	for i := range m.len() {
		f := m.at(i)
		f.num *= n
		out = r.mul(out, r.atomPower(f))
	}
	return out
}

// root is f^q for a fractional q when f is a single positive real term, or a
// negative one under a square root or an odd root.
func (r *ring) root(f fraction, q *big.Rat) (fraction, bool) {
	if !q.Num().IsInt64() || !q.Denom().IsInt64() {
		return fraction{}, false
	}
	k, n := q.Num().Int64(), q.Denom().Int64()
	if k > maxExponent || k < -maxExponent || n > 1000 {
		return fraction{}, false
	}
	num, ok := r.rootOfTerm(f.num, k, n)
	if !ok {
		return fraction{}, false
	}
	den, ok := r.rootOfTerm(f.den, k, n)
	return fraction{num, den}, ok
}

// rootOfTerm is p^(k/n).
func (r *ring) rootOfTerm(p poly, k, n int64) (poly, bool) {
	if len(p) != 1 {
		return nil, false
	}
	m, c := p[0].m, p[0].c
	out := constant(big.NewRat(1, 1))
	if c.Sign() < 0 {
		switch {
		case n%2 == 1 && k%2 != 0:
			out = constant(big.NewRat(-1, 1))
		case n%2 == 1:
		case n == 2:
			out = r.powerOf(r.atomPower(factor{r.atom("i", atom{kind: imagUnit}), 1, 1}), ((k%4)+4)%4)
		default:
			return nil, false
		}
	}
	for i := range m.len() {
		a := m.at(i)
		switch r.atoms[a.id].kind {
		case imagUnit, symbol, kernel:
			return nil, false
		}
		out = r.mul(out, r.atomPower(factor{a.id, a.num * k, a.den * n}))
	}
	for i, part := range []*big.Int{c.Num(), c.Denom()} {
		for _, f := range factorise(new(big.Int).Abs(part), r.budget) {
			key, kd := "n"+f.p.String(), number
			if f.known {
				kd = prime
			}
			e := f.k * k
			if i == 1 {
				e = -e
			}
			out = r.mul(out, r.atomPower(factor{r.atom(key, atom{kind: kd, n: f.p}), e, n}))
		}
	}
	return out, !r.budget.Spent()
}

// kernel makes an atom of e, named after its operator and its parts' normal forms.
func (r *ring) kernel(e *Expr) fraction {
	var s strings.Builder
	s.WriteByte('k')
	s.WriteByte('0' + byte(e.Op))
	s.WriteString(e.Name)
	for _, a := range e.Args {
		f := r.normal(a)
		s.WriteByte('(')
		r.write(&s, f.num)
		s.WriteByte('/')
		r.write(&s, f.den)
		s.WriteByte(')')
		if s.Len() > 1<<16 {
			r.budget.exhaust()
			return whole(nil)
		}
	}
	if !r.budget.Spend(s.Len() * 5) {
		return whole(nil)
	}
	key := s.String()
	return whole(r.atomPower(factor{r.atom(key, atom{kind: kernel, name: key, of: e}), 1, 1}))
}

// write appends a text that equal polynomials of one ring share.
func (r *ring) write(s *strings.Builder, p poly) {
	sorted := append(poly(nil), p...)
	sort.Slice(sorted, func(i, j int) bool { return sorted[i].m < sorted[j].m })
	for _, t := range sorted {
		s.WriteString(t.c.RatString())
		s.WriteByte(':')
		s.WriteString(string(t.m))
	}
}
