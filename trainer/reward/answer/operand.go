package answer

import (
	"errors"
	"strings"

	"tandem/trainer/reward/algebra"
)

// operandValue reads a number, a letter, a bracket or a command with its arguments.
func (p *parser) operandValue() *algebra.Expr {
	if p.err != nil {
		return algebra.Int(0)
	}
	switch c := p.peek(); {
	case isDigit(c), c == '.':
		return p.numeric()
	case c == '(' || c == '[':
		return p.bracketed()
	case c == '{':
		return p.braces()
	case c == '|':
		p.pos++
		return p.bars("|")
	case isLetter(c):
		return p.bareWord()
	case c == '\\':
		return p.commandValue()
	}
	return p.unexpected()
}

// numeric reads a number, a mixed number, or a numeral with its base.
func (p *parser) numeric() *algebra.Expr {
	start := p.pos
	e, places, digits := p.number()
	if p.err != nil {
		return e
	}
	if p.pos < len(p.src) && p.src[p.pos] == '_' {
		return p.numeral(p.src[start:p.pos])
	}
	if e.Op == algebra.Num && e.Value.IsInt() && places == 0 {
		if f, ok := p.tailFraction(); ok {
			return algebra.Rat(f.Add(f, e.Value))
		}
	}
	if places > 0 {
		e = p.part(Value{Kind: Scalar, Expr: e, places: places, digits: digits}, e)
	}
	return e
}

// part keeps a value beside the expression. A scalar keeps its own expression in the
// tree, marked; anything else is a variable of a reserved name.
func (p *parser) part(v Value, e *algebra.Expr) *algebra.Expr {
	if len(p.parts) >= maxItems {
		return p.fail(errItems)
	}
	p.parts = append(p.parts, v)
	name := partName(len(p.parts) - 1)
	if e != nil {
		return &algebra.Expr{Op: algebra.Num, Value: e.Value, Name: name}
	}
	return algebra.Var(name)
}

func partName(i int) string { return "\x00" + string(rune('0'+i)) }

// partOf returns the value that e, as a whole, stands for.
func (p *parser) partOf(e *algebra.Expr) (Value, bool) {
	if (e.Op == algebra.Sym || e.Op == algebra.Num) && strings.HasPrefix(e.Name, "\x00") {
		return p.parts[[]rune(e.Name)[1]-'0'], true
	}
	return Value{}, false
}

// numeral reads the base after the digits of a numeral.
func (p *parser) numeral(digits string) *algebra.Expr {
	p.pos++ // the underscore
	text := ""
	if p.peek() == '{' {
		text, _ = p.rawGroup()
		text = strings.TrimSpace(text)
	} else {
		text = p.digits()
	}
	text = strings.TrimSuffix(strings.TrimPrefix(text, `\text{`), "}")
	base := 0
	if len(text) > 0 && len(text) <= 2 && strings.Trim(text, "0123456789") == "" {
		for _, c := range text {
			base = base*10 + int(c-'0')
		}
	} else {
		base = baseWords[strings.ToLower(text)]
	}
	if base < 2 || base > 36 {
		return p.fail(errors.New("a number has a subscript that is no base"))
	}
	return p.numeralPart(digits, base)
}

