package algebra

import "testing"

func frac(a, b int64) *Expr { return Quotient(Int(a), Int(b)) }
func sqrt(e *Expr) *Expr    { return NthRoot(e, Int(2)) }

func TestCompare(t *testing.T) {
	x, y, pi := Var("x"), Var("y"), Const(Pi)
	two := Int(2)
	tests := []struct {
		name string
		a, b *Expr
		want Verdict
	}{
		{"reduced fraction", frac(2, 4), frac(1, 2), Equal},
		{"root of a product", sqrt(Int(12)), Product(two, sqrt(Int(3))), Equal},
		{"rationalised", Quotient(Int(1), sqrt(two)), Quotient(sqrt(two), two), Equal},
		{"rationalised sum", Quotient(Int(1), Sum(Int(1), sqrt(two))), Difference(sqrt(two), Int(1)), Equal},
		{"nested radical", sqrt(Sum(Int(3), Product(two, sqrt(two)))), Sum(Int(1), sqrt(two)), Equal},
		{"cube root of a negative", NthRoot(Int(-8), Int(3)), Int(-2), Equal},
		{"power against root", Power(two, frac(3, 2)), Product(two, sqrt(two)), Equal},
		{"square root of a negative", sqrt(Int(-4)), Product(two, Const(I)), Equal},
		{"difference of squares", Product(Sum(x, y), Difference(x, y)), Difference(Power(x, two), Power(y, two)), Equal},
		{"cancelled factor", Quotient(Difference(Power(x, two), Int(1)), Difference(x, Int(1))), Sum(x, Int(1)), Equal},
		{"square root of a square", sqrt(Power(x, two)), Apply("abs", x), Equal},
		{"square root of a square is not x", sqrt(Power(x, two)), x, Different},
		{"pi is not 3.14", pi, frac(314, 100), Different},
		{"sine of pi over six", Apply("sin", Quotient(pi, Int(6))), frac(1, 2), Equal},
		{"sine of pi", Apply("sin", pi), Int(0), Equal},
		{"cosine of pi over twelve", Apply("cos", Quotient(pi, Int(12))), Quotient(Sum(sqrt(Int(6)), sqrt(two)), Int(4)), Equal},
		{"arctangent", Apply("arctan", Int(1)), Quotient(pi, Int(4)), Equal},
		{"arcsine", Apply("arcsin", Int(1)), Quotient(pi, two), Equal},
		{"arccosine", Apply("arccos", frac(-1, 2)), Quotient(Product(two, pi), Int(3)), Equal},
		{"log", Apply("log", two, Int(32)), Int(5), Equal},
		{"log differs", Apply("log", two, Int(32)), Apply("log", Int(3), Int(32)), Different},
		{"ln of a power of e", Apply("ln", Power(Const(E), Int(3))), Int(3), Equal},
		{"exp", Apply("exp", Int(12)), Power(Const(E), Int(12)), Equal},
		{"euler's identity", Power(Const(E), Product(Const(I), pi)), Int(-1), Equal},
		{"secant", Power(Apply("sec", y), two), Sum(Power(Apply("tan", y), two), Int(1)), Equal},
		{"tiny numbers differ", Power(two, Int(-91)), Power(two, Int(-90)), Different},
		{"tiny transcendental numbers differ", Apply("exp", Int(-400)), Apply("exp", Int(-401)), Different},
		{"huge powers are the same", Power(Int(9), Power(Int(9), Int(9))), Power(Int(9), Power(Int(9), Int(9))), Equal},
		{"large powers differ", Power(Int(9), Power(Int(9), Int(7))), Int(2), Different},
		{"power tower", Power(Int(9), Power(Int(9), Power(Int(9), Int(9)))), Int(2), Unknown},
		{"zero over zero", frac(0, 0), Int(1), Unknown},
		{"factorials cancel", Quotient(Apply("factorial", Sum(x, Int(1))), Apply("factorial", x)), Sum(x, Int(1)), Equal},
		{"symbolic powers", Power(two, Sum(x, Int(1))), Product(two, Power(two, x)), Equal},
		{"named function", Apply("f", x), Apply("f", y), Different},
		{"golden power", Power(Quotient(Sum(Int(1), sqrt(Int(5))), two), two), Quotient(Sum(Int(3), sqrt(Int(5))), two), Equal},
		{"infinity", Const(Inf), Const(Inf), Equal},
		{"infinities differ", Const(Inf), Negate(Const(Inf)), Different},
		{"infinity is no number", Const(Inf), Int(1), Different},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := NewBudget(20_000_000)
			got, rule := Compare(tt.a, tt.b, b)
			t.Logf("%s, %d steps", rule, 20_000_000-b.Left())
			if got != tt.want {
				t.Errorf("got verdict %d by %s, want %d", got, rule, tt.want)
			}
			again := NewBudget(20_000_000)
			Compare(tt.a, tt.b, again)
			if again.Left() != b.Left() {
				t.Errorf("%d steps left, then %d", b.Left(), again.Left())
			}
			if back, _ := Compare(tt.b, tt.a, NewBudget(20_000_000)); back != got {
				t.Errorf("the other way round the verdict is %d, not %d", back, got)
			}
		})
	}
}
