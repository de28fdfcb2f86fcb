package reward

import (
	"fmt"
	"strings"
)

// A Result says what a response was worth and why.
type Result struct {
	Score     float64 // 1 for right; for wrong 0, or -1 from the dapo graders
	Extracted string  // the final answer as written in the response
	Given     string  // the normal form of the answer that was compared
	Want      string  // the normal form of the gold answer
	Rule      string  // what decided: "text", "rational", "normal form", ...
	Reason    string  // why the score is not 1, "" where it is
}

// Reasons for a zero that callers count. Others start with "could not read".
const (
	NoBox          = "no box"
	UnfinishedBox  = "unfinished box"
	EmptyAnswer    = "empty answer"
	DifferentValue = "different value"
	BudgetSpent    = "step budget spent"
	Undecided      = "could not decide"
	BadGold        = "could not read the gold answer"
)

// A Grader scores responses against gold answers.
type Grader interface {
	Name() string
	// Check says why label cannot serve this grader as a gold answer. It belongs before
	// a run: under such a label every response would score as wrong.
	Check(label string) error
	// Grade never fails: whatever is wrong with the response is the Result's Reason.
	Grade(response, label string) Result
}

// Names lists the graders, the default first.
func Names() []string { return []string{"tandem", "math", "dapo", "dapo-strict", "deepscaler"} }

// New returns the grader of that name.
func New(name string) (Grader, error) {
	switch name {
	case "tandem":
		return Tandem{}, nil
	case "math":
		return mathGrader{}, nil
	case "dapo":
		return dapo{}, nil
	case "dapo-strict":
		return dapoStrict{}, nil
	case "deepscaler":
		return deepscaler{}, nil
	}
	return nil, fmt.Errorf("grader %q: want one of %s", name, strings.Join(Names(), ", "))
}
