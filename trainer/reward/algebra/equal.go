package algebra

import "math/big"

// A Verdict is the outcome of a comparison.
type Verdict uint8

const (
	Unknown   Verdict = iota // undefined on one side, or given up
	Equal                    // the same wherever both sides are defined
	Different                // not the same
)

// agreeBits is how many leading bits two values must share to count as equal when no
// exact method decides.
const agreeBits = 128

// points is how many points are tried and needed how many must have been decided,
// for expressions with variables.
const (
	points = 7
	needed = 4
)

// Compare decides whether a and b are the same expression for all values of their
// variables where both are defined. The rule says what decided: "identical",
// "rational", "normal form" or "evaluation".
func Compare(a, b *Expr, budget *Budget) (Verdict, string) {
	if Same(a, b) {
		return Equal, "identical"
	}
	x, okx := Rational(a, budget)
	y, oky := Rational(b, budget)
	if okx && oky {
		if x.Cmp(y) == 0 {
			return Equal, "rational"
		}
		return Different, "rational"
	}
	if a.Op == Inf || b.Op == Inf || a.Has(Inf) || b.Has(Inf) {
		return compareInfinite(a, b)
	}
	if v := compareNormal(a, b, budget); v != Unknown {
		return v, "normal form"
	}
	if budget.Spent() {
		return Unknown, "evaluation"
	}
	return compareByValue(a, b, budget), "evaluation"
}

// compareInfinite knows ∞ and -∞ only.
func compareInfinite(a, b *Expr) (Verdict, string) {
	x, y := Infinity(a), Infinity(b)
	if x == y && x != 0 {
		return Equal, "identical"
	}
	return Different, "identical"
}

// Infinity is +1 for ∞, -1 for -∞ and 0 for anything else.
func Infinity(e *Expr) int {
	if e.Op == Inf {
		return 1
	}
	if e.Op == Mul && len(e.Args) == 2 && e.Args[1].Op == Inf && e.Args[0].Op == Num {
		return e.Args[0].Value.Sign()
	}
	return 0
}

// compareNormal compares normal forms under half of what is left of the budget, so
// that a polynomial that grows too large can still be evaluated.
func compareNormal(a, b *Expr, budget *Budget) Verdict {
	share := NewBudget(budget.Left() / 2)
	defer func() { budget.Spend(min(budget.Left(), budget.Left()/2-share.Left())) }()
	r := newRing(share)
	x, y := r.normal(a), r.normal(b)
	if share.Spent() {
		return Unknown
	}
	if len(x.den) == 0 || len(y.den) == 0 {
		return Unknown
	}
	left, right := r.mul(x.num, y.den), r.mul(y.num, x.den)
	d := r.add(left, r.mul(right, constant(big.NewRat(-1, 1))))
	switch {
	case share.Spent():
		return Unknown
	case len(d) == 0 && r.proven(x.den) && r.proven(y.den):
		return Equal
	case len(d) != 0 && r.proven(d) && r.proven(x.den) && r.proven(y.den):
		return Different
	}
	return Unknown
}

// compareByValue evaluates both sides at random points.
func compareByValue(a, b *Expr, budget *Budget) Verdict {
	n, need := points, needed
	if a.Constant() && b.Constant() && !hasNamedFunction(a) && !hasNamedFunction(b) {
		n, need = 1, 1
	}
	integer := usesCall(a, "factorial", "binomial") || usesCall(b, "factorial", "binomial")
	agreed := 0
	for i := range n {
		switch compareAt(a, b, point{uint64(i), integer}, budget) {
		case Different:
			return Different
		case Equal:
			agreed++
		}
		if budget.Spent() {
			return Unknown
		}
	}
	if agreed >= need {
		return Equal
	}
	return Unknown
}

// compareAt evaluates at one point, in higher precision where the first is not enough.
func compareAt(a, b *Expr, p point, budget *Budget) Verdict {
	for _, prec := range []uint{256, maxPrec - guard} {
		f := &field{prec: prec, budget: budget}
		x, y := f.eval(a, p), f.eval(b, p)
		d := f.vsub(x, y)
		if f.failed {
			continue
		}
		im := f.imag(d)
		if d.re.away() || im.away() {
			return Different
		}
		scale := noError
		for _, part := range []ball{x.re, y.re, f.imag(x), f.imag(y)} {
			if part.away() {
				scale = max(scale, exponent(part.mid))
			}
		}
		if scale == noError { // both may be zero: compare absolutely
			scale = 0
		}
		if max(d.re.err, im.err) <= min(scale, agreeBits)-agreeBits {
			return Equal
		}
	}
	return Unknown
}

func usesCall(e *Expr, names ...string) bool {
	found := false
	e.Each(func(n *Expr) bool {
		for _, name := range names {
			found = found || n.Op == Call && n.Name == name
		}
		return !found
	})
	return found
}

// Sign is the sign of a constant real expression; ok is false where it has none or
// where it could not be told from zero.
func Sign(e *Expr, budget *Budget) (sign int, ok bool) {
	if s := Infinity(e); s != 0 {
		return s, true
	}
	if r, ok := Rational(e, budget); ok {
		return r.Sign(), true
	}
	if !e.Constant() {
		return 0, false
	}
	if v, _ := Compare(e, Int(0), budget); v == Equal {
		return 0, true
	}
	for _, prec := range []uint{256, maxPrec - guard} {
		f := &field{prec: prec, budget: budget}
		x := f.eval(e, point{})
		if f.failed || x.im != nil {
			continue
		}
		if s := x.re.sign(); s != 0 {
			return s, true
		}
	}
	return 0, false
}
