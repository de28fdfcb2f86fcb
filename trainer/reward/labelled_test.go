package reward_test

import (
	"testing"

	"tandem/trainer/reward"
)

// wrongLabels lists replies of the labelled data whose label is wrong, by gold answer
// and extracted answer, with the reason.
var wrongLabels = map[[2]string]string{
	{`10{,}000`, `10000`}: "labelled wrong, but 49994/7 + 20006/7 = 70000/7 = 10000, and the comma in braces only groups digits",
}

// mathVerifyErrors is what Math-Verify 0.9.0 gets wrong on the same rows, as labelled.
const mathVerifyErrors = 1

// TestLabelledReplies holds the tandem grader to the labelled replies: no more errors
// than Math-Verify makes, and every one explained.
func TestLabelledReplies(t *testing.T) {
	g := reward.Tandem{}
	errors, rows := 0, sharedRows(t, "data/math_responses.jsonl")
	for _, row := range rows {
		response, gold, label := row["response"].(string), row["gold"].(string), row["correct"].(bool)
		r := g.Grade(response, gold)
		if (r.Score == 1) == label {
			continue
		}
		errors++
		if _, ok := wrongLabels[[2]string{gold, r.Extracted}]; !ok {
			t.Errorf("gold %q, extracted %q: score %v, labelled %v: %s", gold, r.Extracted, r.Score, label, describe(r))
		}
	}
	t.Logf("%d rows, %d differ from their label", len(rows), errors)
	if errors > mathVerifyErrors {
		t.Errorf("%d errors, Math-Verify makes %d", errors, mathVerifyErrors)
	}
}

// TestGoldAnswers reads every gold answer of the data sets, finds it equal to itself in
// every rewriting that keeps its meaning, and different from itself plus one.
func TestGoldAnswers(t *testing.T) {
	g := reward.Tandem{}
	for _, gold := range goldAnswers(t) {
		if err := g.Check(gold); err != nil {
			t.Errorf("%q: %v", gold, err)
			continue
		}
		for _, r := range rewritings {
			s := r.apply(gold)
			got := g.Grade(`\boxed{`+s+"}", gold)
			if r.keeps && got.Score != 1 {
				t.Errorf("%s: %q against %q: %s", r.name, s, gold, describe(got))
			}
			if r.name == "one more" && got.Score == 1 {
				t.Errorf("%q counts as %q", s, gold)
			}
		}
	}
}
