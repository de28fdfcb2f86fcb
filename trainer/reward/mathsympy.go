package reward

import (
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// maxMathAnswer bounds, in bytes, what the published graders normalise. A longer answer
// is wrong, a longer label unreadable.
const maxMathAnswer = 20_000

var (
	circMark    = regexp.MustCompile(`\^ *\\circ`)
	thinComma   = regexp.MustCompile(`,\\! *`)
	minusSpaces = regexp.MustCompile(`- *`)
	mixedGap    = regexp.MustCompile(`([0-9]) +([0-9])`)
	groupComma  = regexp.MustCompile(`(\p{Nd}),(\p{Nd}{3})($|\P{Nd})`)
	plainFrac   = regexp.MustCompile(`^-?[0-9]+.?/0*[1-9][0-9]*.?$`)
	powerTower  = regexp.MustCompile(`\^[0-9]+\^`)
	longPower   = regexp.MustCompile(`\^[0-9][0-9]+`)
)

// sympyWords are replaced one after the other: a later word may arise from an earlier one.
var sympyWords = []string{
	`\%`, "%", `\$`, "$", "$", "", "%", "", " or ", " , ", " and ", " , ",
	"million", "*10^6", "billion", "*10^9", "trillion", "*10^12",
}

// sympyUnits are deleted one after the other, wherever they stand in a word.
var sympyUnits = unitPatterns("degree", "cm", "centimeter", "meter", "mile", "second", "minute", "hour",
	"day", "week", "month", "year", "foot", "feet", "inch", "yard")

type unitPattern struct {
	word    string
	pattern *regexp.Regexp
}

func unitPatterns(words ...string) []unitPattern {
	out := make([]unitPattern, len(words))
	for i, w := range words {
		out[i] = unitPattern{w, regexp.MustCompile(w + `(es)?(s)? *(\^[0-9]+)?`)}
	}
	return out
}

// sympyNormal is the normalisation before the algebraic comparison.
func sympyNormal(s string) string {
	if inner, ok := unwrapText(s); ok {
		s = inner
	}
	for i := 0; i < len(sympyWords); i += 2 {
		s = strings.ReplaceAll(s, sympyWords[i], sympyWords[i+1])
	}
	s = deleteUnits(s)
	s = circMark.ReplaceAllString(s, "")
	if len(s) > 0 && s[0] == '{' && s[len(s)-1] == '}' {
		s = s[1:max(len(s)-1, 1)]
	}
	s = thinComma.ReplaceAllString(s, "")
	if v, ok := pyFloat(s); ok && nearInt(v) {
		s = roundInt(v)
	}
	if strings.Contains(s, `\`) {
		if text, ok := latexText(s); ok {
			s = text
		}
	}
	s = minusSpaces.ReplaceAllString(s, "-")
	s = mixedGap.ReplaceAllString(s, "$1+$2")
	s = strings.Map(func(r rune) rune {
		if r == ' ' || r == '{' || r == '}' {
			return -1
		}
		return r
	}, s)
	s = strings.ToLower(s)
	if isIntText(s) {
		v, _ := pyFloat(strings.ReplaceAll(s, ",", ""))
		n, _ := big.NewFloat(v).Int(nil) // truncation, not rounding
		s = n.String()
	}
	return s
}

func deleteUnits(s string) string {
	for _, u := range sympyUnits {
		if strings.Contains(s, u.word) {
			s = u.pattern.ReplaceAllString(s, "")
		}
	}
	return s
}

func nearInt(v float64) bool { return math.Abs(v-math.RoundToEven(v)) <= 1e-7 }

// roundInt writes a float that is nearly an integer as one, all digits of it.
func roundInt(v float64) string {
	n, _ := big.NewFloat(math.RoundToEven(v)).Int(nil)
	return n.String()
}

// stripGroups drops the commas between groups of three digits, pass by pass; of four
// groups in a row the middle comma survives, as it does in the published grader.
func stripGroups(s string) string {
	for {
		next := groupComma.ReplaceAllString(s, "$1$2$3")
		if next == s {
			return s
		}
		s = next
	}
}

func isIntText(s string) bool {
	v, ok := pyFloat(stripGroups(s))
	return ok && nearInt(v)
}

const tupleChars = "()[]"

// splitTuple splits (a,b] at its commas where no other bracket is inside.
func splitTuple(s string) []string {
	s = stripGroups(s)
	if s == "" {
		return nil
	}
	if len(s) > 2 && strings.IndexByte(tupleChars, s[0]) >= 0 && strings.IndexByte(tupleChars, s[len(s)-1]) >= 0 &&
		!strings.ContainsAny(s[1:len(s)-1], tupleChars) {
		parts := strings.Split(s[1:len(s)-1], ",")
		for i := range parts {
			parts[i] = pyStrip(parts[i])
		}
		return parts
	}
	return []string{s}
}

// sympyEqual compares two normalised answers element by element.
func sympyEqual(want, given string) (bool, string) {
	if want == given {
		return true, ""
	}
	if given == "" {
		return false, EmptyAnswer
	}
	wants, gives := splitTuple(want), splitTuple(given)
	if len(wants) > 1 && (want[0] != given[0] || want[len(want)-1] != given[len(given)-1]) || len(wants) != len(gives) {
		return false, DifferentValue
	}
	steps := newMathBudget()
	for i := range wants {
		if ok, reason := elementEqual(wants[i], gives[i], steps); !ok {
			return false, reason
		}
	}
	return len(wants) > 0, ""
}

// allowed reports whether the published grader would try algebra on s.
func allowed(s string) bool {
	letters := make(map[rune]bool)
	for _, r := range strings.NewReplacer("sqrt", "", "frac", "").Replace(s) {
		if unicode.IsLetter(r) {
			letters[r] = true
		}
	}
	return len(letters) <= 2 && !strings.Contains(s, "^{") && !strings.Contains(s, "^(") &&
		!powerTower.MatchString(s) && !longPower.MatchString(s)
}

// isPySpace is Python's str.isspace for one character.
func isPySpace(r rune) bool {
	return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f
}

var pyFloatForm = regexp.MustCompile(`^[+-]?(\p{Nd}+(_\p{Nd}+)*\.?(\p{Nd}+(_\p{Nd}+)*)?|\.\p{Nd}+(_\p{Nd}+)*)([eE][+-]?\p{Nd}+(_\p{Nd}+)*)?$`)

// pyFloat is Python's float(s) for finite numbers; infinities and NaN are never
// integers there and so are not numbers here.
func pyFloat(s string) (float64, bool) {
	s = pyStrip(s)
	if s == "" || !pyFloatForm.MatchString(s) {
		return 0, false
	}
	v, err := strconv.ParseFloat(strings.ReplaceAll(s, "_", ""), 64)
	return v, err == nil
}
