package answer

import (
	"errors"
	"strings"

	"tandem/trainer/reward/algebra"
)

var errInside = errors.New("a list, a set or a matrix inside an expression")

// items reads what commas, semicolons, "and" and "or" separate, up to the end or to a
// byte of ends. One item is itself; several are a List without brackets.
func (p *parser) items(ends string) Value {
	if !p.enter() {
		return Value{}
	}
	defer func() { p.depth-- }()
	var out []Value
	for p.err == nil {
		v := p.relation()
		if p.err != nil {
			break
		}
		out = append(out, p.spread(v)...)
		if len(out) > maxItems {
			p.fail(errItems)
			break
		}
		if !p.separator() {
			break
		}
		if c := p.peek(); c == 0 || c < 0x80 && strings.IndexByte(ends, c) >= 0 && len(out) == 1 && c != '|' { // (3,) is a list of one, not an error
			return Value{Kind: List, Items: out}
		}
	}
	if p.err != nil {
		return Value{}
	}
	if len(out) == 1 {
		return out[0]
	}
	return Value{Kind: List, Items: out}
}

// separator reads any number of separators, so that "1, and 2" is a list of two.
func (p *parser) separator() bool {
	found := p.joined
	p.joined = false
	for {
		if _, ok := p.acceptAny(",", ";", `\vee`, `\lor`); ok {
			found = true
			continue
		}
		n := p.separatorWord()
		if n == 0 {
			return found
		}
		p.pos += n
		found = true
	}
}

// atSeparator reports whether a word that separates stands next.
func (p *parser) atSeparator() bool {
	p.space()
	return p.separatorWord() > 0
}

// separatorWord is the length of an "and" or "or" that stands next, in \text or bare.
func (p *parser) separatorWord() int {
	rest := p.src[p.pos:]
	if rest == "" {
		return 0
	}
	if w := leadingWord(rest); w != "" {
		if separatorWords[strings.ToLower(w)] {
			return len(w)
		}
		return 0
	}
	c := ""
	if rest[0] == '\\' {
		c = leadingWord(rest[1:])
	}
	if !textual[c] {
		return 0
	}
	open, body, ok := strings.Cut(rest, "{")
	if !ok || len(open) > len(c)+2 {
		return 0
	}
	inner, _, ok := strings.Cut(body, "}")
	if !ok || !separatorWords[strings.ToLower(strings.Trim(inner, " ,.~"))] {
		return 0
	}
	return len(open) + len(inner) + 2
}

var separatorWords = set("and", "or", "und", "oder")

// spread turns a ± b into two values.
func (p *parser) spread(v Value) []Value {
	switch {
	case v.Kind == Scalar && hasSign(v.Expr):
		a, b := v, v
		a.Expr, b.Expr = resolveSign(v.Expr, 1), resolveSign(v.Expr, -1)
		return []Value{a, b}
	case v.Kind == Chain && len(v.Sides) == 2 && v.Ops[0] == "=" && hasSign(v.Sides[1]):
		a, b := v, v
		a.Sides = []*algebra.Expr{v.Sides[0], resolveSign(v.Sides[1], 1)}
		b.Sides = []*algebra.Expr{v.Sides[0], resolveSign(v.Sides[1], -1)}
		return []Value{a, b}
	}
	return []Value{v}
}

func hasSign(e *algebra.Expr) bool {
	found := false
	e.Each(func(n *algebra.Expr) bool {
		found = found || n.Op == algebra.Call && (n.Name == "pm" || n.Name == "mp")
		return !found
	})
	return found
}

// resolveSign replaces ± by sign and ∓ by its opposite.
func resolveSign(e *algebra.Expr, sign int64) *algebra.Expr {
	if !hasSign(e) {
		return e
	}
	if e.Op == algebra.Call && (e.Name == "pm" || e.Name == "mp") {
		if e.Name == "mp" {
			return algebra.Product(algebra.Int(-sign), resolveSign(e.Args[0], sign))
		}
		return algebra.Product(algebra.Int(sign), resolveSign(e.Args[0], sign))
	}
	out := &algebra.Expr{Op: e.Op, Name: e.Name, Value: e.Value, Args: make([]*algebra.Expr, len(e.Args))}
	for i, a := range e.Args {
		out.Args[i] = resolveSign(a, sign)
	}
	return out
}

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

