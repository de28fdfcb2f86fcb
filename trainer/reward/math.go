package reward

import (
	"errors"
	"fmt"
	"strings"
)

// mathGrader is the published `math` rule: the last box of the whole response is
// right if either of two normalisations, one of strings (mathd.go) and one that ends
// in algebra (mathsympy.go), makes it equal to the label.
type mathGrader struct{}

func (mathGrader) Name() string { return "math" }

func (mathGrader) Check(label string) error { return checkMathLabel(label) }

func (mathGrader) Grade(response, label string) Result { return gradeMath(response, label) }

// deepscaler is the math rule on what follows the thinking part, and 0 for a response
// without one.
type deepscaler struct{}

func (deepscaler) Name() string { return "deepscaler" }

func (deepscaler) Check(label string) error {
	if err := framedLabel(label); err != nil {
		return err
	}
	return checkMathLabel(label)
}

// framedLabel refuses an \fbox without a \boxed, which deepscaler takes for a box that it
// then does not find.
func framedLabel(label string) error {
	if strings.Contains(label, `\fbox`) && !strings.Contains(label, `\boxed`) {
		return errors.New(BadGold + `: it holds an \fbox`)
	}
	return nil
}

func (deepscaler) Grade(response, label string) Result {
	if err := framedLabel(label); err != nil {
		return Result{Reason: err.Error()}
	}
	const think, marker = "</think>", "###Response"
	if i := lastIndex(response, think); i >= 0 {
		return gradeMath(response[i+len(think):], label)
	}
	if _, after, ok := strings.Cut(response, marker); ok {
		after, _, _ = strings.Cut(after, marker) // the text up to a second marker
		return gradeMath(after, label)
	}
	return Result{Reason: "no " + think + " in the response"}
}

func checkMathLabel(label string) error {
	want, err := mathLabel(label)
	if err != nil {
		return err
	}
	if strings.TrimSpace(want) == "" {
		return fmt.Errorf("%s: it is empty", BadGold)
	}
	return nil
}

// mathLabel reduces a label to its box, if it has one.
func mathLabel(label string) (string, error) {
	if len(label) > maxMathAnswer {
		return "", errors.New(BadGold + ": it is longer than 20000 bytes")
	}
	if !strings.Contains(label, `\boxed`) {
		return label, nil
	}
	content, _, closed := lastBox(label)
	if !closed {
		return "", errors.New(BadGold + `: its \boxed{ is not closed`)
	}
	return content, nil
}

func gradeMath(response, label string) Result {
	if label == "" {
		return Result{Reason: BadGold + ": it is empty"}
	}
	answer, found, closed := lastBox(response)
	if !found {
		return Result{Reason: NoBox}
	}
	if !closed {
		return Result{Reason: UnfinishedBox}
	}
	want, err := mathLabel(label)
	if err != nil {
		return Result{Extracted: answer, Reason: err.Error()}
	}
	if len(answer) > maxMathAnswer {
		return Result{Extracted: answer, Reason: DifferentValue}
	}
	r := Result{Extracted: answer, Given: mathdNormal(answer), Want: mathdNormal(want)}
	if r.Given == r.Want {
		r.Score, r.Rule = 1, "mathd"
		return r
	}
	r.Given, r.Want = sympyNormal(answer), sympyNormal(want)
	r.Rule = "sympy"
	var ok bool
	if ok, r.Reason = sympyEqual(r.Want, r.Given); ok {
		r.Score = 1
	}
	return r
}