var baseWords = map[string]int{"two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16}

func (p *parser) numeralPart(digits string, base int) *algebra.Expr {
	for _, sep := range separators {
		digits = strings.ReplaceAll(digits, sep, "")
	}
	if len(digits) > maxDigits {
		return p.fail(errLength)
	}
	return p.part(Value{Kind: Numeral, Text: digits, Base: base}, nil)
}

// braces reads {...}: a group of TeX, which may hold a whole list.
func (p *parser) braces() *algebra.Expr {
	start := p.pos
	e := p.braced()
	if p.err == nil {
		return e
	}
	if errors.Is(p.err, errDepth) || errors.Is(p.err, errItems) || p.depth > 3 {
		return e
	}
	p.pos, p.err = start+1, nil
	v := p.items("}")
	if !p.accept("}") {
		return p.unexpected()
	}
	return p.asOperand(v)
}

// asOperand places a value where an expression stands.
func (p *parser) asOperand(v Value) *algebra.Expr {
	if v.Kind == Scalar && v.places == 0 {
		return v.Expr
	}
	return p.part(v, nil)
}

// bracketed reads (...) or [...] and whatever closes it: a group, a tuple or an interval.
func (p *parser) bracketed() *algebra.Expr {
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	start, open := p.pos, p.src[p.pos]
	p.pos++
	bars, bare := p.inBars, p.bare
	p.inBars, p.bare = 0, false
	v := p.items(")]")
	p.inBars, p.bare = bars, bare
	if p.err != nil {
		return algebra.Int(0)
	}
	c := p.peek()
	if c != ')' && c != ']' {
		return p.unexpected()
	}
	p.pos++
	if inner := p.src[start+1 : p.pos-1]; p.pos < len(p.src) && p.src[p.pos] == '_' && inner != "" && strings.Trim(inner, "0123456789") == "" {
		return p.numeral(inner) // (101)_2
	}
	if v.Kind == List && v.Open == 0 {
		return p.part(Value{Kind: Tuple, Items: v.Items, Open: open, Close: c}, nil)
	}
	if (open == '(') != (c == ')') {
		return p.fail(errors.New("brackets of two kinds round one value"))
	}
	if v.Kind == Scalar {
		return v.Expr
	}
	return p.part(v, nil)
}

// bars reads the rest of an absolute value.
func (p *parser) bars(end string) *algebra.Expr {
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	p.inBars++
	e := p.sum()
	p.inBars--
	if _, ok := p.acceptAny(end, "|", `\rvert`, `\vert`); !ok {
		return p.unexpected()
	}
	return algebra.Apply("abs", e)
}

// bareWord reads letters: a function or a constant by name, or else one variable.
func (p *parser) bareWord() *algebra.Expr {
	w := p.word()
	if len(w) > 1 {
		if name, f := functionPrefix(w); f != "" {
			p.pos += len(name)
			return p.function(f)
		}
		switch {
		case strings.HasPrefix(w, "pi"):
			p.pos += 2
			return algebra.Const(algebra.Pi)
		case w == "inf" || w == "infty" || w == "infinity" || w == "oo":
			p.pos += len(w)
			return algebra.Const(algebra.Inf)
		case w == "frac", w == "dfrac": // the backslash was lost
			p.pos += len(w)
			return algebra.Quotient(p.argument(), p.argument())
		case len(w) > 5:
			return p.fail(errors.New("the word " + w[:min(len(w), 20)]))
		}
	}
	p.pos++
	return p.variable(w[:1])
}

// variable reads what belongs to a name: subscripts, primes, and an argument for f, g and h.
func (p *parser) variable(name string) *algebra.Expr {
	plain := name
	if p.pos < len(p.src) && p.src[p.pos] == '_' {
		p.pos++
		name += "_" + p.subscript()
	}
	primes := p.pos
	for p.pos < len(p.src) && p.src[p.pos] == '\'' {
		p.pos++
	}
	if p.pos-primes > maxMarks {
		return p.fail(errMarks)
	}
	name += p.src[primes:p.pos]
	if isFunctionName(plain) && p.err == nil {
		if after, ok := strings.CutPrefix(p.src[p.pos:], "^{-1}"); ok && strings.HasPrefix(after, "(") {
			p.pos += len("^{-1}")
			name += "^-1"
		}
	}
	if isFunctionName(plain) && p.at("(") && p.err == nil {
		arg := p.bracketed()
		return algebra.Apply(name, arg)
	}
	return letter(name)
}

// isFunctionName names the letters that are functions where a bracket follows.
func isFunctionName(s string) bool { return s == "f" || s == "g" || s == "h" }

// subscript returns the text of a subscript without spaces and braces.
func (p *parser) subscript() string {
	if p.peek() == '{' {
		inner, ok := p.rawGroup()
		if !ok {
			p.fail(errors.New("a { is not closed"))
		}
		inner = strings.NewReplacer(" ", "", "{", "", "}", "", `\text`, "", `\mathrm`, "", `\rm`, "").Replace(inner)
		return inner[:min(len(inner), 100)]
	}
	if p.pos >= len(p.src) {
		p.fail(errEnd)
		return ""
	}
	if c := p.command(); c != "" {
		p.pos += 1 + len(c)
		return c
	}
	if isDigitAt(p.src, p.pos) {
		return p.digits()
	}
	p.pos++
	return p.src[p.pos-1 : p.pos]
}