// side reads sets joined by ∪, ∩ and ∖, or expressions joined by colons.
func (p *parser) side() Value {
	v := p.term()
	if p.err != nil {
		return v
	}
	if p.atRatio() {
		items := []Value{v}
		for p.err == nil && p.atRatio() {
			p.accept(":")
			items = append(items, p.term())
			if len(items) > maxItems {
				p.fail(errItems)
			}
		}
		return Value{Kind: Ratio, Items: items}
	}
	for p.err == nil {
		op, ok := p.acceptAny(`\cup`, `\cap`, `\setminus`, `\backslash`)
		if !ok {
			if !p.atUnionLetter() {
				return v
			}
			p.pos++
			op = `\cup`
		}
		v = p.combine(v, op, p.term())
	}
	return v
}

// atRatio reports whether a colon between two expressions stands next; within a set it
// begins a condition.
func (p *parser) atRatio() bool { return p.inBars == 0 && p.at(":") }

// term reads a sum and returns what it is as a value.
func (p *parser) term() Value {
	p.unit = unit{}
	if p.peek() == '\\' && textual[p.command()] {
		if v, ok := p.wholeText(); ok {
			return v
		}
	}
	e := p.sum()
	if p.err != nil {
		return Value{}
	}
	v := p.valueOf(e)
	if v.Kind == Scalar {
		v.unit = p.unit
		v = p.compound(v)
	}
	return v
}

// compound reads the rest of a measure in two units, 3 hours and 20 minutes or 5 ft 4 in.
func (p *parser) compound(v Value) Value {
	for {
		start, joined, u := p.pos, p.joined, v.unit
		if sizes[u.name].kind == "" || p.err != nil {
			return v
		}
		if p.separatorWordHere() {
			joined = true
		}
		if !isDigit(p.peek()) {
			p.pos = start
			return v
		}
		e, _, _ := p.number()
		p.unit, p.joined = unit{}, false
		p.label()
		r, known, ok := u.ratio(p.unit)
		if p.err != nil || !known || !ok || u.power != 1 || r.IsInt() && r.Num().IsInt64() && r.Num().Int64() == 1 {
			p.pos, p.unit, p.err = start, u, nil
			p.joined = joined && !p.atSeparator() // an "and" inside the label separates a list
			return v
		}
		v.Expr = algebra.Sum(algebra.Product(v.Expr, algebra.Rat(r)), e)
		v.unit, v.places, v.digits = p.unit, 0, 0
	}
}

// separatorWordHere reads an "and" that stands next.
func (p *parser) separatorWordHere() bool {
	p.space()
	n := p.separatorWord()
	p.pos += n
	return n > 0
}

// valueOf is the value behind an expression that may be, or scale, a part.
func (p *parser) valueOf(e *algebra.Expr) Value {
	if v, ok := p.partOf(e); ok {
		if v.Kind == Scalar {
			v.Expr = e
		}
		return v
	}
	if len(p.parts) == 0 || !p.usesPart(e) {
		return scalar(e)
	}
	if e.Op == algebra.Mul {
		var m Value
		var scale []*algebra.Expr
		for _, a := range e.Args {
			v, ok := p.partOf(a)
			switch {
			case ok && v.Kind == Matrix && m.Kind != Matrix:
				m = v
			case p.usesPart(a):
				p.fail(errInside)
				return Value{}
			default:
				scale = append(scale, a)
			}
		}
		if m.Kind == Matrix {
			return scaled(m, algebra.Product(scale...))
		}
	}
	p.fail(errInside)
	return Value{}
}

// usesPart reports whether a part that is no scalar occurs in e.
func (p *parser) usesPart(e *algebra.Expr) bool {
	found := false
	e.Each(func(n *algebra.Expr) bool {
		found = found || n.Op == algebra.Sym && strings.HasPrefix(n.Name, "\x00")
		return !found
	})
	return found
}

func scaled(m Value, by *algebra.Expr) Value {
	rows := make([][]*algebra.Expr, len(m.Rows))
	for i, row := range m.Rows {
		for _, e := range row {
			rows[i] = append(rows[i], algebra.Product(by, e))
		}
	}
	m.Rows = rows
	return m
}
