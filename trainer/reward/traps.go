package reward

import (
	"fmt"
	"strings"
)

// Traps says, in whole sentences, where a grader would waste a run on these gold answers:
// labels it cannot read, labels that their own text does not satisfy, and rules that the
// chat template defeats. thinking is whether the template lets the model think before it
// answers. It is empty for an unknown grader, which New refuses.
func Traps(name string, labels []string, thinking bool) []string {
	g, err := New(name)
	if err != nil {
		return nil
	}
	out := templateTraps(name, thinking)
	unreadable, unmatched := sample{of: len(labels)}, sample{of: len(labels)}
	verdicts := make(map[string]int) // labels repeat
	const readable, bad, lost = 1, 2, 3
	for _, label := range labels {
		v := verdicts[label]
		if v == 0 {
			switch {
			case g.Check(label) != nil:
				v = bad
			case g.Grade(repeated(label), label).Score != 1:
				v = lost
			default:
				v = readable
			}
			verdicts[label] = v
		}
		switch v {
		case bad:
			unreadable.add(label)
		case lost:
			unmatched.add(label)
		}
	}
	if unreadable.n > 0 {
		out = append(out, fmt.Sprintf("%s cannot read %s: every response to them counts as wrong.%s", name, unreadable, unreadableHint(name)))
	}
	if unmatched.n > 0 {
		out = append(out, fmt.Sprintf("%s does not accept %s even when a response repeats the label as it is.%s", name, unmatched, unmatchedHint(name)))
	}
	return out
}

func templateTraps(name string, thinking bool) []string {
	switch {
	case name == "deepscaler" && !thinking:
		return []string{"deepscaler looks for the answer after </think> and gives 0 without one: with a template that does not let the model think, every reward is 0. The grader math is the same rule without that condition."}
	case name == "math" && thinking:
		return []string{"math takes the last box of the whole response, so a box in an unfinished thinking part is graded as the answer. The graders tandem and deepscaler look behind </think> only."}
	case (name == "dapo" || name == "dapo-strict") && thinking:
		return []string{fmt.Sprintf("%s looks at the last %d characters whether or not they belong to the thinking part, so a response cut off while thinking can be graded as an answer.", name, windowOf(name))}
	}
	return nil
}

func windowOf(name string) int {
	if name == "dapo" {
		return dapoWindow
	}
	return strictWindow
}

// repeated is a response that gives the label as its answer in every place that a
// grader looks at.
func repeated(label string) string {
	if content, _, closed := lastBox(label); closed {
		label = content
	}
	if _, after, ok := strings.Cut(label, "####"); ok {
		label = after
	}
	label = strings.TrimSpace(label)
	return "</think>Answer: " + label + "\n\\boxed{" + label + "}"
}

func unreadableHint(name string) string {
	if name == "dapo" {
		return " It reads numbers only; math and tandem read expressions."
	}
	return ""
}

func unmatchedHint(name string) string {
	switch name {
	case "dapo":
		return " It cuts labels to whole numbers, 0.5 to 0."
	case "dapo-strict":
		return fmt.Sprintf(" The box must stand in the last %d characters and equal the label character for character.", strictWindow)
	}
	return ""
}

// A sample counts labels and quotes the first.
type sample struct {
	n, of int
	first string
}

func (s *sample) add(label string) {
	if s.n == 0 {
		s.first = label
	}
	s.n++
}

func (s sample) String() string {
	return fmt.Sprintf("%d of %d labels (the first is %q)", s.n, s.of, clip(s.first))
}
