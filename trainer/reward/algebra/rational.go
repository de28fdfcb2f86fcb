package algebra

import "math/big"

// maxBits bounds the numerator and the denominator of every exact number. It holds
// 2^1006 and 1000! with room to spare; a larger number is compared by evaluation.
const maxBits = 1 << 14

// Rational evaluates e exactly when it is built of numbers, + - × ÷, integer
// powers and factorials that stay under maxBits; ok is false otherwise, also
// for a division by zero.
func Rational(e *Expr, b *Budget) (r *big.Rat, ok bool) {
	if !b.Spend(20) {
		return nil, false
	}
	switch e.Op {
	case Num:
		return e.Value, true
	case Add, Mul:
		var acc *big.Rat
		for _, a := range e.Args {
			v, ok := Rational(a, b)
			if !ok {
				return nil, false
			}
			if acc == nil {
				acc = new(big.Rat).Set(v)
				continue
			}
			if !b.Spend(ratCost(acc, v)) || ratBits(acc)+ratBits(v) > maxBits {
				return nil, false
			}
			if e.Op == Add {
				acc.Add(acc, v)
			} else {
				acc.Mul(acc, v)
			}
		}
		return acc, acc != nil
	case Pow:
		base, ok := Rational(e.Args[0], b)
		if !ok {
			return nil, false
		}
		exp, ok := Rational(e.Args[1], b)
		if !ok {
			return nil, false
		}
		return powRat(base, exp, b)
	case Call:
		return rationalCall(e, b)
	}
	return nil, false
}

func ratBits(r *big.Rat) int { return r.Num().BitLen() + r.Denom().BitLen() }

// ratCost is what an addition or product of two rationals costs; the gcd in it is quadratic.
func ratCost(a, b *big.Rat) int {
	words := (ratBits(a) + ratBits(b)) / 64
	return 200 + 40*words + words*words
}

// powRat is base^exp for an integer exponent and a result under maxBits.
func powRat(base, exp *big.Rat, b *Budget) (*big.Rat, bool) {
	if !exp.IsInt() || !exp.Num().IsInt64() {
		return nil, false
	}
	n := exp.Num().Int64()
	if n < 0 {
		if base.Sign() == 0 {
			return nil, false
		}
		base, n = new(big.Rat).Inv(base), -n
	}
	if n == 0 { // 0^0 has no value that both sides would agree on
		return big.NewRat(1, 1), base.Sign() != 0
	}
	size := max(base.Num().BitLen(), base.Denom().BitLen())
	if size > 1 && n > int64(maxBits/(size-1)) {
		return nil, false
	}
	if size <= 1 { // 0, 1 and -1 to any power
		r := new(big.Rat).Set(base)
		if n%2 == 0 {
			r.Abs(r)
		}
		return r, true
	}
	if !b.Spend(200 + int(n)*size/8) {
		return nil, false
	}
	e := big.NewInt(n)
	r := new(big.Rat).SetFrac(new(big.Int).Exp(base.Num(), e, nil), new(big.Int).Exp(base.Denom(), e, nil))
	return r, true
}

func rationalCall(e *Expr, b *Budget) (*big.Rat, bool) {
	var args [2]*big.Rat
	if len(e.Args) > len(args) {
		return nil, false
	}
	for i, a := range e.Args {
		v, ok := Rational(a, b)
		if !ok {
			return nil, false
		}
		args[i] = v
	}
	x, y := args[0], args[1]
	switch e.Name {
	case "abs":
		return new(big.Rat).Abs(x), true
	case "floor":
		return new(big.Rat).SetInt(floorRat(x)), true
	case "ceil":
		n := floorRat(new(big.Rat).Neg(x))
		return new(big.Rat).SetInt(n.Neg(n)), true
	case "factorial":
		if !x.IsInt() || x.Sign() < 0 || x.Num().BitLen() > 11 {
			return nil, false
		}
		n := x.Num().Int64()
		if !b.Spend(200 + int(n)*50) {
			return nil, false
		}
		return new(big.Rat).SetInt(new(big.Int).MulRange(1, n)), true
	case "binomial":
		if !x.IsInt() || !y.IsInt() || x.Sign() < 0 || y.Sign() < 0 || x.Num().BitLen() > 12 || y.Num().BitLen() > 12 {
			return nil, false
		}
		if !b.Spend(200 + int(y.Num().Int64())*100) {
			return nil, false
		}
		return new(big.Rat).SetInt(new(big.Int).Binomial(x.Num().Int64(), y.Num().Int64())), true
	}
	return nil, false
}

func floorRat(x *big.Rat) *big.Int {
	return new(big.Int).Div(x.Num(), x.Denom()) // Euclidean, which floors: the denominator is positive
}
