package answer

import (
	"errors"
	"strings"
	"unicode/utf8"

	"tandem/trainer/reward/algebra"
)

// Limits on what is read. An answer beyond them is unreadable, in the same way on
// every machine.
const (
	MaxLength = 20_000 // bytes
	maxDepth  = 120    // of nested brackets, fractions, exponents
	maxItems  = 300    // of a list, a matrix or a union
	maxMarks  = 20     // factorials or primes behind one operand
)

var (
	errLength = errors.New("it is longer than 20000 bytes")
	errDepth  = errors.New("it is nested more than 120 deep")
	errItems  = errors.New("it has more than 300 parts")
	errMarks  = errors.New("it has more than 20 marks on one operand")
	errEmpty  = errors.New("it is empty")
	errEnd    = errors.New("it ends too early")
)

// A parser reads one answer. Values that are not expressions but stand where one may
// (a tuple, a matrix) are kept in parts, with a variable of a reserved name as their
// place in the expression around them.
type parser struct {
	src    string
	pos    int
	depth  int
	parts  []Value
	inBars int  // open absolute values: a bar closes one
	inTrig bool // a degree mark converts
	bare   bool // the next list is not in brackets: 1,250 is a number
	unit   unit // the last unit read
	joined bool // an "and" was read with the last unit
	err    error
}

// fail keeps the first error.
func (p *parser) fail(err error) *algebra.Expr {
	if p.err == nil {
		p.err = err
	}
	return algebra.Int(0)
}

func (p *parser) unexpected() *algebra.Expr {
	p.space()
	if p.pos >= len(p.src) {
		return p.fail(errEnd)
	}
	rest := p.src[p.pos:]
	n := 0
	for i := range rest {
		if n++; n > 12 {
			rest = rest[:i] + "..."
			break
		}
	}
	return p.fail(errors.New("unexpected " + strings.ToValidUTF8(rest, "?")))
}

// enter counts a level of nesting; leave it with p.depth--.
func (p *parser) enter() bool {
	if p.depth++; p.depth > maxDepth {
		p.fail(errDepth)
	}
	return p.err == nil
}

// gaps are the ways to write a space.
var gaps = []string{`\,`, `\;`, `\:`, `\!`, `\ `, `\>`, `\quad`, `\qquad`, `\thinspace`, `\displaystyle`, `\textstyle`, `\limits`,
	`\left.`, `\right.`, `\bigl`, `\bigr`, `\Bigl`, `\Bigr`, `\biggl`, `\biggr`, `\Big`, `\bigg`, `\Bigg`, `\big`, `\nolimits`, `\therefore`, `\hfill`, `\middle`}

// space skips white space and commands that only set it, and the size of brackets.
func (p *parser) space() {
	for p.pos < len(p.src) {
		switch c := p.src[p.pos]; {
		case c == ' ' || c == '\n' || c == '\t' || c == '\r' || c == '~' || c == '$':
			p.pos++
		case c == '\\' && p.skipGap():
		default:
			return
		}
	}
}

func (p *parser) skipGap() bool {
	rest := p.src[p.pos:]
	for _, size := range [...]string{`\left`, `\right`} {
		if after, ok := strings.CutPrefix(rest, size); ok && (after == "" || !isLetter(after[0])) {
			p.pos += len(size)
			p.pos += len(after) - len(strings.TrimPrefix(after, "."))
			return true
		}
	}
	for _, g := range gaps {
		if after, ok := strings.CutPrefix(rest, g); ok && (!isLetter(g[1]) || after == "" || !isLetter(after[0])) {
			p.pos += len(g)
			return true
		}
	}
	return false
}

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }

