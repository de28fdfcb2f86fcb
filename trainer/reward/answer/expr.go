package answer

import (
	"errors"
	"math/big"
	"strings"

	"tandem/trainer/reward/algebra"
)

var errTwoNumbers = errors.New("two numbers stand side by side")

// sum reads terms joined by +, -, ± and ∓.
func (p *parser) sum() *algebra.Expr {
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	var terms []*algebra.Expr
	sign, _ := p.acceptAny("+", "-", `\pm`, `\mp`)
	for p.err == nil {
		t := p.product()
		switch sign {
		case "-":
			t = algebra.Negate(t)
		case `\pm`:
			t = algebra.Apply("pm", t)
		case `\mp`:
			t = algebra.Apply("mp", t)
		}
		terms = append(terms, t)
		if len(terms) > MaxLength/4 {
			return p.fail(errItems)
		}
		next, ok := p.acceptAny("+", "-", `\pm`, `\mp`)
		if !ok {
			break
		}
		sign = next
	}
	if len(terms) == 1 {
		return terms[0]
	}
	return algebra.Sum(terms...)
}

// product reads factors joined by ·, × and ÷, or by nothing; all of them bind alike,
// so 1/2x is x/2.
func (p *parser) product() *algebra.Expr {
	factors := []*algebra.Expr{p.signed()}
	for p.err == nil {
		if _, ok := p.acceptAny("*", `\cdot`, `\times`, `\ast`, `\cdotp`); ok {
			factors = append(factors, p.signed())
			continue
		}
		if _, ok := p.acceptAny("/", `\div`); ok {
			factors = append(factors, algebra.Power(p.signed(), algebra.Int(-1)))
			continue
		}
		if _, ok := p.acceptAny(`\%`, "%"); ok { // the sign is dropped, not a factor of 1/100
			continue
		}
		if p.label() {
			if isDigit(p.peek()) {
				break // 3 hours 20 minutes
			}
			continue
		}
		if !p.operand() {
			break
		}
		if isDigit(p.src[p.pos]) && p.lastByte() >= 0 && (isDigit(p.src[p.lastByte()]) || p.src[p.lastByte()] == '%') {
			return p.fail(errTwoNumbers)
		}
		factors = append(factors, p.power())
	}
	if len(factors) == 1 {
		return factors[0]
	}
	return algebra.Product(factors...)
}

// lastByte is where the last byte before the space before pos is.
func (p *parser) lastByte() int {
	i := p.pos - 1
	for i >= 0 && (p.src[i] == ' ' || p.src[i] == '$') {
		i--
	}
	return i
}

// signed reads a factor that may carry a sign, as after a multiplication dot.
func (p *parser) signed() *algebra.Expr {
	negative := false
	for {
		s, ok := p.acceptAny("-", "+")
		if !ok {
			break
		}
		negative = negative != (s == "-")
	}
	e := p.power()
	if negative {
		return algebra.Negate(e)
	}
	return e
}

// power reads an operand with its factorials, exponents, degree marks and primes.
func (p *parser) power() *algebra.Expr {
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	e := p.operandValue()
	for marks := 0; p.err == nil; marks++ {
		if marks > maxMarks {
			return p.fail(errMarks)
		}
		switch {
		case p.at("!") && !p.at("!="):
			p.pos++
			e = algebra.Apply("factorial", e)
		case p.accept("^") || p.accept("**"):
			e = p.exponent(e)
		case p.degreeMark():
			e = p.degrees(e)
		default:
			return e
		}
	}
	return e
}

func (p *parser) degreeMark() bool {
	_, ok := p.acceptAny(`\degree`, `\circ`, `\textdegree`)
	return ok
}

// degrees converts an angle inside a trigonometric function and drops the mark elsewhere.
func (p *parser) degrees(e *algebra.Expr) *algebra.Expr {
	if !p.inTrig {
		return e
	}
	return algebra.Product(e, algebra.Const(algebra.Pi), algebra.Rat(big.NewRat(1, 180)))
}

