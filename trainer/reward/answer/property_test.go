package answer_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"tandem/trainer/reward/algebra"
	"tandem/trainer/reward/answer"
)

// expression draws LaTeX of an expression that is real or complex but never undefined
// by construction: denominators are positive numbers, roots are of squares plus one.
func expression(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		if depth == 0 {
			return rapid.OneOf(
				rapid.Map(rapid.IntRange(0, 99), func(n int) string { return fmt.Sprint(n) }),
				rapid.Map(rapid.IntRange(1, 9), func(n int) string { return fmt.Sprintf(`\frac{%d}{%d}`, n, 10-n) }),
				rapid.SampledFrom([]string{"x", "y", "n", `\pi`, "e", "i", `\sqrt{2}`, `\sqrt{3}`, "0.25", `\theta`, "a_1"}),
			).Draw(t, "leaf")
		}
		a := expression(depth-1).Draw(t, "a")
		b := expression(depth-1).Draw(t, "b")
		switch rapid.IntRange(0, 9).Draw(t, "operator") {
		case 0, 1:
			return a + "+" + b
		case 2:
			return "(" + a + ")-(" + b + ")"
		case 3:
			return "(" + a + `)\cdot(` + b + ")"
		case 4:
			return "(" + a + ")(" + b + ")"
		case 5:
			return `\frac{` + a + `}{` + fmt.Sprint(rapid.IntRange(1, 20).Draw(t, "denominator")) + "}"
		case 6:
			return `\left(` + a + `\right)^{` + fmt.Sprint(rapid.IntRange(1, 3).Draw(t, "exponent")) + "}"
		case 7:
			return `\sqrt{(` + a + ")^2+1}"
		case 8:
			return `\sin(` + a + ")"
		}
		return "|" + strings.NewReplacer("|", "").Replace(a) + "|+" + b
	})
}

// structure draws an answer of any kind around expressions.
func structure() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		e := func(label string) string {
			return expression(rapid.IntRange(0, 2).Draw(t, "depth")).Draw(t, label)
		}
		switch rapid.IntRange(0, 9).Draw(t, "kind") {
		case 0:
			return "(" + e("a") + ", " + e("b") + ")"
		case 1:
			return `\{` + e("a") + ", " + e("b") + ", " + e("c") + `\}`
		case 2:
			return e("a") + "=" + e("b")
		case 3:
			return e("a") + `\le ` + e("b")
		case 4:
			return `\begin{pmatrix}` + e("a") + "&" + e("b") + `\\` + e("c") + "&" + e("d") + `\end{pmatrix}`
		case 5:
			lo := rapid.IntRange(-50, 50).Draw(t, "lo")
			return fmt.Sprintf(`[%d,%d)\cup(%d,\infty)`, lo, lo+rapid.IntRange(1, 9).Draw(t, "length"), lo+20)
		case 6:
			return fmt.Sprintf("%d_%d", rapid.IntRange(0, 1).Draw(t, "digit")*10+1, rapid.IntRange(2, 9).Draw(t, "base"))
		case 7:
			return rapid.SampledFrom([]string{`\text{yes}`, "Evelyn", `\text{(B)}`, "no solution", `\text{March 5}`, "C"}).Draw(t, "text")
		case 8:
			return e("a") + `\pm ` + e("b")
		}
		return e("a")
	})
}

// rewritten draws another way to write the same answer.
func rewritten(s string) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		for range rapid.IntRange(1, 3).Draw(t, "rewritings") {
			switch rapid.IntRange(0, 9).Draw(t, "rewriting") {
			case 0:
				s = strings.ReplaceAll(s, `\frac`, `\dfrac`)
			case 1:
				s = "$" + s + "$"
			case 2:
				s = " " + strings.NewReplacer("+", " + ", "-", " - ", "=", " = ").Replace(s) + "  "
			case 3:
				s = strings.NewReplacer(`\left(`, "(", `\right)`, ")").Replace(s)
			case 4:
				s = strings.ReplaceAll(s, `\cdot`, `\times`)
			case 5:
				s = strings.ReplaceAll(s, "0.25", `\frac14`)
			case 6:
				s = strings.TrimSuffix(s, ".") + "."
			case 7:
				s = strings.ReplaceAll(s, `\pi`, "π")
			case 8:
				s = strings.ReplaceAll(s, `\sqrt{2}`, `\sqrt2`)
			case 9:
				s = strings.ReplaceAll(s, `\le `, `\leq `)
			}
		}
		return s
	})
}

const propertySteps = 5_000_000

func parsed(t *rapid.T, s string) answer.Value {
	v, err := answer.Parse(s)
	if err != nil {
		t.Fatalf("could not read %q: %v", s, err)
	}
	return v
}

func TestReflexive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := structure().Draw(t, "answer")
		v := parsed(t, s)
		if o := answer.Equal(v, v, algebra.NewBudget(propertySteps)); !o.Equal {
			t.Fatalf("%q is not itself, by %s", s, o.Rule)
		}
		if o := answer.Equal(v, parsed(t, s), algebra.NewBudget(propertySteps)); !o.Equal {
			t.Fatalf("%q read twice is not itself, by %s", s, o.Rule)
		}
	})
}

func TestSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := structure().Draw(t, "a"), structure().Draw(t, "b")
		x, y := parsed(t, a), parsed(t, b)
		o := answer.Equal(x, y, algebra.NewBudget(propertySteps))
		p := answer.Equal(y, x, algebra.NewBudget(propertySteps))
		if o.Equal != p.Equal {
			t.Fatalf("%q and %q: %+v, the other way %+v", a, b, o, p)
		}
	})
}

func TestInvariantUnderRewriting(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := structure().Draw(t, "answer")
		r := rewritten(s).Draw(t, "rewritten")
		if o := answer.Equal(parsed(t, s), parsed(t, r), algebra.NewBudget(propertySteps)); !o.Equal {
			t.Fatalf("%q is not %q, by %s", s, r, o.Rule)
		}
	})
}

func TestOneMoreIsDifferent(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := expression(rapid.IntRange(0, 3).Draw(t, "depth")).Draw(t, "expression")
		if o := answer.Equal(parsed(t, s), parsed(t, "("+s+")+1"), algebra.NewBudget(propertySteps)); o.Equal {
			t.Fatalf("%q is itself plus one, by %s", s, o.Rule)
		}
	})
}

// TestAlgebraicIdentities writes an expression in another form that algebra must see through.
func TestAlgebraicIdentities(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := expression(rapid.IntRange(0, 2).Draw(t, "depth")).Draw(t, "a")
		b := expression(rapid.IntRange(0, 1).Draw(t, "depth")).Draw(t, "b")
		pairs := [][2]string{
			{"(" + a + ")+(" + b + ")", "(" + b + ")+(" + a + ")"},
			{"(" + a + ")(" + b + ")", "(" + b + `)\cdot(` + a + ")"},
			{"((" + a + ")+(" + b + "))^2", "(" + a + ")^2+2(" + a + ")(" + b + ")+(" + b + ")^2"},
			{`\frac{` + a + `}{7}`, `\frac17(` + a + ")"},
			{"-(" + a + ")", "0-(" + a + ")"},
			{`\sqrt{(` + a + ")^2+1}^2", "(" + a + ")^2+1"},
		}
		p := rapid.SampledFrom(pairs).Draw(t, "pair")
		o := answer.Equal(parsed(t, p[0]), parsed(t, p[1]), algebra.NewBudget(propertySteps))
		if !o.Equal {
			t.Fatalf("%q is not %q, by %s (undecided: %v)", p[0], p[1], o.Rule, o.Undecided)
		}
	})
}
