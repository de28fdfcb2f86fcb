package reward

import (
	"errors"
	"math/big"
	"strings"
	"unicode"
	"unicode/utf8"

	"tandem/trainer/reward/algebra"
)

// mathSteps is the step budget of one comparison of the math grader, some 10 ms.
const mathSteps = 5_000_000

func newMathBudget() *algebra.Budget { return algebra.NewBudget(mathSteps) }

// elementEqual is the published decision on one element: two fractions of integers
// must be written alike, an integer matches only an integer, and the rest is right
// when algebra, if it is tried at all, finds no difference.
func elementEqual(want, given string, steps *algebra.Budget) (bool, string) {
	if plainFrac.MatchString(want) && plainFrac.MatchString(given) {
		return want == given, DifferentValue
	}
	if isIntText(want) != isIntText(given) {
		return false, DifferentValue
	}
	if !allowed("(" + want + ")-(" + given + ")") {
		return false, DifferentValue
	}
	a, err := parsePlain(want)
	if err != nil {
		return false, "could not read the gold answer's normal form: " + err.Error()
	}
	b, err := parsePlain(given)
	if err != nil {
		return false, "could not read: " + err.Error()
	}
	if equal, ok := floatDifference(a, b); ok {
		return equal, DifferentValue
	}
	v, _ := algebra.Compare(a, b, steps)
	switch {
	case v == algebra.Equal:
		return true, ""
	case steps.Spent():
		return false, BudgetSpent
	case v == algebra.Unknown:
		return false, Undecided
	}
	return false, DifferentValue
}

// A plainParser reads the syntax that the published grader hands to its algebra
// system: Python operators, ^ for powers, a product where two operands touch, names
// split into letters but for the few functions and constants that the restriction
// to two letters lets through.
type plainParser struct {
	src   string
	pos   int
	depth int
}

const maxPlainDepth = 100

var (
	errSyntax = errors.New("it is not an expression")
	errDeep   = errors.New("it is nested too deep")
)

func parsePlain(s string) (*algebra.Expr, error) {
	p := &plainParser{src: strings.ReplaceAll(s, "**", "^")}
	e, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.pos < len(p.src) {
		return nil, errSyntax
	}
	return e, nil
}

func (p *plainParser) peek() byte {
	if p.pos < len(p.src) {
		return p.src[p.pos]
	}
	return 0
}

func (p *plainParser) sum() (*algebra.Expr, error) {
	if p.depth++; p.depth > maxPlainDepth {
		return nil, errDeep
	}
	defer func() { p.depth-- }()
	var terms []*algebra.Expr
	sign := byte('+')
	for {
		t, err := p.product()
		if err != nil {
			return nil, err
		}
		if sign == '-' {
			t = algebra.Negate(t)
		}
		terms = append(terms, t)
		sign = p.peek()
		if sign != '+' && sign != '-' {
			break
		}
		p.pos++
	}
	if len(terms) == 1 {
		return terms[0], nil
	}
	return algebra.Sum(terms...), nil
}

// product reads factors joined by *, / or nothing.
func (p *plainParser) product() (*algebra.Expr, error) {
	e, err := p.unary()
	if err != nil {
		return nil, err
	}
	factors := []*algebra.Expr{e}
	for {
		c := p.peek()
		switch {
		case c == '*' || c == '/':
			p.pos++
			f, err := p.unary()
			if err != nil {
				return nil, err
			}
			if c == '/' {
				f = algebra.Power(f, algebra.Int(-1))
			}
			factors = append(factors, f)
		case p.operand():
			f, err := p.power()
			if err != nil {
				return nil, err
			}
			factors = append(factors, f)
		case len(factors) == 1:
			return e, nil
		default:
			return algebra.Product(factors...), nil
		}
	}
}

// operand reports whether an operand starts here.
func (p *plainParser) operand() bool {
	r, _ := utf8.DecodeRuneInString(p.src[p.pos:])
	return r == '(' || r == '.' || r >= '0' && r <= '9' || r != utf8.RuneError && unicode.IsLetter(r)
}

