package answer

import (
	"errors"

	"tandem/trainer/reward/algebra"
)

// relationSigns are the signs between the sides of an equation or inequality, and what
// a Chain calls them; longer ones come before those they begin with.
var relationSigns = []struct{ written, op string }{
	{"<=", "<="}, {">=", ">="}, {"=<", "<="}, {"!=", "!="}, {"==", "="}, {"=", "="}, {"<", "<"}, {">", ">"},
	{`\le`, "<="}, {`\leq`, "<="}, {`\leqslant`, "<="}, {`\ge`, ">="}, {`\geq`, ">="}, {`\geqslant`, ">="}, {`\lt`, "<"}, {`\gt`, ">"},
	{`\neq`, "!="}, {`\ne`, "!="}, {`\not=`, "!="}, {`\in`, "in"}, {`\approx`, "~="}, {`\equiv`, "=="}, {`\sim`, "~"}, {`\cong`, "~"}, {`\to`, "->"}, {`\rightarrow`, "->"},
	{`\mapsto`, "->"}, {`\parallel`, "||"}, {`\perp`, "perp"}, {`\notin`, "notin"}, {`\subset`, "sub"}, {`\subseteq`, "sub"}, {`\implies`, "=>"}, {`\Rightarrow`, "=>"},
}

func (p *parser) relationSign() (string, bool) {
	for _, r := range relationSigns {
		if p.accept(r.written) {
			return r.op, true
		}
	}
	return "", false
}

// relation reads sides joined by relation signs.
func (p *parser) relation() Value {
	first := p.side()
	op, ok := p.relationSign()
	if !ok {
		if mod, ok := p.modulus(); ok && first.Kind == Scalar {
			first.Expr = algebra.Apply("mod", first.Expr, mod)
		}
		return first
	}
	sides, ops := []Value{first}, []string(nil)
	for ok && p.err == nil {
		if len(sides) > maxItems {
			p.fail(errItems)
			break
		}
		ops = append(ops, op)
		sides = append(sides, p.side())
		op, ok = p.relationSign()
	}
	if p.err != nil {
		return Value{}
	}
	if mod, ok := p.modulus(); ok {
		sides[len(sides)-1].Expr = algebra.Apply("mod", sides[len(sides)-1].Expr, mod)
	}
	return p.chain(sides, ops)
}

// modulus reads \pmod{n}.
func (p *parser) modulus() (*algebra.Expr, bool) {
	if _, ok := p.acceptAny(`\pmod`, `\bmod`, `\mod`, `(\text{mod}`, `(\bmod`, `(\mod`, "(mod"); !ok {
		return nil, false
	}
	e := p.argument()
	p.accept(")")
	return e, true
}

// chain makes one value of sides and signs: the right side where the left is only its
// name, a Chain where all sides are expressions.
func (p *parser) chain(sides []Value, ops []string) Value {
	last := sides[len(sides)-1]
	if ops[0] == "~=" { // an exact value and what it is about, or a name and its value
		if isName(sides[0]) {
			return last
		}
		return sides[0]
	}
	if ops[0] == "=" && len(ops) > 1 && ops[1] == "~=" {
		sides, ops, last = sides[:2], ops[:1], sides[1]
	}
	plain := true
	for _, s := range sides {
		plain = plain && s.Kind == Scalar
	}
	if (ops[0] == "=" || ops[0] == "in") && isName(sides[0]) && (!plain || ops[0] == "in") {
		return last
	}
	if !plain {
		if ops[0] == "=" && len(sides) == 2 && nameList(sides[0]) {
			return last
		}
		p.fail(errors.New("a relation between values that are no expressions"))
		return Value{}
	}
	if allEqual(ops) && len(sides) > 2 {
		if isName(sides[0]) { // S = ½·4 = 2 ends in its value
			sides = []Value{sides[0], last}
			ops = ops[:1]
		}
	}
	v := Value{Kind: Chain, Ops: ops, unit: last.unit}
	for _, s := range sides {
		v.Sides = append(v.Sides, s.Expr)
	}
	return v
}

func allEqual(ops []string) bool {
	for _, op := range ops {
		if op != "=" {
			return false
		}
	}
	return true
}

// isName reports whether a value can be what an answer is called: x, x_1, f(x), a word,
// or a ratio of names.
func isName(v Value) bool {
	switch v.Kind {
	case Scalar:
		return nameOf(v.Expr) != ""
	case Text:
		return true
	case Ratio:
		return len(v.Items) > 0 && nameList(Value{Kind: Tuple, Items: v.Items})
	}
	return false
}

// nameOf is the name that an expression is, "" if it is more than one.
func nameOf(e *algebra.Expr) string {
	switch e.Op {
	case algebra.Sym:
		return e.Name
	case algebra.E:
		return "e"
	case algebra.I:
		return "i"
	case algebra.Call:
		if len(e.Args) == 1 && (e.Name[0] == 'f' || e.Name[0] == 'g' || e.Name[0] == 'h') && functions[e.Name] == "" && nameOf(e.Args[0]) != "" {
			return e.Name + "(" + nameOf(e.Args[0]) + ")"
		}
	case algebra.Mul: // P(x), and names of several letters
		name := ""
		for _, a := range e.Args {
			n := nameOf(a)
			if n == "" || len(e.Args) > 4 {
				return ""
			}
			name += n
		}
		return name
	}
	return ""
}

func nameList(v Value) bool {
	if v.Kind != Tuple {
		return false
	}
	for _, item := range v.Items {
		if item.Kind != Scalar || nameOf(item.Expr) == "" {
			return false
		}
	}
	return true
}
