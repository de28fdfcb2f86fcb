package algebra

// Proportional decides whether a = c·b for a constant c that is not zero, and gives
// the sign of c where it is known, else 0. Two expressions that are zero everywhere
// are proportional; one that is and one that is not are not.
func Proportional(a, b *Expr, budget *Budget) (v Verdict, sign int) {
	zero := Int(0)
	za, _ := Compare(a, zero, budget)
	zb, _ := Compare(b, zero, budget)
	if za == Equal || zb == Equal {
		if za == zb {
			return Equal, 1
		}
		return Different, 0
	}
	// a(x)·b(y) = a(y)·b(x) for independent x and y says that a/b is constant.
	fresh := func(name string) *Expr { return Var(name + "\x01") }
	v, _ = Compare(Product(a, b.Map(fresh)), Product(a.Map(fresh), b), budget)
	if v != Equal {
		return v, 0
	}
	for n := range uint64(4) {
		at := func(name string) *Expr { return Rat(point{n: n}.draw(name)) }
		if s, ok := Sign(Product(a.Map(at), b.Map(at)), budget); ok && s != 0 {
			return Equal, s
		}
	}
	return Equal, 0
}
