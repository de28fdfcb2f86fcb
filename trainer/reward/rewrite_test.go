package reward_test

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

// A rewriting changes how an answer is written. keeps says that a mathematician would
// take the result for the same answer, whatever the answer was.
type rewriting struct {
	name  string
	keeps bool
	apply func(string) string
}

var (
	texFraction  = regexp.MustCompile(`\\frac\{(\d+)\}\{(\d+)\}`)
	mixedText    = regexp.MustCompile(`(\d)\\frac`)
	digitRun     = regexp.MustCompile(`^\d{4,}$`)
	wholeNumber  = regexp.MustCompile(`^-?\d+$`)
	decimalText  = regexp.MustCompile(`^-?\d*\.\d+$`)
	shortNumbers = regexp.MustCompile(`\\frac\{(\d)\}\{(\d)\}`)
	operators    = regexp.MustCompile(`\s*([+=,<>])\s*`)
)

var rewritings = []rewriting{
	{"itself", true, func(s string) string { return s }},
	{"dfrac", true, func(s string) string { return strings.ReplaceAll(s, `\frac`, `\dfrac`) }},
	{"tfrac", true, func(s string) string { return strings.ReplaceAll(s, `\frac`, `\tfrac`) }},
	{"slash", true, func(s string) string {
		return texFraction.ReplaceAllString(mixedText.ReplaceAllString(s, `$1 \frac`), "$1/$2")
	}},
	{"short fraction", true, func(s string) string { return shortNumbers.ReplaceAllString(s, `\frac$1$2`) }},
	{"doubled fraction", true, doubledFraction},
	{"spaced", true, func(s string) string { return operators.ReplaceAllString(s, " $1 ") }},
	{"outer spaces", true, func(s string) string { return "  " + s + " " }},
	{"sized brackets", true, sizedBrackets},
	{"in text", true, func(s string) string { return `\text{` + s + "}" }},
	{"in math", true, func(s string) string { return "$" + s + "$" }},
	{"in braces", true, func(s string) string { return "{" + s + "}" }},
	{"unit", false, func(s string) string { return s + `\text{ cm}` }},
	{"squared unit", false, func(s string) string { return s + `\mbox{ inches}^2` }},
	{"percent", false, func(s string) string { return s + `\%` }},
	{"degrees", false, func(s string) string { return s + `^\circ` }},
	{"dollars", false, func(s string) string { return `\$` + s }},
	{"commas", true, func(s string) string { return grouped(s, ",") }},
	{"braced commas", true, func(s string) string { return grouped(s, "{,}") }},
	{"thin commas", true, func(s string) string { return grouped(s, `,\!`) }},
	{"mixed number", true, mixedNumber},
	{"decimal point", true, decimalPoint},
	{"decimal", false, func(s string) string { return decimalOf(s) }},
	{"x equals", false, func(s string) string { return "x = " + s }},
	{"set", false, func(s string) string { return `\{` + s + `\}` }},
	{"tuple", false, func(s string) string { return "(" + s + ")" }},
	{"closed interval", false, func(s string) string { return strings.NewReplacer("(", "[", ")", "]").Replace(s) }},
	{"full stop", true, func(s string) string { return s + "." }},
	{"one more", false, oneMore},
	{"negated", false, func(s string) string { return "-" + s }},
}

// doubledFraction writes \frac{1}{2} as \frac{2}{4}.
func doubledFraction(s string) string {
	return texFraction.ReplaceAllStringFunc(s, func(f string) string {
		m := texFraction.FindStringSubmatch(f)
		a, _ := new(big.Int).SetString(m[1], 10)
		b, _ := new(big.Int).SetString(m[2], 10)
		return fmt.Sprintf(`\frac{%s}{%s}`, a.Lsh(a, 1), b.Lsh(b, 1))
	})
}

// sizedBrackets puts \left and \right before brackets that open and close the answer.
func sizedBrackets(s string) string {
	if len(s) < 2 || !strings.ContainsRune("([", rune(s[0])) || !strings.ContainsRune(")]", rune(s[len(s)-1])) ||
		strings.ContainsAny(s[1:len(s)-1], "()[]") {
		return s
	}
	return `\left` + s[:len(s)-1] + `\right` + s[len(s)-1:]
}

func grouped(s, sep string) string {
	if !digitRun.MatchString(s) {
		return s
	}
	var out []string
	for len(s) > 3 {
		out = append([]string{s[len(s)-3:]}, out...)
		s = s[:len(s)-3]
	}
	return strings.Join(append([]string{s}, out...), sep)
}

// mixedNumber writes an improper positive fraction that is the whole answer as a mixed number.
func mixedNumber(s string) string {
	m := texFraction.FindStringSubmatch(s)
	if m == nil || m[0] != s {
		return s
	}
	a, _ := new(big.Int).SetString(m[1], 10)
	b, _ := new(big.Int).SetString(m[2], 10)
	if b.Sign() == 0 || a.Cmp(b) <= 0 {
		return s
	}
	q, r := new(big.Int).QuoRem(a, b, new(big.Int))
	return fmt.Sprintf(`%s\frac{%s}{%s}`, q, r, b)
}

func decimalPoint(s string) string {
	switch {
	case wholeNumber.MatchString(s):
		return s + ".0"
	case decimalText.MatchString(s):
		return s + "0"
	}
	return s
}

// decimalOf writes a fraction that is the whole answer with six decimals.
func decimalOf(s string) string {
	m := texFraction.FindStringSubmatch(s)
	if m == nil || m[0] != s {
		return s
	}
	r, ok := new(big.Rat).SetString(m[1] + "/" + m[2])
	if !ok {
		return s
	}
	return r.FloatString(6)
}

func oneMore(s string) string {
	if n, ok := new(big.Int).SetString(s, 10); ok {
		return n.Add(n, big.NewInt(1)).String()
	}
	return s + "+1"
}
