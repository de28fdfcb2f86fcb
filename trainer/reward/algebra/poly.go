package algebra

import "math/big"

// A poly is a sum of distinct monomials with non-zero rational coefficients, in the
// order in which they arose: nothing may depend on a map's order, or the step count
// would. It is never changed once the operation that made it has returned.
type poly []term

type term struct {
	m monomial
	c *big.Rat
}

// maxTerms bounds a polynomial; (a+b+c)^60 is near it, and what is beyond is compared
// by evaluation.
const maxTerms = 2000

func constant(c *big.Rat) poly {
	if c.Sign() == 0 {
		return nil
	}
	return poly{{"", c}}
}

// atomPower is the polynomial of one atom to a power.
func (r *ring) atomPower(f factor) poly {
	f, c := r.reduce(f, nil)
	if c == nil {
		c = big.NewRat(1, 1)
	}
	if f.num == 0 {
		return poly{{"", c}}
	}
	return poly{{monomial(appendFactor(nil, f)), c}}
}

// A collector adds terms up.
type collector struct {
	r     *ring
	terms poly
	index map[monomial]int // of terms, once there are more than a few
}

// few is how many terms are searched one by one.
const few = 8

func (k *collector) find(m monomial) (int, bool) {
	if k.index != nil {
		i, ok := k.index[m]
		return i, ok
	}
	for i := range k.terms {
		if k.terms[i].m == m {
			return i, true
		}
	}
	return 0, false
}

func (k *collector) add(m monomial, c *big.Rat) {
	i, ok := k.find(m)
	if !ok {
		if len(k.terms) >= maxTerms {
			k.r.budget.exhaust()
			return
		}
		k.terms = append(k.terms, term{m, c})
		if k.index != nil {
			k.index[m] = len(k.terms) - 1
		} else if len(k.terms) > few {
			k.index = make(map[monomial]int, 4*few)
			for i, t := range k.terms {
				k.index[t.m] = i
			}
		}
		return
	}
	old := k.terms[i].c
	if !k.r.budget.Spend(ratCost(old, c)) || ratBits(old)+ratBits(c) > 2*maxBits {
		k.r.budget.exhaust()
		return
	}
	k.terms[i].c = new(big.Rat).Add(old, c)
}

// poly drops the terms that cancelled.
func (k *collector) poly() poly {
	out := k.terms[:0]
	for _, t := range k.terms {
		if t.c.Sign() != 0 {
			out = append(out, t)
		}
	}
	return out
}

func (r *ring) add(a, b poly) poly {
	if len(a) == 0 {
		return b
	}
	if len(b) == 0 {
		return a
	}
	k := collector{r: r, terms: make(poly, 0, len(a)+len(b))}
	for _, p := range [...]poly{a, b} {
		for _, t := range p {
			if !r.budget.Spend(100) {
				return nil
			}
			k.add(t.m, t.c)
		}
	}
	return k.poly()
}

func (r *ring) mul(a, b poly) poly {
	if isOne(a) {
		return b
	}
	if isOne(b) {
		return a
	}
	k := collector{r: r}
	for _, x := range a {
		for _, y := range b {
			if !r.budget.Spend(200+ratCost(x.c, y.c)) || ratBits(x.c)+ratBits(y.c) > 2*maxBits {
				r.budget.exhaust()
				return nil
			}
			m, extra := r.multiply(x.m, y.m)
			c := new(big.Rat).Mul(x.c, y.c)
			if extra != nil {
				c.Mul(c, extra)
			}
			k.add(m, c)
		}
	}
	return k.poly()
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
	return len(p) == 1 && p[0].m == "" && p[0].c.IsInt() && p[0].c.Num().IsInt64() && p[0].c.Num().Int64() == 1
}

// rational returns the value of a polynomial that is a number.
func (p poly) rational() (*big.Rat, bool) {
	if len(p) == 0 {
		return new(big.Rat), true
	}
	return p[0].c, len(p) == 1 && p[0].m == ""
}

// proven reports whether p holds only atoms whose products are known to be
// independent over the rationals: variables, i, π, and roots of primes
// (Besicovitch 1940). A non-zero polynomial in them is not zero.
func (r *ring) proven(p poly) bool {
	for _, t := range p {
		for i := range t.m.len() {
			switch r.atoms[t.m.at(i).id].kind {
			case number, eAtom, kernel:
				return false
			}
		}
	}
	return true
}