// exponent reads what follows ^.
func (p *parser) exponent(base *algebra.Expr) *algebra.Expr {
	if p.peek() == '{' {
		start := p.pos
		inner, ok := p.rawGroup()
		if !ok {
			return p.fail(errors.New("a { is not closed"))
		}
		switch strings.TrimSpace(inner) {
		case `\circ`, `\degree`, `^\circ`, "o", `\text{o}`, `\mathrm{o}`:
			return p.degrees(base)
		case `\prime`, `\prime\prime`, "'":
			return algebra.Apply("prime", base)
		case `\text{th}`, `\text{st}`, `\text{nd}`, `\text{rd}`, `\mathrm{th}`, "th":
			return base
		case `\text{ft}`, "":
			return base
		}
		p.pos = start
		return algebra.Power(base, p.braced())
	}
	if p.degreeMark() {
		return p.degrees(base)
	}
	if p.ordinal() {
		return base
	}
	if p.accept(`\prime`) {
		return algebra.Apply("prime", base)
	}
	if isDigitAt(p.src, p.pos) {
		e, _, _ := p.number()
		return algebra.Power(base, e)
	}
	if p.accept("-") { // x^-1, and 2^-x of plain text
		return algebra.Power(base, algebra.Negate(p.power()))
	}
	return algebra.Power(base, p.power())
}

// ordinal reads the \text{th} of 5^\text{th}.
func (p *parser) ordinal() bool {
	start := p.pos
	if inner, ok := p.textGroup(); ok {
		switch strings.TrimSpace(inner) {
		case "st", "nd", "rd", "th":
			return true
		}
	}
	p.pos = start
	return false
}

// braced reads {sum}.
func (p *parser) braced() *algebra.Expr {
	if !p.accept("{") {
		return p.unexpected()
	}
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	bars := p.inBars
	p.inBars = 0
	e := p.sum()
	if _, ok := p.acceptAny(`\choose`); ok {
		e = algebra.Apply("binomial", e, p.sum())
	} else if p.accept(`\over`) {
		e = algebra.Quotient(e, p.sum())
	}
	p.inBars = bars
	if !p.accept("}") {
		return p.unexpected()
	}
	return e
}

// argument reads a command's argument: a group, one digit, or an operand.
func (p *parser) argument() *algebra.Expr {
	switch c := p.peek(); {
	case c == '{':
		return p.braced()
	case isDigit(c):
		p.pos++
		return algebra.Int(int64(c - '0'))
	case isLetter(c):
		p.pos++
		return letter(string(c))
	case c == '\\':
		return p.operandValue()
	}
	return p.unexpected()
}

// letter is a variable or, for e and i, the constant of that name.
func letter(name string) *algebra.Expr {
	switch name {
	case "e":
		return algebra.Const(algebra.E)
	case "i":
		return algebra.Const(algebra.I)
	}
	return algebra.Var(name)
}

// operand reports whether something that can be a factor stands next.
func (p *parser) operand() bool {
	switch c := p.peek(); {
	case isDigit(c), c == '(', c == '[', c == '{':
		return true
	case c == '.':
		return isDigitAt(p.src, p.pos+1)
	case c == '|':
		return p.inBars == 0
	case isLetter(c):
		return !p.atSeparator() && !p.atUnionLetter()
	case c == '\\':
		return !p.atSeparator() && !stops[p.command()] && p.src[p.pos:] != `\` && !strings.HasPrefix(p.src[p.pos:], `\\`) && !p.closing()
	}
	return false
}

// atUnionLetter reports whether the U between two intervals stands next.
func (p *parser) atUnionLetter() bool {
	i := p.lastByte()
	if p.word() != "U" || i < 0 || p.src[i] != ')' && p.src[i] != ']' {
		return false
	}
	after := strings.TrimLeft(p.src[p.pos+1:], " ")
	return after != "" && (after[0] == '(' || after[0] == '[')
}

// closing reports whether a command that closes something stands next.
func (p *parser) closing() bool {
	return p.at(`\}`) || p.at(`\|`) || p.at(`\%`)
}

// stops are commands that no factor begins with.
var stops = set("le", "leq", "leqslant", "ge", "geq", "geqslant", "lt", "gt", "ne", "neq", "approx", "sim", "equiv", "cong", "simeq", "propto",
	"in", "notin", "cup", "cap", "setminus", "backslash", "subset", "subseteq", "supset", "to", "rightarrow", "Rightarrow", "implies", "iff", "mapsto",
	"Leftrightarrow", "mid", "vee", "wedge", "lor", "land", "rbrace", "rangle", "rfloor", "rceil", "rvert", "rVert", "end", "choose", "over", "pm", "mp",
	"ldots", "dots", "cdots", "vdots", "parallel", "perp", "not", "colon", "pmod", "bmod", "mod", "div", "times", "cdot", "ast", "quad", "qquad", "hline", "cr")

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}
