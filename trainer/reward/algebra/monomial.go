package algebra

import (
	"encoding/binary"
	"math/big"
)

// A monomial is a product of atoms with rational exponents, encoded as one 12-byte
// record per atom (id, numerator, denominator; big endian) in ascending id, so that
// it can be a map key and equal products are equal strings.
type monomial string

const factorSize = 12

type factor struct {
	id       int
	num, den int64 // lowest terms, den > 0
}

func (m monomial) len() int { return len(m) / factorSize }

func (m monomial) at(i int) factor {
	s := []byte(m[i*factorSize : (i+1)*factorSize])
	return factor{
		id:  int(binary.BigEndian.Uint32(s)),
		num: int64(int32(binary.BigEndian.Uint32(s[4:]))),
		den: int64(binary.BigEndian.Uint32(s[8:])),
	}
}

func appendFactor(dst []byte, f factor) []byte {
	dst = binary.BigEndian.AppendUint32(dst, uint32(f.id))
	dst = binary.BigEndian.AppendUint32(dst, uint32(int32(f.num)))
	return binary.BigEndian.AppendUint32(dst, uint32(f.den))
}

// maxExponent bounds numerators and denominators of exponents, so that sums of them fit int64.
const maxExponent = 1 << 20

// kind says what is known about an atom.
type kind uint8

const (
	prime    kind = iota // a prime; its exponent is kept in [0, 1)
	number               // an integer that could not be factored; its exponent is kept in [0, 1)
	imagUnit             // i; its exponent is kept in {0, 1}
	piAtom
	eAtom
	symbol
	kernel // an expression that the normal form does not look into
)

type atom struct {
	kind kind
	n    *big.Int // of a prime or a number
	name string   // of a symbol or a kernel
	of   *Expr    // what a kernel stands for
}

// A ring hands out ids for the atoms of one comparison.
type ring struct {
	atoms  []atom
	ids    map[string]int
	forms  map[*Expr]fraction // of nodes already seen: a kernel asks for its parts' forms again
	budget *Budget
}

func newRing(b *Budget) *ring {
	return &ring{ids: make(map[string]int), forms: make(map[*Expr]fraction), budget: b}
}

func (r *ring) atom(key string, a atom) int {
	id, ok := r.ids[key]
	if !ok {
		id = len(r.atoms)
		r.atoms = append(r.atoms, a)
		r.ids[key] = id
	}
	return id
}

// multiply returns the product of two monomials and the rational that fell out of
// it (a whole power of a prime, or i² = -1); nil stands for 1.
func (r *ring) multiply(a, b monomial) (monomial, *big.Rat) {
	if a == "" {
		return b, nil
	}
	if b == "" {
		return a, nil
	}
	var out []byte
	var c *big.Rat
	i, j := 0, 0
	for i < a.len() || j < b.len() {
		var f factor
		switch {
		case j == b.len() || i < a.len() && a.at(i).id < b.at(j).id:
			f = a.at(i)
			i++
		case i == a.len() || b.at(j).id < a.at(i).id:
			f = b.at(j)
			j++
		default:
			x, y := a.at(i), b.at(j)
			i, j = i+1, j+1
			f = factor{id: x.id, num: x.num*y.den + y.num*x.den, den: x.den * y.den}
			f, c = r.reduce(f, c)
			if f.num == 0 {
				continue
			}
		}
		out = appendFactor(out, f)
	}
	return monomial(out), c
}

// reduce brings an exponent to lowest terms and into its range, multiplying what
// falls out into c.
func (r *ring) reduce(f factor, c *big.Rat) (factor, *big.Rat) {
	g := gcd(f.num, f.den)
	f.num, f.den = f.num/g, f.den/g
	if f.num > maxExponent || f.num < -maxExponent || f.den > maxExponent {
		r.budget.exhaust()
		return factor{id: f.id, num: 0, den: 1}, c
	}
	a := r.atoms[f.id]
	switch a.kind {
	case imagUnit:
		k := ((f.num % 4) + 4) % 4
		if k >= 2 {
			c = scaled(c, big.NewRat(-1, 1))
		}
		f.num = k % 2
	case prime, number:
		whole := f.num / f.den
		if f.num%f.den < 0 {
			whole--
		}
		f.num -= whole * f.den
		if whole != 0 {
			p, ok := powRat(new(big.Rat).SetInt(a.n), big.NewRat(whole, 1), r.budget)
			if !ok {
				r.budget.exhaust()
				return f, c
			}
			c = scaled(c, p)
		}
	}
	return f, c
}

func scaled(c, by *big.Rat) *big.Rat {
	if c == nil {
		return by
	}
	return new(big.Rat).Mul(c, by)
}

func gcd(a, b int64) int64 {
	if a < 0 {
		a = -a
	}
	for b != 0 {
		a, b = b, a%b
	}
	return max(a, 1)
}
