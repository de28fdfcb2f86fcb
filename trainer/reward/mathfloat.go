package reward

import (
	"math/big"

	"tandem/trainer/reward/algebra"
)

// floatDifference decides a - b the way the algebra system behind the published
// grader does when decimals are in play: a decimal is a binary float of 53 bits, and
// so is all that it touches, so 0.1+0.2 is not 0.3. ok is false where no decimal
// occurs or where anything but + - * / and whole powers of numbers does.
func floatDifference(a, b *algebra.Expr) (equal, ok bool) {
	marked := false
	for _, e := range []*algebra.Expr{a, b} {
		e.Each(func(n *algebra.Expr) bool {
			marked = marked || n.Name == decimalMark
			return !marked
		})
	}
	if !marked {
		return false, false
	}
	x, okX := floatValue(a)
	y, okY := floatValue(b)
	if !okX || !okY {
		return false, false
	}
	return combine(x, y, (*big.Float).Sub, (*big.Rat).Sub).zero(), true
}

// A pyNumber is an exact rational until it meets a float.
type pyNumber struct {
	rat   *big.Rat
	float *big.Float
}

func (n pyNumber) zero() bool {
	if n.float != nil {
		return n.float.Sign() == 0
	}
	return n.rat.Sign() == 0
}

const floatBits = 53

func (n pyNumber) asFloat() *big.Float {
	if n.float != nil {
		return n.float
	}
	return new(big.Float).SetPrec(floatBits).SetRat(n.rat)
}

func combine(x, y pyNumber, onFloat func(z, x, y *big.Float) *big.Float, onRat func(z, x, y *big.Rat) *big.Rat) pyNumber {
	if x.float == nil && y.float == nil {
		return pyNumber{rat: onRat(new(big.Rat), x.rat, y.rat)}
	}
	return pyNumber{float: onFloat(new(big.Float).SetPrec(floatBits), x.asFloat(), y.asFloat())}
}

// floatValue evaluates from left to right. Numbers stay small: their digits are in
// the answer and powers have one digit.
func floatValue(e *algebra.Expr) (pyNumber, bool) {
	switch e.Op {
	case algebra.Num:
		if e.Name == decimalMark {
			return pyNumber{float: new(big.Float).SetPrec(floatBits).SetRat(e.Value)}, true
		}
		return pyNumber{rat: e.Value}, true
	case algebra.Add, algebra.Mul:
		var acc pyNumber
		for i, arg := range e.Args {
			divide := e.Op == algebra.Mul && arg.Op == algebra.Pow && isMinusOne(arg.Args[1])
			if divide {
				arg = arg.Args[0]
			}
			v, ok := floatValue(arg)
			if !ok || divide && v.zero() {
				return pyNumber{}, false
			}
			switch {
			case i == 0 && divide:
				return pyNumber{}, false
			case i == 0:
				acc = v
			case e.Op == algebra.Add:
				acc = combine(acc, v, (*big.Float).Add, (*big.Rat).Add)
			case divide:
				acc = combine(acc, v, (*big.Float).Quo, (*big.Rat).Quo)
			default:
				acc = combine(acc, v, (*big.Float).Mul, (*big.Rat).Mul)
			}
		}
		return acc, len(e.Args) > 0
	case algebra.Pow:
		base, ok := floatValue(e.Args[0])
		n := e.Args[1]
		if !ok || n.Op != algebra.Num || !n.Value.IsInt() || n.Value.Sign() < 0 || n.Value.Num().BitLen() > 4 {
			return pyNumber{}, false
		}
		acc := pyNumber{rat: big.NewRat(1, 1)}
		for range n.Value.Num().Int64() {
			acc = combine(acc, base, (*big.Float).Mul, (*big.Rat).Mul)
		}
		return acc, true
	}
	return pyNumber{}, false
}

func isMinusOne(e *algebra.Expr) bool {
	return e.Op == algebra.Num && e.Value.IsInt() && e.Value.Num().IsInt64() && e.Value.Num().Int64() == -1
}
