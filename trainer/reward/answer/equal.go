package answer

import (
	"math/big"
	"strings"

	"tandem/trainer/reward/algebra"
)

// An Outcome says whether two answers are the same, which rule decided, and whether a
// difference is certain: Undecided is set where the algebra gave up on some part.
type Outcome struct {
	Equal     bool
	Rule      string
	Undecided bool
}

// Equal compares two answers under a step budget. It is symmetric.
func Equal(a, b Value, budget *algebra.Budget) Outcome {
	c := comparer{budget: budget}
	equal := c.same(a, b)
	return Outcome{Equal: equal, Rule: c.rule, Undecided: !equal && c.undecided}
}

type comparer struct {
	budget    *algebra.Budget
	rule      string
	undecided bool
}

// decided notes the rule of the verdict that is returned.
func (c *comparer) decided(rule string, equal bool) bool {
	c.rule = rule
	return equal
}

func (c *comparer) same(a, b Value) bool {
	if c.budget.Spent() {
		return false
	}
	a, b = c.simplified(a), c.simplified(b)
	if a.Kind != b.Kind {
		return c.sameAcross(a, b)
	}
	switch a.Kind {
	case Scalar:
		return c.sameScalar(a, b)
	case List:
		return c.sameList(a, b)
	case Tuple:
		return a.Open == b.Open && a.Close == b.Close && c.sameInOrder(a.Items, b.Items)
	case Union:
		return c.sameUnion(a, b)
	case Chain:
		return c.sameChain(a, b)
	case Matrix:
		return c.sameMatrix(a, b)
	case Numeral:
		return c.decided("numeral", sameNumeral(a, b))
	case Ratio:
		return c.sameRatio(a, b)
	}
	return c.decided("text", a.Text == b.Text)
}

// simplified drops what does not change a value: a set or list of one thing, and the
// name before the first of several values (n = 1, 2, 3).
func (c *comparer) simplified(v Value) Value {
	for v.Kind == List && len(v.Items) == 1 {
		v = v.Items[0]
	}
	if v.Kind != List || v.Open != 0 {
		return v
	}
	first, ok := solved(v.Items[0])
	if !ok {
		return v
	}
	for _, item := range v.Items[1:] {
		if item.Kind == Chain {
			return v
		}
	}
	v.Items = append([]Value{first}, v.Items[1:]...)
	return v
}

// solved is the value that an equation gives to a name: 5 for x = 5 and for 5 = x.
func solved(v Value) (Value, bool) {
	name, e := solvedFor(v)
	if name == "" {
		return Value{}, false
	}
	s := scalar(e)
	s.unit = v.unit
	return s, true
}

func solvedFor(v Value) (string, *algebra.Expr) {
	if v.Kind != Chain || len(v.Sides) != 2 || v.Ops[0] != "=" {
		return "", nil
	}
	for i, s := range v.Sides {
		other := v.Sides[1-i]
		if name := nameOf(s); name != "" && !other.Uses(name) && (i == 0 || nameOf(other) == "") {
			return name, other
		}
	}
	return "", nil
}

// sameAcross compares values of two kinds.
func (c *comparer) sameAcross(a, b Value) bool {
	if a.Kind > b.Kind {
		a, b = b, a
	}
	if b.Kind == Chain {
		if v, ok := solved(b); ok && a.Kind == Scalar {
			return c.same(a, v)
		}
	}
	switch {
	case a.Kind == Scalar && b.Kind == Numeral:
		return c.decided("numeral", a.Expr.Op == algebra.Num && a.Expr.Value.IsInt() && a.Expr.Value.RatString() == strings.TrimLeft(b.Text, "0"))
	case a.Kind == Scalar && b.Kind == Ratio && len(b.Items) == 2 && b.Items[0].Kind == Chain:
		return false
	case a.Kind == List && b.Kind == Tuple && a.Open == 0:
		if values, ordered, ok := namedValues(a.Items); ok && ordered {
			return c.sameInOrder(values, b.Items)
		}
	}
	if x, ok := c.region(a); ok {
		if y, ok := c.region(b); ok {
			return c.decided("interval", c.sameRegion(x, y))
		}
	}
	return c.decided("kind", false)
}

// namedValues are the values of x = 2, y = 5. ordered says that the names differ and
// ascend, so that the values may stand for a tuple.
func namedValues(items []Value) (values []Value, ordered, ok bool) {
	last := ""
	ordered = true
	for _, item := range items {
		name, e := solvedFor(item)
		if name == "" {
			return nil, false, false
		}
		ordered = ordered && name > last
		last = name
		values = append(values, scalar(e))
	}
	return values, ordered, true
}

func (c *comparer) sameScalar(a, b Value) bool {
	x, y := a.Expr, b.Expr
	r, known, ok := a.unit.ratio(b.unit)
	if !ok {
		return c.decided("unit", false)
	}
	if known && r.Cmp(big.NewRat(1, 1)) != 0 {
		x = algebra.Product(algebra.Rat(r), x)
	}
	v, rule := algebra.Compare(x, y, c.budget)
	switch {
	case v == algebra.Equal:
		return c.decided(rule, true)
	case v == algebra.Different && c.rounded(a, b):
		return c.decided("9 digits", true)
	case v == algebra.Unknown:
		c.undecided = true
	}
	return c.decided(rule, false)
}

