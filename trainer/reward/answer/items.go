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
