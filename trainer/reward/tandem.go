package reward

import (
	"errors"
	"fmt"
	"strings"

	"tandem/trainer/reward/algebra"
	"tandem/trainer/reward/answer"
)

// Tandem grades by mathematics: the final answer of the response is right when it is
// the same as the gold answer for all that algebra and arithmetic can tell.
type Tandem struct {
	BareLine bool // take the last line of a response that has no box and no answer line
}

// Name is "tandem".
func (Tandem) Name() string { return "tandem" }

// tandemSteps is the step budget of one comparison, some 10 ms of one core. Answers of
// the data sets take less than a tenth of it.
const tandemSteps = 5_000_000

// Check reads the label as Grade would.
func (Tandem) Check(label string) error {
	gold, err := goldAnswer(label)
	if err != nil {
		return err
	}
	if _, err := answer.Parse(gold); err != nil {
		return fmt.Errorf("%s %q: %w", BadGold, clip(label), err)
	}
	return nil
}

// maxSolution bounds a label, which may be a whole solution, in bytes.
const maxSolution = 1_000_000

// goldAnswer is the answer in a label, which may be a whole solution: its last box, or
// what follows #### in GSM8K.
func goldAnswer(label string) (string, error) {
	if len(label) > maxSolution {
		return "", errors.New(BadGold + ": it is longer than 1 MB")
	}
	if content, found, closed := finalBox(label); found {
		if !closed {
			return "", errors.New(BadGold + ": its box is not closed")
		}
		label = content
	} else if i := strings.LastIndex(label, "####"); i >= 0 {
		label = label[i+4:]
	}
	if strings.TrimSpace(label) == "" {
		return "", errors.New(BadGold + ": it is empty")
	}
	return label, nil
}

// Grade compares the final answer with the label.
func (g Tandem) Grade(response, label string) Result {
	var r Result
	gold, err := goldAnswer(label)
	if err != nil {
		r.Reason = err.Error()
		return r
	}
	r.Extracted, r.Reason = extract(response, g.BareLine)
	if r.Reason != "" {
		return r
	}
	want, err := answer.Parse(gold)
	if err != nil {
		r.Want = answer.Canonical(clip(gold))
		r.Reason = BadGold + ": " + err.Error()
		return r
	}
	r.Want = want.String()
	if strings.TrimSpace(r.Extracted) == "" {
		r.Reason = EmptyAnswer
		return r
	}
	if len(r.Extracted) <= answer.MaxLength && (r.Extracted == gold || answer.Canonical(r.Extracted) == answer.Canonical(gold)) {
		r.Given = r.Want
		r.Score, r.Rule = 1, "identical"
		return r
	}
	given, err := answer.Parse(r.Extracted)
	if err != nil {
		r.Reason = "could not read: " + err.Error()
		return r
	}
	r.Given = given.String()
	steps := algebra.NewBudget(tandemSteps)
	outcome := answer.Equal(given, want, steps)
	r.Rule = outcome.Rule
	switch {
	case outcome.Equal:
		r.Score = 1
	case steps.Spent():
		r.Reason = BudgetSpent
	case outcome.Undecided:
		r.Reason = Undecided
	default:
		r.Reason = DifferentValue
	}
	return r
}
