package algebra

import "testing"

func TestCanonical(t *testing.T) {
	x, y := Var("x"), Var("y")
	tests := []struct {
		e    *Expr
		want string
	}{
		{Int(7), "7"},
		{frac(2, -4), "-1/2"},
		{sqrt(Int(12)), "2*3^(1/2)"},
		{Quotient(Const(Pi), Int(2)), "1/2*pi"},
		{Power(Sum(x, Int(1)), Int(2)), "x^2 + 2*x + 1"},
		{Sum(Int(1), Product(x, Int(2)), Power(x, Int(2))), "x^2 + 2*x + 1"},
		{Product(y, x, Int(-1)), "-x*y"},
		{Quotient(x, y), "(x)/(y)"},
		{Apply("sin", Sum(x, x)), "sin(2*x)"},
		{Power(Int(2), x), "(2)^(x)"},
		{Sum(Int(2), Const(I)), "i + 2"},
		{Negate(Const(Inf)), "-inf"},
		{Power(Int(9), Power(Int(9), Power(Int(9), Int(9)))), "(9)^((9)^(387420489))"},
		{Difference(x, x), "0"},
	}
	for _, tt := range tests {
		if got := Canonical(tt.e); got != tt.want {
			t.Errorf("Canonical(%v) = %q, want %q", tt.e, got, tt.want)
		}
	}
}
