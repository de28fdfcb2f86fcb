package answer

import (
	"strings"

	"tandem/trainer/reward/algebra"
)

// functions maps the ways to write a function, as a command or as a bare word, to the
// algebra package's name for it.
var functions = map[string]string{
	"sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc", "cosec": "csc", "ctg": "cot", "tg": "tan",
	"arcsin": "arcsin", "arccos": "arccos", "arctan": "arctan", "arccot": "arccot", "arcsec": "arcsec", "arccsc": "arccsc", "arctg": "arctan",
	"asin": "arcsin", "acos": "arccos", "atan": "arctan",
	"sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "coth": "coth",
	"ln": "ln", "log": "log", "lg": "log", "exp": "exp", "abs": "abs", "sqrt": "sqrt", "floor": "floor", "ceil": "ceil",
	"max": "max", "min": "min", "gcd": "gcd", "lcm": "lcm", "sgn": "sgn", "sign": "sgn", "Re": "re", "Im": "im", "cis": "cis",
	"det": "det", "dim": "dim", "deg": "deg", "arg": "arg", "lim": "lim",
}

// bareFunctions are those that a bare word may begin with, longest first.
var bareFunctions = []string{"arcsin", "arccos", "arctan", "arccot", "arcsec", "arccsc", "floor", "sinh", "cosh", "tanh", "coth", "sqrt", "ceil",
	"asin", "acos", "atan", "sin", "cos", "tan", "cot", "sec", "csc", "cis", "log", "exp", "abs", "max", "min", "gcd", "lcm", "ln"}

// functionPrefix finds the function that a word begins with.
func functionPrefix(w string) (written, name string) {
	for _, f := range bareFunctions {
		if strings.HasPrefix(w, f) {
			return f, functions[f]
		}
	}
	return "", ""
}

func trigonometric(f string) bool {
	switch f {
	case "sin", "cos", "tan", "cot", "sec", "csc", "cis":
		return true
	}
	return false
}

// inverse names the function that f^{-1} is.
func inverse(f string) (string, bool) {
	switch f {
	case "sin", "cos", "tan", "cot", "sec", "csc":
		return "arc" + f, true
	}
	return "", false
}

// function reads what follows a function's name: a base or an exponent, and the argument.
func (p *parser) function(f string) *algebra.Expr {
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	if f == "sqrt" {
		return p.squareRoot()
	}
	var base, exp *algebra.Expr
	for p.err == nil {
		if base == nil && p.accept("_") {
			base = p.scriptArgument()
		} else if exp == nil && p.accept("^") {
			exp = p.scriptArgument()
		} else {
			break
		}
	}
	if exp != nil && isMinusOne(exp) {
		if inv, ok := inverse(f); ok {
			f, exp = inv, nil
		}
	}
	trig := p.inTrig
	p.inTrig = trigonometric(f)
	args := p.functionArguments(p.inTrig)
	p.inTrig = trig
	if p.err != nil {
		return algebra.Int(0)
	}
	e := apply(f, base, args)
	if exp != nil {
		e = algebra.Power(e, exp)
	}
	return e
}

// scriptArgument is a base or exponent of a function: \log_{10}, \sin^2.
func (p *parser) scriptArgument() *algebra.Expr {
	negative := p.accept("-")
	var e *algebra.Expr
	if isDigit(p.peek()) {
		e, _, _ = p.number()
	} else {
		e = p.argument()
	}
	if negative {
		return algebra.Negate(e)
	}
	return e
}

func isMinusOne(e *algebra.Expr) bool {
	return e.Op == algebra.Num && e.Value.IsInt() && e.Value.Num().IsInt64() && e.Value.Num().Int64() == -1
}

// functionArguments reads (a), (a, b), {a}, or without brackets the factors up to the
// next sign, dot or function: sin 2x.
func (p *parser) functionArguments(trig bool) []*algebra.Expr {
	switch p.peek() {
	case '(', '[':
		e := p.bracketed()
		if v, ok := p.partOf(e); ok && v.Kind == Tuple {
			var args []*algebra.Expr
			for _, item := range v.Items {
				if item.Kind != Scalar {
					return []*algebra.Expr{p.unexpected()}
				}
				args = append(args, item.Expr)
			}
			return args
		}
		return []*algebra.Expr{e}
	}
	factors := []*algebra.Expr{p.signed()}
	for p.err == nil && p.operand() && !p.atFunction() && p.peek() != '(' && p.peek() != '[' {
		factors = append(factors, p.power())
	}
	if trig && p.at("/") && isDigitAt(p.src, p.pos+1) && uses(factors, algebra.Pi) { // sin π/6
		p.pos++
		factors = append(factors, algebra.Power(p.power(), algebra.Int(-1)))
	}
	if len(factors) == 1 {
		return factors
	}
	return []*algebra.Expr{algebra.Product(factors...)}
}

func uses(es []*algebra.Expr, op algebra.Op) bool {
	for _, e := range es {
		if e.Has(op) {
			return true
		}
	}
	return false
}

// atFunction reports whether a function's name stands next.
func (p *parser) atFunction() bool {
	if c := p.command(); c != "" {
		return functions[c] != "" || c == "operatorname" || strings.HasPrefix(c, "text") || c == "mathrm" || c == "mbox"
	}
	_, f := functionPrefix(p.word())
	return f != ""
}

// apply builds the call; \log has base 10 where none is written.
func apply(f string, base *algebra.Expr, args []*algebra.Expr) *algebra.Expr {
	if len(args) == 1 {
		switch f {
		case "log":
			if base == nil {
				base = algebra.Int(10)
			}
			return algebra.Apply("log", base, args[0])
		case "cis":
			return algebra.Sum(algebra.Apply("cos", args[0]), algebra.Product(algebra.Const(algebra.I), algebra.Apply("sin", args[0])))
		case "exp":
			return algebra.Power(algebra.Const(algebra.E), args[0])
		}
	}
	if base != nil {
		args = append([]*algebra.Expr{base}, args...)
		f += "_"
	}
	if len(args) > 2 && (f == "max" || f == "min") {
		return algebra.Apply(f, args[0], apply(f, nil, args[1:]))
	}
	return algebra.Apply(f, args...)
}

// squareRoot reads the rest of \sqrt[n]{a}, \sqrt3, \sqrt(5).
func (p *parser) squareRoot() *algebra.Expr {
	index := algebra.Int(2)
	if p.at("[") {
		p.pos++
		index = p.sum()
		if !p.accept("]") {
			return p.unexpected()
		}
	}
	switch c := p.peek(); {
	case isDigit(c):
		e, _, _ := p.number()
		return algebra.NthRoot(e, index)
	case c == '(':
		return algebra.NthRoot(p.bracketed(), index)
	}
	return algebra.NthRoot(p.argument(), index)
}
