package reward_test

import (
	"testing"

	"tandem/trainer/reward"
)

func TestPublishedQuirks(t *testing.T) {
	tests := []struct {
		name, grader, response, label string
		want                          float64
	}{
		{"integer", "math", `7+8=15 4+5+1=10 \boxed{105}`, "105", 1},
		{"wrong integer", "math", `7+8=15 4+5+1=10 \boxed{104}`, "105", 0},
		{"last box counts", "math", `\boxed{105} or \boxed{104}`, "105", 0},
		{"unfinished box", "math", `\boxed{105} or \boxed{105`, "105", 0},
		{"box in the thinking part counts", "math", `<think>\boxed{105}</think> hm`, "105", 1},
		{"no brace", "math", `\boxed 105`, "105", 0},
		{"empty label", "math", `\boxed{}`, "", 0},
		{"boxed label", "math", `\boxed{3}`, `so \boxed{3}`, 1},
		{"fraction forms", "math", `\boxed{\dfrac12}`, `\frac{1}{2}`, 1},
		{"one half", "math", `\boxed{0.5}`, `1/2`, 1},
		{"decimal against fraction", "math", `\boxed{0.25}`, `1/4`, 1},
		{"unreduced fraction", "math", `\boxed{2/4}`, `1/2`, 0},
		{"unreduced latex fraction", "math", `\boxed{\frac{2}{4}}`, `\frac{1}{2}`, 0},
		{"root of a product", "math", `\boxed{\sqrt{12}}`, `2\sqrt{3}`, 1},
		{"cube root loses its index", "math", `\boxed{\sqrt[3]{7}}`, `\sqrt{7}`, 1},
		{"numerator without brackets", "math", `\boxed{x+\frac{1}{2}}`, `\frac{x+1}{2}`, 1},
		{"expanded square", "math", `\boxed{x^2+2x+1}`, `(x+1)^2`, 1},
		{"exponent in brackets is not tried", "math", `\boxed{2^(3)}`, `2^3`, 0},
		{"two digits in an exponent are not tried", "math", `\boxed{x^10+x-x}`, `x^10`, 0},
		{"three letters are not tried", "math", `\boxed{abc}`, `cba`, 0},
		{"decimal sums are binary", "math", `\boxed{0.1+0.2}`, `0.3`, 0},
		{"integer against sum", "math", `\boxed{1+1}`, `2`, 0},
		{"percent", "math", `\boxed{35\%}`, `35`, 1},
		{"thousands", "math", `\boxed{12,500}`, `12500`, 1},
		{"four groups keep a comma", "math", `\boxed{1,234,567,890}`, `1234567890`, 0},
		{"unit", "math", `\boxed{18\text{ cm}}`, `18`, 1},
		{"mixed number", "math", `\boxed{1\frac{1}{2}}`, `\frac{3}{2}`, 1},
		{"pair", "math", `\boxed{(1, 2)}`, `(1,2)`, 1},
		{"pair in another order", "math", `\boxed{(2,1)}`, `(1,2)`, 0},
		{"pair with a half", "math", `\boxed{(0.25,2)}`, `(1/4,2)`, 1},
		{"x equals", "math", `\boxed{x=5}`, `5`, 1},
		{"power tower", "math", `\boxed{9^{9^{9^9}}}`, `2`, 0},

		{"no thinking part", "deepscaler", `\boxed{5}`, `5`, 0},
		{"after the thinking part", "deepscaler", `<think>\boxed{4}</think>\boxed{5}`, `5`, 1},
		{"marker", "deepscaler", `###Response \boxed{5}`, `5`, 1},

		{"answer line", "dapo", "so\nAnswer: 42", "42", 1},
		{"answer line in bold dollars", "dapo", "answer : $42$.", "42", 1},
		{"last answer line", "dapo", "Answer: 42\nAnswer: 43", "42", -1},
		{"no answer line", "dapo", `\boxed{42}`, "42", -1},
		{"label with a fraction part is cut", "dapo", "Answer: 0", "0.5", 1},
		{"non-numeric label", "dapo", "Answer: x", "x", -1},
		{"answer not cut", "dapo", "Answer: 42.0", "42", -1},

		{"strict box", "dapo-strict", `\boxed{42}`, "42", 1},
		{"strict box does not normalise", "dapo-strict", `\boxed{ 42}`, "42", -1},
	}
	for _, tt := range tests {
		t.Run(tt.grader+"/"+tt.name, func(t *testing.T) {
			g, err := reward.New(tt.grader)
			if err != nil {
				t.Fatal(err)
			}
			r := g.Grade(tt.response, tt.label)
			if r.Score != tt.want {
				t.Errorf("%s on %q with label %q: score %v, want %v (%+v)", tt.grader, tt.response, tt.label, r.Score, tt.want, r)
			}
			if (r.Reason == "") != (r.Score == 1) {
				t.Errorf("score %v with reason %q", r.Score, r.Reason)
			}
		})
	}
}
