package algebra

import (
	"math/big"
	"sort"
	"strconv"
	"strings"
)

// canonicalSteps bounds the work of Canonical; what needs more is printed as it was read.
const canonicalSteps = 300_000

// Canonical writes e in a form that equal expressions mostly share: exact numbers in
// lowest terms, polynomials multiplied out with their terms in order, radicals of
// primes. It serves reports and votes; Compare does not use it.
func Canonical(e *Expr) string {
	b := NewBudget(canonicalSteps)
	if v, ok := Rational(e, b); ok {
		return clipped(v.RatString())
	}
	r := newRing(b)
	f := r.normal(e)
	if b.Spent() || len(f.den) == 0 || len(f.num) > 60 || len(f.den) > 60 {
		return e.String()
	}
	if d, ok := f.den.rational(); ok {
		return clipped(r.text(r.mul(f.num, constant(new(big.Rat).Inv(d)))))
	}
	return clipped("(" + r.text(f.num) + ")/(" + r.text(f.den) + ")")
}

func clipped(s string) string {
	if len(s) > maxPrint {
		return s[:maxPrint] + "…"
	}
	return s
}

// text writes a polynomial, the terms in the order of their texts without signs.
func (r *ring) text(p poly) string {
	if len(p) == 0 {
		return "0"
	}
	type printed struct {
		atoms string
		c     *big.Rat
	}
	terms := make([]printed, len(p))
	for i, t := range p {
		terms[i] = printed{r.product(t.m), t.c}
	}
	sort.Slice(terms, func(i, j int) bool { return terms[i].atoms > terms[j].atoms })
	var s strings.Builder
	for i, t := range terms {
		c := t.c
		switch {
		case i > 0 && c.Sign() < 0:
			s.WriteString(" - ")
			c = new(big.Rat).Neg(c)
		case i > 0:
			s.WriteString(" + ")
		}
		s.WriteString(withCoefficient(c, t.atoms))
	}
	return s.String()
}

func withCoefficient(c *big.Rat, atoms string) string {
	text := c.RatString()
	switch {
	case atoms == "":
		return text
	case text == "1":
		return atoms
	case text == "-1":
		return "-" + atoms
	}
	return text + "*" + atoms
}

// product writes a monomial, its atoms in the order of their names.
func (r *ring) product(m monomial) string {
	parts := make([]string, m.len())
	for i := range parts {
		f := m.at(i)
		parts[i] = r.atomText(r.atoms[f.id])
		switch {
		case f.den != 1:
			parts[i] += "^(" + strconv.FormatInt(f.num, 10) + "/" + strconv.FormatInt(f.den, 10) + ")"
		case f.num < 0:
			parts[i] += "^(" + strconv.FormatInt(f.num, 10) + ")"
		case f.num != 1:
			parts[i] += "^" + strconv.FormatInt(f.num, 10)
		}
	}
	sort.Strings(parts)
	return strings.Join(parts, "*")
}

func (r *ring) atomText(a atom) string {
	switch a.kind {
	case prime, number:
		return a.n.String()
	case imagUnit:
		return "i"
	case piAtom:
		return "pi"
	case eAtom:
		return "e"
	case symbol:
		return a.name
	}
	if a.of.Op == Inf {
		return "inf"
	}
	parts := make([]string, len(a.of.Args))
	for i, arg := range a.of.Args {
		f := r.normal(arg)
		parts[i] = r.text(f.num)
		if !isOne(f.den) {
			parts[i] = "(" + parts[i] + ")/(" + r.text(f.den) + ")"
		}
	}
	inside := strings.Join(parts, ", ")
	switch a.of.Op {
	case Pow:
		return "(" + strings.Join(parts, ")^(") + ")"
	case Root:
		return "root(" + inside + ")"
	}
	return a.of.Name + "(" + inside + ")"
}