// roundedDigits is how many correct digits of a decimal stand for an exact value.
const roundedDigits = 9

// rounded reports whether one side is a decimal of at least nine significant digits
// that is the other side, which is no decimal, rounded or cut there.
func (c *comparer) rounded(a, b Value) bool {
	if b.places > 0 {
		a, b = b, a
	}
	if a.digits < roundedDigits || b.places > 0 || !b.Expr.Constant() {
		return false
	}
	if r, ok := algebra.Rational(b.Expr, c.budget); ok && r.IsInt() {
		return false
	}
	unit := new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(a.places)), nil))
	gap := algebra.Apply("abs", algebra.Difference(b.Expr, a.Expr))
	half := new(big.Rat).Mul(unit, big.NewRat(1, 2))
	if s, ok := algebra.Sign(algebra.Difference(algebra.Rat(half), gap), c.budget); ok && s >= 0 {
		return true
	}
	cut := algebra.Difference(algebra.Apply("abs", b.Expr), algebra.Apply("abs", a.Expr)) // in [0, unit)
	low, okLow := algebra.Sign(cut, c.budget)
	high, okHigh := algebra.Sign(algebra.Difference(algebra.Rat(unit), gap), c.budget)
	return okLow && okHigh && low >= 0 && high > 0
}

// sameList compares lists and sets in any order, counting repeats.
func (c *comparer) sameList(a, b Value) bool {
	if x, okX := c.relationList(a); okX {
		y, okY := c.relationList(b)
		return c.decided("interval", okY && c.sameRegion(x, y))
	}
	if len(a.Items) != len(b.Items) {
		return c.decided("count", false)
	}
	x, y := a.Items, b.Items
	va, orderedA, namedA := namedValues(x)
	vb, orderedB, namedB := namedValues(y)
	if namedA != namedB { // x = 2, y = 5 against 2, 5
		if namedB {
			va, orderedA, y = vb, orderedB, x
		}
		if orderedA {
			return c.sameInOrder(va, y)
		}
		x = va
	}
	return c.sameInAnyOrder(x, y)
}

// relationList is the region of a list that holds an inequality.
func (c *comparer) relationList(v Value) (region, bool) {
	for _, item := range v.Items {
		if item.Kind == Chain && item.Ops[0] != "=" {
			return c.listRegion(v)
		}
	}
	return nil, false
}

func (c *comparer) sameInAnyOrder(a, b []Value) bool {
	taken := make([]bool, len(b))
	for i, x := range a {
		found := false
		for k := range b {
			j := (i + k) % len(b) // the order is often the same
			if !taken[j] && c.same(x, b[j]) {
				taken[j], found = true, true
				break
			}
		}
		if !found {
			return false
		}
	}
	return true
}

func (c *comparer) sameInOrder(a, b []Value) bool {
	if len(a) != len(b) {
		return c.decided("count", false)
	}
	for i := range a {
		if !c.same(a[i], b[i]) {
			return false
		}
	}
	return len(a) > 0 || c.decided("identical", true)
}

func (c *comparer) sameUnion(a, b Value) bool {
	if x, ok := c.region(a); ok {
		if y, ok := c.region(b); ok {
			return c.decided("interval", c.sameRegion(x, y))
		}
	}
	for _, op := range append(append([]string{}, a.Ops...), b.Ops...) {
		if op != `\cup` {
			return strings.Join(a.Ops, "") == strings.Join(b.Ops, "") && c.sameInOrder(a.Items, b.Items)
		}
	}
	return len(a.Items) == len(b.Items) && c.sameInAnyOrder(a.Items, b.Items)
}

func (c *comparer) sameMatrix(a, b Value) bool {
	if len(a.Rows) != len(b.Rows) {
		return c.decided("shape", false)
	}
	for i := range a.Rows {
		if len(a.Rows[i]) != len(b.Rows[i]) {
			return c.decided("shape", false)
		}
		for j := range a.Rows[i] {
			if !c.sameScalar(scalar(a.Rows[i][j]), scalar(b.Rows[i][j])) {
				return false
			}
		}
	}
	return true
}

// sameNumeral compares digits in one base, values across two.
func sameNumeral(a, b Value) bool {
	if a.Base == b.Base {
		return strings.EqualFold(strings.TrimLeft(a.Text, "0"), strings.TrimLeft(b.Text, "0"))
	}
	x, okX := new(big.Int).SetString(a.Text, a.Base)
	y, okY := new(big.Int).SetString(b.Text, b.Base)
	return okX && okY && x.Cmp(y) == 0
}

// sameRatio compares a:b:c by proportion.
func (c *comparer) sameRatio(a, b Value) bool {
	if _, _, ok := a.unit.ratio(b.unit); !ok || len(a.Items) != len(b.Items) {
		return c.decided("count", false)
	}
	for _, item := range append(append([]Value{}, a.Items...), b.Items...) {
		if item.Kind != Scalar {
			return c.sameInOrder(a.Items, b.Items)
		}
	}
	for i := 1; i < len(a.Items); i++ {
		left := scalar(algebra.Product(a.Items[0].Expr, b.Items[i].Expr))
		right := scalar(algebra.Product(a.Items[i].Expr, b.Items[0].Expr))
		if !c.sameScalar(left, right) {
			return false
		}
	}
	return c.decided("ratio", true)
}
