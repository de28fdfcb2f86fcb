package algebra

import "strings"

// maxPrint bounds the length of a printed expression; the rest of it is an ellipsis.
const maxPrint = 2000

// String writes e in the syntax of a calculator, for reports.
func (e *Expr) String() string {
	var s strings.Builder
	e.write(&s, 0)
	return s.String()
}

// Binding strengths of operators, loosest first.
const (
	looseSum = iota
	looseProduct
	loosePower
	atomic
)

func (e *Expr) write(s *strings.Builder, within int) {
	if s.Len() > maxPrint {
		s.WriteString("…")
		return
	}
	switch e.Op {
	case Num:
		text := e.Value.RatString()
		tight := within > looseProduct && (e.Value.Sign() < 0 || !e.Value.IsInt()) || within > looseSum && e.Value.Sign() < 0
		if len(text) > maxPrint {
			text = text[:maxPrint] + "…"
		}
		bracket(s, tight, func() { s.WriteString(text) })
	case Sym:
		s.WriteString(e.Name)
	case Pi:
		s.WriteString("pi")
	case E:
		s.WriteString("e")
	case I:
		s.WriteString("i")
	case Inf:
		s.WriteString("inf")
	case Add:
		bracket(s, within > looseSum, func() { e.writeJoined(s, " + ", looseSum) })
	case Mul:
		bracket(s, within > looseProduct, func() { e.writeJoined(s, "*", looseProduct) })
	case Pow:
		bracket(s, within > loosePower, func() {
			e.Args[0].write(s, atomic)
			s.WriteByte('^')
			e.Args[1].write(s, atomic)
		})
	case Root:
		s.WriteString("root(")
		e.writeJoined(s, ", ", looseSum)
		s.WriteByte(')')
	case Call:
		s.WriteString(e.Name + "(")
		e.writeJoined(s, ", ", looseSum)
		s.WriteByte(')')
	}
}

func (e *Expr) writeJoined(s *strings.Builder, sep string, within int) {
	for i, a := range e.Args {
		if i > 0 {
			s.WriteString(sep)
		}
		a.write(s, within+min(within, 1))
	}
}

func bracket(s *strings.Builder, needed bool, body func()) {
	if needed {
		s.WriteByte('(')
	}
	body()
	if needed {
		s.WriteByte(')')
	}
}
