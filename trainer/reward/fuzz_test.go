package reward_test

import (
	"testing"

	"tandem/trainer/reward"
)

// FuzzGrade looks for responses and labels that crash a grader or get two verdicts.
func FuzzGrade(f *testing.F) {
	f.Add(`so \boxed{\frac{1}{2}}.`, `0.5`)
	f.Add(`<think>\boxed{3}</think> \fbox{4}`, `\boxed{4}`)
	f.Add("Answer: $1,250$.", "#### 1250")
	f.Add(`\boxed 6$`, `6`)
	f.Add(`\boxed{\left\{2,3\right.}`, `\{2,3\}`)
	f.Add(`###Response \boxed{(1,2]}`, `(1, 2]`)
	f.Add(`\boxed{\sqrt`, `\sqrt`)
	f.Add("\xff\\boxed{\x00}", "\x00")
	var graders []reward.Grader
	for _, name := range reward.Names() {
		g, err := reward.New(name)
		if err != nil {
			f.Fatal(err)
		}
		graders = append(graders, g)
	}
	graders = append(graders, reward.Tandem{BareLine: true})
	f.Fuzz(func(t *testing.T, response, label string) {
		for _, g := range graders {
			r := g.Grade(response, label)
			if r != g.Grade(response, label) {
				t.Errorf("%s gives two verdicts", g.Name())
			}
			if (r.Score == 1) != (r.Reason == "") {
				t.Errorf("%s: score %v with reason %q", g.Name(), r.Score, r.Reason)
			}
			published := g.Name() != "tandem" && g.Name() != "dapo" // some pay out for an empty box and an empty label
			if g.Check(label) != nil && r.Score == 1 && !published {
				t.Errorf("%s: label %q is unreadable, and right", g.Name(), label)
			}
		}
	})
}