func (p *plainParser) unary() (*algebra.Expr, error) {
	negative := false
	for p.peek() == '-' || p.peek() == '+' {
		negative = negative != (p.peek() == '-')
		p.pos++
	}
	e, err := p.power()
	if err == nil && negative {
		e = algebra.Negate(e)
	}
	return e, err
}

func (p *plainParser) power() (*algebra.Expr, error) {
	if p.depth++; p.depth > maxPlainDepth {
		return nil, errDeep
	}
	defer func() { p.depth-- }()
	e, err := p.atom()
	if err != nil {
		return nil, err
	}
	for marks := 0; p.peek() == '!'; marks++ {
		if marks > maxPlainDepth {
			return nil, errDeep
		}
		p.pos++
		e = algebra.Apply("factorial", e)
	}
	if p.peek() != '^' {
		return e, nil
	}
	p.pos++
	exp, err := p.unary() // right associative, and a sign may follow
	if err != nil {
		return nil, err
	}
	if exp.Name == decimalMark && !e.Constant() { // r^5.0 is another power than r^5
		return algebra.Apply("float power", e, exp), nil
	}
	return algebra.Power(e, exp), nil
}

func (p *plainParser) atom() (*algebra.Expr, error) {
	switch c := p.peek(); {
	case c == '(':
		return p.group()
	case c == '.' || c >= '0' && c <= '9':
		return p.number()
	}
	r, n := utf8.DecodeRuneInString(p.src[p.pos:])
	if n == 0 || r == utf8.RuneError || !unicode.IsLetter(r) {
		return nil, errSyntax
	}
	word := p.word()
	switch word {
	case "pi":
		p.pos += len(word)
		return algebra.Const(algebra.Pi), nil
	case "sqrt", "ln":
		p.pos += len(word)
		var arg *algebra.Expr
		var err error
		if p.peek() == '(' {
			arg, err = p.group()
		} else {
			arg, err = p.unary()
		}
		if err != nil {
			return nil, err
		}
		if word == "ln" {
			return algebra.Apply("ln", arg), nil
		}
		return algebra.NthRoot(arg, algebra.Int(2)), nil
	case "oo", "nan", "zoo", "re", "im", "ff", "rf", "li", "jn", "yn", "if", "in", "or", "is", "as":
		return nil, errSyntax // names of the algebra system that make no difference come out as 0
	}
	p.pos += n
	return algebra.Var(string(r)), nil
}

// word is the identifier that starts here; digits are part of it, as in Python.
func (p *plainParser) word() string {
	i := p.pos
	for i < len(p.src) {
		r, n := utf8.DecodeRuneInString(p.src[i:])
		if !unicode.IsLetter(r) && !unicode.IsDigit(r) || r == utf8.RuneError {
			break
		}
		i += n
	}
	return p.src[p.pos:i]
}

func (p *plainParser) group() (*algebra.Expr, error) {
	p.pos++
	e, err := p.sum()
	if err != nil {
		return nil, err
	}
	if p.peek() != ')' {
		return nil, errSyntax
	}
	p.pos++
	return e, nil
}

// number reads an integer without leading zeros or a decimal; a decimal is marked,
// for floatDifference, by its count of digits.
func (p *plainParser) number() (*algebra.Expr, error) {
	i := p.pos
	digits, dot := 0, false
scan:
	for ; i < len(p.src); i++ {
		switch c := p.src[i]; {
		case c == '.' && !dot:
			dot = true
			continue
		case c >= '0' && c <= '9':
			digits++
			continue
		case c == '_' && i > p.pos && isDigit(p.src[i-1]) && i+1 < len(p.src) && isDigit(p.src[i+1]):
			continue // 52_8 is a way to write 528
		}
		break scan
	}
	text := strings.ReplaceAll(p.src[p.pos:i], "_", "")
	if digits == 0 || !dot && digits > 1 && text[0] == '0' && strings.Trim(text, "0") != "" {
		return nil, errSyntax
	}
	p.pos = i
	v, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, errSyntax
	}
	e := algebra.Rat(v)
	if dot {
		e.Name = decimalMark
	}
	return e, nil
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

const decimalMark = "decimal"
