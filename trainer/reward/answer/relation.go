package answer

import "tandem/trainer/reward/algebra"

// sameChain compares equations and inequalities: as sets of reals where they are solved
// inequalities, up to a factor where they have two sides, and side by side otherwise.
func (c *comparer) sameChain(a, b Value) bool {
	if identicalSides(a, b) {
		return c.decided("identical", true)
	}
	if a.Ops[0] != "=" && b.Ops[0] != "=" && sameVariable(a, b) {
		if x, ok := c.region(a); ok {
			if y, ok := c.region(b); ok {
				return c.decided("interval", c.sameRegion(x, y))
			}
		}
	}
	if len(a.Sides) == 2 && len(b.Sides) == 2 {
		if equation(a.Ops[0]) && a.Ops[0] == b.Ops[0] {
			return c.sameEquation(a, b)
		}
		if inequality(a.Ops[0]) && inequality(b.Ops[0]) {
			return c.sameInequality(a, b)
		}
	}
	return c.sidesAgree(a, b) || inequality(a.Ops[0]) && c.sidesAgree(a, reversed(b))
}

func identicalSides(a, b Value) bool {
	if len(a.Sides) != len(b.Sides) {
		return false
	}
	for i := range a.Sides {
		if !algebra.Same(a.Sides[i], b.Sides[i]) || i > 0 && a.Ops[i-1] != b.Ops[i-1] {
			return false
		}
	}
	return true
}

// sameVariable reports whether two solved inequalities are about the same variable.
func sameVariable(a, b Value) bool {
	for _, s := range a.Sides {
		if s.Op == algebra.Sym {
			for _, t := range b.Sides {
				if t.Op == algebra.Sym && s.Name == t.Name {
					return true
				}
			}
		}
	}
	return false
}

func equation(op string) bool { return op == "=" || op == "!=" }

func inequality(op string) bool { return op == "<" || op == "<=" || op == ">" || op == ">=" }

func (c *comparer) sameEquation(a, b Value) bool {
	x := algebra.Difference(a.Sides[0], a.Sides[1])
	y := algebra.Difference(b.Sides[0], b.Sides[1])
	v, _ := algebra.Proportional(x, y, c.budget)
	c.undecided = c.undecided || v == algebra.Unknown
	return c.decided("equation", v == algebra.Equal)
}

// sameInequality brings both to f > 0 or f ≥ 0; the factor between them must be positive.
func (c *comparer) sameInequality(a, b Value) bool {
	if (len(a.Ops[0]) == 2) != (len(b.Ops[0]) == 2) {
		return c.decided("inequality", false)
	}
	v, sign := algebra.Proportional(positive(a), positive(b), c.budget)
	c.undecided = c.undecided || v == algebra.Unknown
	return c.decided("inequality", v == algebra.Equal && sign > 0)
}

// positive is what a two-sided inequality says is positive.
func positive(v Value) *algebra.Expr {
	if v.Ops[0][0] == '>' {
		return algebra.Difference(v.Sides[0], v.Sides[1])
	}
	return algebra.Difference(v.Sides[1], v.Sides[0])
}

func (c *comparer) sidesAgree(a, b Value) bool {
	if len(a.Sides) != len(b.Sides) {
		return c.decided("count", false)
	}
	for i, op := range a.Ops {
		if b.Ops[i] != op {
			return c.decided("relation", false)
		}
	}
	for i := range a.Sides {
		if !c.sameScalar(scalar(a.Sides[i]), scalar(b.Sides[i])) {
			return false
		}
	}
	return true
}

// reversed reads a chain from right to left.
func reversed(v Value) Value {
	out := Value{Kind: Chain}
	for i := len(v.Sides) - 1; i >= 0; i-- {
		out.Sides = append(out.Sides, v.Sides[i])
		if i > 0 {
			out.Ops = append(out.Ops, flipped(v.Ops[i-1]))
		}
	}
	return out
}
