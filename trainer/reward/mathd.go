package reward

import (
	"strings"
	"unicode/utf8"
)

// mathdNormal is the string normalisation that came with the MATH data set, as the
// published grader applies it. Where one of its steps fails on an odd string, the
// string is taken as it is.
func mathdNormal(s string) string {
	s = pyStrip(s)
	if inner, ok := unwrapText(s); ok {
		s = pyStrip(inner)
	}
	if out, ok := mathdSteps(s); ok {
		return out
	}
	return s
}

// unwrapText takes the \text{...} off a string that begins and ends as one, even when
// it is two of them; there must be no line break in it.
func unwrapText(s string) (string, bool) {
	const open = `\text{`
	body := strings.TrimSuffix(s, "\n")
	if !strings.HasPrefix(body, open) || !strings.HasSuffix(body, "}") || len(body) < len(open)+2 {
		return "", false
	}
	inner := body[len(open) : len(body)-1]
	return inner, !strings.Contains(inner, "\n")
}

var mathdDeletions = []string{`\left`, `\right`, `^{\circ}`, `^\circ`, `\$`}

func mathdSteps(s string) (string, bool) {
	s = strings.ReplaceAll(s, "\n", "")
	s = strings.ReplaceAll(s, `\!`, "")
	s = strings.ReplaceAll(s, `\\`, `\`)
	s = strings.ReplaceAll(s, "tfrac", "frac")
	s = strings.ReplaceAll(s, "dfrac", "frac")
	for _, d := range mathdDeletions {
		s = strings.ReplaceAll(s, d, "")
	}
	const unit = `\text{ `
	if before, after, ok := strings.Cut(s, unit); ok {
		if strings.Contains(after, unit) {
			return "", false
		}
		s = before
	}
	s = strings.ReplaceAll(s, `\%`, "")
	s = strings.ReplaceAll(s, " .", " 0.")
	s = strings.ReplaceAll(s, "{.", "{0.")
	if s == "" {
		return s, true
	}
	if s[0] == '.' {
		s = "0" + s
	}
	if left, right, ok := strings.Cut(s, "="); ok && !strings.Contains(right, "=") && utf8.RuneCountInString(left) <= 2 {
		s = right
	}
	s, ok := braceRoots(s)
	if !ok {
		return "", false
	}
	s = strings.ReplaceAll(s, " ", "")
	s, ok = braceFractions(s)
	if !ok {
		return "", false
	}
	if s == "0.5" {
		s = `\frac{1}{2}`
	}
	return slashToFraction(s), true
}

// braceRoots turns \sqrt3 into \sqrt{3}; a \sqrt at the end is a failure.
func braceRoots(s string) (string, bool) {
	parts := strings.Split(s, `\sqrt`)
	var out strings.Builder
	out.WriteString(parts[0])
	for _, p := range parts[1:] {
		if p == "" {
			return "", false
		}
		out.WriteString(`\sqrt`)
		if p[0] == '{' {
			out.WriteString(p)
			continue
		}
		n := firstRune(p)
		out.WriteString("{" + p[:n] + "}" + p[n:])
	}
	return out.String(), true
}

// braceFractions turns \frac12 into \frac{1}{2} and \frac1{72} into \frac{1}{72}. A
// \frac with one character after it leaves the whole string alone, one with none is
// a failure.
func braceFractions(s string) (string, bool) {
	parts := strings.Split(s, `\frac`)
	var out strings.Builder
	out.WriteString(parts[0])
	for _, p := range parts[1:] {
		if p == "" {
			return "", false
		}
		out.WriteString(`\frac`)
		if p[0] == '{' {
			out.WriteString(p)
			continue
		}
		n := firstRune(p)
		if n == len(p) {
			return s, true
		}
		a, rest := p[:n], p[n:]
		if rest[0] == '{' {
			out.WriteString("{" + a + "}" + rest)
			continue
		}
		n = firstRune(rest)
		out.WriteString("{" + a + "}{" + rest[:n] + "}" + rest[n:])
	}
	return out.String(), true
}

// slashToFraction turns a/b of two plain integers into \frac{a}{b}.
func slashToFraction(s string) string {
	a, b, ok := strings.Cut(s, "/")
	if !ok || !canonicalInt(a) || !canonicalInt(b) {
		return s
	}
	return `\frac{` + a + "}{" + b + "}"
}

// canonicalInt reports whether s is how an integer prints: no plus, no leading zero.
func canonicalInt(s string) bool {
	digits := strings.TrimPrefix(s, "-")
	if digits == "" || len(digits) > 4300 || digits[0] == '0' && (len(digits) > 1 || s != digits) {
		return false
	}
	return strings.Trim(digits, "0123456789") == ""
}

func firstRune(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}

// pyStrip removes leading and trailing white space, Python's idea of it.
func pyStrip(s string) string {
	return strings.TrimFunc(s, isPySpace)
}
