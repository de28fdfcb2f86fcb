package algebra

import "math/big"

// A poly is a sum of monomials with non-zero rational coefficients. The map is
// never changed once the operation that made it has returned.
type poly map[monomial]*big.Rat

// maxTerms bounds a polynomial; (a+b+c)^60 is beyond it and is compared by evaluation.
const maxTerms = 2000

func constant(c *big.Rat) poly {
	if c.Sign() == 0 {
		return poly{}
	}
	return poly{"": c}
}

func (r *ring) term(f factor) poly {
	f, c := r.reduce(f, nil)
	if c == nil {
		c = big.NewRat(1, 1)
	}
	if f.num == 0 {
		return poly{"": c}
	}
	return poly{monomial(appendFactor(nil, f)): c}
}

// addTo adds c·m to p, which the caller owns.
func (r *ring) addTo(p poly, m monomial, c *big.Rat) {
	old, ok := p[m]
	if !ok {
		if len(p) >= maxTerms {
			r.budget.Spend(r.budget.left + 1)
			return
		}
		p[m] = c
		return
	}
	if !r.budget.Spend(ratCost(old, c)) || ratBits(old)+ratBits(c) > 2*maxBits {
		r.budget.Spend(r.budget.left + 1)
		return
	}
	s := new(big.Rat).Add(old, c)
	if s.Sign() == 0 {
		delete(p, m)
	} else {
		p[m] = s
	}
}

func (r *ring) add(a, b poly) poly {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	out := make(poly, len(a)+len(b))
	for m, c := range a {
		out[m] = c
	}
	for m, c := range b {
		if !r.budget.Spend(50) {
			return out
		}
		r.addTo(out, m, c)
	}
	return out
}

func (r *ring) mul(a, b poly) poly {
	if isOne(a) {
		return b
	}
	if isOne(b) {
		return a
	}
	out := make(poly, len(a))
	for m, c := range a {
		for n, d := range b {
			if !r.budget.Spend(150+ratCost(c, d)) || ratBits(c)+ratBits(d) > 2*maxBits {
				r.budget.Spend(r.budget.left + 1)
				return out
			}
			k, extra := r.multiply(m, n)
			p := new(big.Rat).Mul(c, d)
			if extra != nil {
				p.Mul(p, extra)
			}
			r.addTo(out, k, p)
		}
	}
	return out
}

// power is p^n for n ≥ 0.
func (r *ring) power(p poly, n int64) poly {
	out := constant(big.NewRat(1, 1))
	for n > 0 && !r.budget.Spent() {
		if n&1 == 1 {
			out = r.mul(out, p)
		}
		n >>= 1
		if n > 0 {
			p = r.mul(p, p)
		}
	}
	return out
}

func isOne(p poly) bool {
	c, ok := p[""]
	return ok && len(p) == 1 && c.IsInt() && c.Num().IsInt64() && c.Num().Int64() == 1
}

// rational returns the value of a polynomial that is a number.
func (p poly) rational() (*big.Rat, bool) {
	if len(p) == 0 {
		return new(big.Rat), true
	}
	c, ok := p[""]
	return c, ok && len(p) == 1
}

// single returns the only term of p.
func (p poly) single() (m monomial, c *big.Rat, ok bool) {
	if len(p) != 1 {
		return "", nil, false
	}
	for m, c = range p {
	}
	return m, c, true
}

// proven reports whether p holds only atoms whose products are known to be
// independent over the rationals: variables, i, π, and roots of primes
// (Besicovitch 1940). A non-zero polynomial in them is not zero.
func (r *ring) proven(p poly) bool {
	for m := range p {
		for i := range m.len() {
			switch r.atoms[m.at(i).id].kind {
			case number, eAtom, kernel:
				return false
			}
		}
	}
	return true
}
