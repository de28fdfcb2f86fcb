package answer

import (
	"sort"

	"tandem/trainer/reward/algebra"
)

// combine joins two values by ∪, ∩ or ∖.
func (p *parser) combine(v Value, op string, w Value) Value {
	if len(v.Items) >= maxItems {
		p.fail(errItems)
		return Value{}
	}
	if v.Kind != Union {
		v = Value{Kind: Union, Items: []Value{v}}
	}
	v.Items = append(v.Items, w)
	v.Ops = append(v.Ops, op)
	return v
}

// A cut is a place on the real line just below or just above a value. An interval
// reaches from one cut to another: [a, b) from below a to below b.
type cut struct {
	at    *algebra.Expr
	above bool
}

// A region is a set of reals as ascending cuts: outside before the first, then
// alternately inside and outside.
type region []cut

// maxCuts bounds regions; each comparison of cuts may need an evaluation.
const maxCuts = 64

// region reads a value as a set of real numbers. ok is false for other values, and
// where an end depends on a variable.
func (c *comparer) region(v Value) (region, bool) {
	switch v.Kind {
	case Tuple:
		return c.intervalRegion(v)
	case List:
		return c.listRegion(v)
	case Union:
		return c.unionRegion(v)
	case Chain:
		return c.chainRegion(v)
	}
	return nil, false
}

func (c *comparer) intervalRegion(v Value) (region, bool) {
	if len(v.Items) != 2 || v.Items[0].Kind != Scalar || v.Items[1].Kind != Scalar {
		return nil, false
	}
	lo, hi := cut{v.Items[0].Expr, v.Open == '('}, cut{v.Items[1].Expr, v.Close == ']'}
	return c.between(lo, hi)
}

// between is the interval from lo to hi, which must not be empty.
func (c *comparer) between(lo, hi cut) (region, bool) {
	if order, ok := c.order(lo, hi); !ok || order >= 0 {
		return nil, false
	}
	return region{lo, hi}, true
}

// listRegion is a set of points, or what several inequalities leave: their union, or
// their intersection where the union would be everything (x > 2 and x < 5).
func (c *comparer) listRegion(v Value) (region, bool) {
	if len(v.Items)*2 > maxCuts {
		return nil, false
	}
	var union, meet region
	for i, item := range v.Items {
		var r region
		ok := false
		switch {
		case v.Open == '{' && item.Kind == Scalar:
			r, ok = c.between(cut{item.Expr, false}, cut{item.Expr, true})
		case v.Open == 0 && item.Kind != List:
			r, ok = c.region(item)
		}
		if !ok {
			return nil, false
		}
		if i == 0 {
			union, meet = r, r
			continue
		}
		var okU, okM bool
		union, okU = c.merge(union, r, func(a, b bool) bool { return a || b })
		meet, okM = c.merge(meet, r, func(a, b bool) bool { return a && b })
		if !okU || !okM {
			return nil, false
		}
	}
	if v.Open == 0 && len(union) == 2 && algebra.Infinity(union[0].at) < 0 && algebra.Infinity(union[1].at) > 0 {
		return meet, true
	}
	return union, true
}

func (c *comparer) unionRegion(v Value) (region, bool) {
	var out region
	for i, item := range v.Items {
		r, ok := c.region(item)
		if !ok {
			return nil, false
		}
		if i == 0 {
			out = r
			continue
		}
		op := func(a, b bool) bool { return a || b }
		switch v.Ops[i-1] {
		case `\cap`:
			op = func(a, b bool) bool { return a && b }
		case `\setminus`, `\backslash`:
			op = func(a, b bool) bool { return a && !b }
		}
		if out, ok = c.merge(out, r, op); !ok {
			return nil, false
		}
	}
	return out, true
}

var infinite = [2]cut{{algebra.Negate(algebra.Const(algebra.Inf)), true}, {algebra.Const(algebra.Inf), false}}

// chainRegion is the solution of an inequality that is already solved for one
// variable: x > 5, 5 ≥ x, 2 ≤ x < 5, x ≠ 3.
func (c *comparer) chainRegion(v Value) (region, bool) {
	name, at := "", -1
	for i, s := range v.Sides {
		if s.Op == algebra.Sym {
			name, at = s.Name, i
		}
	}
	if at < 0 || len(v.Sides) > 3 || len(v.Sides) == 3 && at != 1 {
		return nil, false
	}
	for i, s := range v.Sides {
		if i != at && (s.Uses(name) || !s.Constant()) {
			return nil, false
		}
	}
	out := region{infinite[0], infinite[1]}
	for i, op := range v.Ops {
		bound := v.Sides[i+1]
		if i+1 == at {
			bound, op = v.Sides[i], flipped(op)
		}
		var r region
		switch op {
		case ">", ">=":
			r = region{{bound, op == ">"}, infinite[1]}
		case "<", "<=":
			r = region{infinite[0], {bound, op == "<="}}
		case "!=":
			r = region{infinite[0], {bound, false}, {bound, true}, infinite[1]}
		default:
			return nil, false
		}
		var ok bool
		if out, ok = c.merge(out, r, func(a, b bool) bool { return a && b }); !ok {
			return nil, false
		}
	}
	return out, true
}

// flipped is the sign with its sides exchanged.
func flipped(op string) string {
	switch op {
	case "<":
		return ">"
	case "<=":
		return ">="
	case ">":
		return "<"
	case ">=":
		return "<="
	}
	return op
}

// order compares two cuts.
func (c *comparer) order(a, b cut) (int, bool) {
	ia, ib := algebra.Infinity(a.at), algebra.Infinity(b.at)
	if ia != 0 || ib != 0 {
		if ia != ib {
			return ia - ib, true
		}
		return 0, true
	}
	s, ok := algebra.Sign(algebra.Difference(a.at, b.at), c.budget)
	if !ok || s != 0 {
		return s, ok
	}
	switch {
	case a.above == b.above:
		return 0, true
	case b.above:
		return -1, true
	}
	return 1, true
}

// merge is the set of points where op holds for membership in a and in b.
func (c *comparer) merge(a, b region, op func(a, b bool) bool) (region, bool) {
	if len(a)+len(b) > maxCuts {
		return nil, false
	}
	all := append(append(region{}, a...), b...)
	fine := true
	sort.SliceStable(all, func(i, j int) bool {
		o, ok := c.order(all[i], all[j])
		fine = fine && ok
		return o < 0
	})
	if !fine {
		return nil, false
	}
	var out region
	inside := false
	for i, x := range all {
		if i+1 < len(all) {
			if o, _ := c.order(x, all[i+1]); o == 0 {
				continue // the last of equal cuts decides
			}
		}
		inA, okA := c.passed(a, x)
		inB, okB := c.passed(b, x)
		if !okA || !okB {
			return nil, false
		}
		if now := op(inA, inB); now != inside {
			out = append(out, x)
			inside = now
		}
	}
	return out, true
}

// passed reports whether one is inside r just beyond the cut x.
func (c *comparer) passed(r region, x cut) (bool, bool) {
	inside := false
	for _, y := range r {
		o, ok := c.order(y, x)
		if !ok {
			return false, false
		}
		if o <= 0 {
			inside = !inside
		}
	}
	return inside, true
}

func (c *comparer) sameRegion(a, b region) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if o, ok := c.order(a[i], b[i]); !ok || o != 0 {
			return false
		}
	}
	return true
}