// peek is the next byte after space, 0 at the end.
func (p *parser) peek() byte {
	p.space()
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

// at reports whether text stands next, after space; a command must end where text does.
func (p *parser) at(text string) bool {
	p.space()
	after, ok := strings.CutPrefix(p.src[p.pos:], text)
	if !ok {
		return false
	}
	command := len(text) > 1 && text[0] == '\\' && isLetter(text[len(text)-1])
	return !command || after == "" || !isLetter(after[0])
}

func (p *parser) accept(text string) bool {
	if !p.at(text) {
		return false
	}
	p.pos += len(text)
	return true
}

// acceptAny accepts the first of the texts that stands next and returns it.
func (p *parser) acceptAny(texts ...string) (string, bool) {
	for _, t := range texts {
		if p.accept(t) {
			return t, true
		}
	}
	return "", false
}

// command returns the letters of the command that stands next, without reading them.
func (p *parser) command() string {
	if p.peek() != '\\' {
		return ""
	}
	return leadingWord(p.src[p.pos+1:])
}

// word returns the ASCII letters that stand next, without reading them.
func (p *parser) word() string {
	p.space()
	return leadingWord(p.src[p.pos:])
}

func leadingWord(s string) string {
	i := 0
	for i < len(s) && isLetter(s[i]) {
		i++
	}
	return s[:i]
}

// rawGroup reads {...} and returns what is inside, unread.
func (p *parser) rawGroup() (string, bool) {
	if p.peek() != '{' {
		return "", false
	}
	depth := 0
	for i := p.pos; i < len(p.src); i++ {
		switch p.src[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				inner := p.src[p.pos+1 : i]
				p.pos = i + 1
				return inner, true
			}
		}
	}
	return "", false
}

// unicodeForms spell characters as the commands that the parser knows.
var unicodeForms = strings.NewReplacer(
	"−", "-", "–", "-", "—", "-", "×", `\times `, "·", `\cdot `, "⋅", `\cdot `, "∗", "*", "÷", "/", "∕", "/", "⁄", "/",
	"π", `\pi `, "∞", `\infty `, "√", `\sqrt `, "≤", `\le `, "≥", `\ge `, "⩽", `\le `, "⩾", `\ge `, "≠", `\ne `, "≈", `\approx `,
	"°", `^\circ `, "º", `^\circ `, "∪", `\cup `, "∩", `\cap `, "∈", `\in `, "∅", `\emptyset `, "±", `\pm `, "∓", `\mp `,
	"²", "^2 ", "³", "^3 ", "½", `\frac12 `, "¼", `\frac14 `, "¾", `\frac34 `, "⅓", `\frac13 `, "⅔", `\frac23 `,
	"α", `\alpha `, "β", `\beta `, "γ", `\gamma `, "θ", `\theta `, "φ", `\phi `, "λ", `\lambda `, "μ", `\mu `, "ω", `\omega `,
	"\u00a0", " ", "\u2009", " ", "\u202f", " ", "’", "'", "′", "'", "“", `"`, "”", `"`, "∖", `\setminus `, "ℝ", `\mathbb{R}`, "ℤ", `\mathbb{Z}`,
	"⌊", `\lfloor `, "⌋", `\rfloor `, "⌈", `\lceil `, "⌉", `\rceil `, "∠", `\angle `, "△", `\triangle `, "…", `\ldots `, "％", "%", "，", ",", "：", ":")

// clean prepares a text for reading: Unicode spelled out, the delimiters of formulas
// and a full stop at the end dropped. It returns the text that Given and the
// comparison of identical answers are about.
func clean(s string) string {
	if !ascii(s) {
		s = unicodeForms.Replace(strings.ToValidUTF8(s, "\ufffd"))
	}
	s = strings.ReplaceAll(s, "{:}", ":")
	for _, d := range [...]string{`\(`, `\)`, `\[`, `\]`} {
		if strings.Contains(s, d) {
			s = dropDelimiter(s, d)
		}
	}
	s = strings.TrimLeft(s, " \n\t\r$")
	for {
		t := trimEnd(s)
		if t == s {
			return s
		}
		s = t
	}
}

// trimEnd takes one thing off the end that does not belong to an answer: space, a
// dollar sign, or a full stop, unless a backslash or a bracket size claims it.
func trimEnd(s string) string {
	t := strings.TrimRight(s, " \n\t\r")
	if strings.HasSuffix(t, `\`) {
		return s // an escaped space
	}
	for _, end := range [...]string{"$", "."} {
		if u, ok := strings.CutSuffix(t, end); ok && !strings.HasSuffix(u, `\`) && !strings.HasSuffix(u, `\left`) &&
			!strings.HasSuffix(u, `\right`) && !(end == "." && strings.HasSuffix(u, ".")) {
			return u
		}
	}
	return t
}

func ascii(s string) bool {
	for i := range len(s) {
		if s[i] >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// dropDelimiter removes a delimiter of a formula, but not the end of a row of a
// matrix that a bracket follows.
func dropDelimiter(s, d string) string {
	var out strings.Builder
	for {
		i := strings.Index(s, d)
		if i < 0 {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:i])
		if strings.HasSuffix(s[:i], `\`) {
			out.WriteString(d)
		}
		s = s[i+len(d):]
	}
}
