package reward

import (
	"errors"
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The dapo graders look at the end of the response only, counted in characters.
const (
	dapoWindow   = 300
	strictWindow = 100
)

// dapo is the published rule of that name: the last `Answer:` line of the last 300
// characters, normalised as a string, must be the label normalised and cut to an integer.
type dapo struct{}

func (dapo) Name() string { return "dapo" }

func (dapo) Check(label string) error {
	_, err := dapoLabel(label)
	return err
}

var dapoAnswer = regexp.MustCompile(`(?i)Answer[\s\x1c-\x1f\x85\xa0\p{Z}]*:[\s\x1c-\x1f\x85\xa0\p{Z}]*([^\n]+)`)

func (dapo) Grade(response, label string) Result {
	r := Result{Score: -1, Rule: "text"}
	tail := lastRunes(response, dapoWindow)
	if m := dapoAnswer.FindAllStringSubmatch(tail, -1); m != nil {
		r.Extracted = m[len(m)-1][1]
	} else {
		r.Reason = "no answer line"
	}
	r.Given = dapoNormal(r.Extracted)
	want, err := dapoLabel(label)
	if err != nil {
		r.Reason = err.Error()
		return r
	}
	r.Want = want
	switch {
	case r.Reason != "":
	case r.Given == r.Want:
		r.Score = 1
	default:
		r.Reason = DifferentValue
	}
	return r
}

// dapoLabel is the label as the published grader reads it: as a float, cut to an integer.
func dapoLabel(label string) (string, error) {
	if len(label) > maxMathAnswer {
		return "", errors.New(BadGold + ": it is longer than 20000 bytes")
	}
	s := dapoNormal(label)
	v, ok := pyFloat(s)
	if !ok || math.IsInf(v, 0) {
		return "", fmt.Errorf("%s: dapo reads numbers only, and %q is none", BadGold, clip(label))
	}
	n, _ := big.NewFloat(v).Int(nil)
	return n.String(), nil
}

// clip shortens a label for a message.
func clip(s string) string {
	const most = 60
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most]) + "..."
}

// lastRunes is the end of s, n characters long.
func lastRunes(s string, n int) string {
	i := len(s)
	for ; n > 0 && i > 0; n-- {
		_, size := utf8.DecodeLastRuneInString(s[:i])
		i -= size
	}
	return s[i:]
}

// dapoRewrites and dapoDeletions are applied one after the other, in this order.
var (
	dapoRewrites = []string{
		"an ", "", "a ", "", ".$", "$", `\$`, "", `\ `, "", " ", "", "mbox", "text",
		`,\text{and}`, ",", `\text{and}`, ",", `\text{m}`, `\text{}`,
	}
	dapoDeletions = []string{
		"square", "ways", "integers", "dollars", "mph", "inches", "hours", "km", "units", `\ldots`, "sue", "points",
		"feet", "minutes", "digits", "cents", "degrees", "cm", "gm", "pounds", "meters", "meals", "edges", "students",
		"childrentickets", "multiples", `\text{s}`, `\text{.}`, "\\text{\ns}", `\text{}^2`, `\text{}^3`, "\\text{\n}",
		`\text{}`, `\mathrm{th}`, `^\circ`, `^{\circ}`, `\;`, `,\!`, "{,}", `"`, `\dots`, "<|im_end|>", "<|endoftext|>",
	}
	dapoDollars  = regexp.MustCompile(`(.*?)\$(.*?)\$(.*)`)
	dapoText     = regexp.MustCompile(`\\text\{(.*?)\}`)
	dapoBold     = regexp.MustCompile(`\\textbf\{(.*?)\}`)
	dapoOverline = regexp.MustCompile(`\\overline\{(.*?)\}`)
	dapoBox      = regexp.MustCompile(`\\boxed\{(.*)\}`)
	dapoFrac     = regexp.MustCompile(`frac([^{])(.)`)
	dapoSqrt     = regexp.MustCompile(`sqrt([^{])`)
)

func dapoNormal(s string) string {
	s = s[strings.LastIndexByte(s, '=')+1:]
	for i := 0; i < len(dapoRewrites); i += 2 {
		s = strings.ReplaceAll(s, dapoRewrites[i], dapoRewrites[i+1])
	}
	for _, d := range dapoDeletions {
		s = strings.ReplaceAll(s, d, "")
	}
	s = dapoDollars.ReplaceAllString(s, "$$${2}$$")
	s = dapoText.ReplaceAllString(s, "$1")
	s = dapoBold.ReplaceAllString(s, "$1")
	s = dapoOverline.ReplaceAllString(s, "$1")
	s = dapoBox.ReplaceAllString(s, "$1")
	s = dapoFrac.ReplaceAllString(s, "frac{$1}{$2}")
	s = dapoSqrt.ReplaceAllString(s, "sqrt{$1}")
	s = strings.ReplaceAll(s, "$", "")
	if digits := strings.ReplaceAll(s, ",", ""); allDigits(digits) {
		s = digits
	}
	return pyStrip(s)
}

func allDigits(s string) bool {
	for _, r := range s {
		if !unicode.IsDigit(r) {
			return false
		}
	}
	return s != ""
}

// dapoStrict is the box variant: the last box within the last 100 characters must be
// the label, character for character.
type dapoStrict struct{}

func (dapoStrict) Name() string { return "dapo-strict" }

func (dapoStrict) Check(label string) error {
	if label == "" {
		return fmt.Errorf("%s: it is empty", BadGold)
	}
	return nil
}

func (dapoStrict) Grade(response, label string) Result {
	r := Result{Score: -1, Want: label, Rule: "text"}
	tail := lastRunes(response, strictWindow)
	i := strings.LastIndex(tail, `\boxed{`)
	if i < 0 {
		r.Reason = NoBox
		if strings.Contains(response, `\boxed{`) {
			r.Reason = "no box in the last " + strconv.Itoa(strictWindow) + " characters"
		}
		return r
	}
	answer, closed := closeBrace(tail[i+len(`\boxed`):])
	if !closed {
		r.Reason = UnfinishedBox
		return r
	}
	r.Extracted, r.Given = answer, answer
	if answer == label {
		r.Score = 1
	} else {
		r.Reason = DifferentValue
	}
	return r
}
