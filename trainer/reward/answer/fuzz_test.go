package answer_test

import (
	"testing"

	"tandem/trainer/reward/algebra"
	"tandem/trainer/reward/answer"
)

// seeds are answers of every kind; testdata/fuzz holds what fuzzing found beyond them.
var seeds = []string{`\frac{1}{2}`, `1\frac12`, `(-\infty,2)\cup[3,\infty)`, `\{1\pm\sqrt5,-2\}`, `x=2,\ y=5`, `\begin{pmatrix}1&2\\3&4\end{pmatrix}`, `204_5`, `1:2:3`,
	`\text{(C)}`, `\textbf{(C)}\ 24`, `15\mbox{ cm}^2`, `\$32,\!348`, `70^\circ`, `\log_2 32`, `\sin^{-1}\frac{\pi}{6}`, `2x+3y\le5`, `|x-1|`, `0.1\overline{6}`, `1.5e-3`, `5!`, `\binom62`,
	`e^{2\pi i/3}`, `f(x)=x^2`, `\emptyset`, `\mathbb{R}\setminus\{0\}`, `9^{9^{9^9}}`, `{{{`, `\frac`, "\x00", "\xff", `4:30 p.m.`, `Evelyn`, `\left\{ 2,3 \right.`, `x \equiv 3 \pmod 5`}

// FuzzParse looks for texts that crash the reader, that take it out of bounds, or whose
// canonical text reads differently.
func FuzzParse(f *testing.F) {
	for _, s := range seeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v, err := answer.Parse(s)
		_ = answer.Canonical(s)
		if err != nil {
			return
		}
		_ = v.String()
		if o := answer.Equal(v, v, algebra.NewBudget(propertySteps)); !o.Equal && !o.Undecided && o.Rule != "kind" {
			t.Errorf("%q is not itself, by %s: %v", s, o.Rule, v)
		}
	})
}

// FuzzEqual looks for pairs that crash the comparison or are judged differently the
// other way round.
func FuzzEqual(f *testing.F) {
	for i, s := range seeds {
		f.Add(s, seeds[(i*5+1)%len(seeds)])
		f.Add(s, s+"+1")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, errA := answer.Parse(a)
		y, errB := answer.Parse(b)
		if errA != nil || errB != nil {
			return
		}
		budget, back := algebra.NewBudget(propertySteps), algebra.NewBudget(propertySteps)
		o, p := answer.Equal(x, y, budget), answer.Equal(y, x, back)
		if o.Equal != p.Equal && !budget.Spent() && !back.Spent() {
			t.Errorf("%q and %q: %+v, the other way %+v", a, b, o, p)
		}
	})
}
