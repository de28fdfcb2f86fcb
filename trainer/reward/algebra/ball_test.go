package algebra

import (
	"math/big"
	"testing"

	"pgregory.net/rapid"
)

// TestElementaryFunctions compares with 60 digits from mpmath 1.3.0 (mp.dps = 70).
func TestElementaryFunctions(t *testing.T) {
	tests := []struct {
		name string
		e    *Expr
		want string
	}{
		{"exp", Apply("exp", frac(3, 2)), "4.4816890703380648226020554601192758190057498683696670567726501"},
		{"exp of a negative", Apply("exp", frac(-37, 4)), "0.000096111652061394693819818339795930871198957274272194311641515388"},
		{"ln", Apply("ln", Int(10)), "2.3025850929940456840179914546843642076011014886287729760333279"},
		{"ln near 1", Apply("ln", frac(1025, 1024)), "0.00097608597305545889596082490801718667261183433378453623775859827"},
		{"ln of a small number", Apply("ln", frac(1, 12345)), "-9.4210064017792798779058775355940914883016248742816546687135473"},
		{"sin", Apply("sin", Int(100)), "-0.50636564110975879365655761045978543206503272129065732344339247"},
		{"cos", Apply("cos", frac(-7, 3)), "-0.69075813974987629272797169475634878701002748643361818981996484"},
		{"tan near a pole", Apply("tan", frac(11, 7)), "-1581.6660411069837079729290816982181588307067207641275324514814"},
		{"arctan", Apply("arctan", frac(3, 10)), "0.29145679447786709199560462143289119350316759901206541927220608"},
		{"arctan of a large number", Apply("arctan", Int(12345)), "1.570715322339828756985978414367393707795533723866858633010193"},
		{"arcsin", Apply("arcsin", frac(2, 3)), "0.72972765622696636345479665981332069539650591404771369070894949"},
		{"arccos", Apply("arccos", frac(-1, 7)), "1.7141438957002619768263959717963697681975239128210172389343612"},
		{"sinh", Apply("sinh", frac(5, 2)), "6.05020448103978732145032363835040318767248183452386233135732"},
		{"square root", sqrt(Int(2)), "1.4142135623730950488016887242096980785696718753769480731766797"},
		{"cube root", Power(Int(2), frac(1, 3)), "1.2599210498948731647672106072782283505702514647015079800819751"},
		{"pi to the e", Power(Const(Pi), Const(E)), "22.459157718361045473427152204543735027589315133996692249203003"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &field{prec: 256, budget: NewBudget(1_000_000)}
			got := f.eval(tt.e, point{})
			if f.failed || got.im != nil {
				t.Fatal("no real value")
			}
			want, ok := new(big.Rat).SetString(tt.want)
			if !ok {
				t.Fatal(tt.want)
			}
			mid, _ := got.re.mid.Rat(nil)
			d := new(big.Rat).Sub(mid, want)
			d.Abs(d.Quo(d, want))
			if d.Cmp(new(big.Rat).SetFrac(big.NewInt(1), new(big.Int).Exp(big.NewInt(10), big.NewInt(59), nil))) > 0 {
				t.Errorf("off by %s: got %s, want %s", d.FloatString(70), got.re.mid.Text('g', 62), tt.want)
			}
		})
	}
}

// constantExpr draws an expression without variables; its value may not exist.
func constantExpr(depth int) *rapid.Generator[*Expr] {
	return rapid.Custom(func(t *rapid.T) *Expr {
		if depth == 0 {
			switch rapid.IntRange(0, 4).Draw(t, "leaf") {
			case 0:
				return Const(Pi)
			case 1:
				return Const(I)
			}
			return frac(rapid.Int64Range(-40, 40).Draw(t, "numerator"), rapid.Int64Range(1, 12).Draw(t, "denominator"))
		}
		a := constantExpr(depth-1).Draw(t, "a")
		b := constantExpr(depth-1).Draw(t, "b")
		switch rapid.IntRange(0, 5).Draw(t, "operator") {
		case 0:
			return Sum(a, b)
		case 1:
			return Product(a, b)
		case 2:
			return Quotient(a, b)
		case 3:
			return NthRoot(a, Int(rapid.Int64Range(2, 4).Draw(t, "index")))
		case 4:
			return Power(a, b)
		}
		names := []string{"sin", "cos", "tan", "exp", "ln", "abs", "arctan", "arcsin", "sinh", "tanh", "cot", "arccos", "floor"}
		return Apply(rapid.SampledFrom(names).Draw(t, "function"), a)
	})
}

// TestBallsHold evaluates in low and in high precision: the better value must lie in
// the ball of the other.
func TestBallsHold(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := constantExpr(rapid.IntRange(1, 4).Draw(t, "depth")).Draw(t, "e")
		low := &field{prec: 128, budget: NewBudget(50_000_000)}
		high := &field{prec: 832, budget: NewBudget(50_000_000)}
		x, y := low.eval(e, point{}), high.eval(e, point{})
		if low.failed || high.failed {
			t.Skip("no value")
		}
		for i, pair := range [][2]ball{{x.re, y.re}, {low.imag(x), high.imag(y)}} {
			d := new(big.Float).SetPrec(900).Sub(pair[0].mid, pair[1].mid)
			if d.Sign() != 0 && exponent(d) > max(pair[0].err, pair[1].err)+1 {
				t.Fatalf("part %d of %v: %s and %s are 2^%d apart, the error is 2^%d", i, e,
					pair[0].mid.Text('g', 30), pair[1].mid.Text('g', 30), exponent(d), pair[0].err)
			}
		}
	})
}

// TestNormalFormAgreesWithValues compares the two ways to decide.
func TestNormalFormAgreesWithValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := constantExpr(rapid.IntRange(0, 2).Draw(t, "depth")).Draw(t, "a")
		b := constantExpr(rapid.IntRange(0, 2).Draw(t, "depth")).Draw(t, "b")
		for _, pair := range [][2]*Expr{{a, b}, {Product(Sum(a, b), Sum(a, b)), Sum(Product(a, a), Product(Int(2), a, b), Product(b, b))}} {
			exact := compareNormal(pair[0], pair[1], NewBudget(10_000_000))
			value := compareByValue(pair[0], pair[1], NewBudget(10_000_000))
			if exact != Unknown && value != Unknown && exact != value {
				t.Fatalf("%v and %v: verdict %d by normal form, %d by value", pair[0], pair[1], exact, value)
			}
		}
	})
}
