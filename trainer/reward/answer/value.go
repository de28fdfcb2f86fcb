package answer

import (
	"sort"
	"strconv"
	"strings"

	"tandem/trainer/reward/algebra"
)

// Kind says what a Value is.
type Kind uint8

const (
	Scalar  Kind = iota // Expr, perhaps with a unit
	List                // Items in any order: written with commas only, or in curly brackets
	Tuple               // Items in order between Open and Close; with two of them perhaps an interval
	Union               // Items joined by ∪: intervals and sets
	Chain               // Sides joined by Ops: an equation, an inequality, or several in a row
	Matrix              // Rows
	Numeral             // Text, digits to the base Base
	Ratio               // Items joined by colons
	Text                // words
)

// A Value is an answer as it was read.
type Value struct {
	Kind  Kind
	Expr  *algebra.Expr
	Items []Value
	Open  byte // '(' or '['
	Close byte // ')' or ']'
	Sides []*algebra.Expr
	Ops   []string // "=", "<", "<=", ">", ">=", "!=", "~"
	Rows  [][]*algebra.Expr
	Text  string
	Base  int

	unit unit
	// places is the number of digits after the point, and digits of significant ones,
	// of a scalar that is a decimal literal.
	places, digits int
}

func scalar(e *algebra.Expr) Value { return Value{Kind: Scalar, Expr: e} }

// String is the normal form that reports show: what was read, not how it was written.
func (v Value) String() string {
	var s strings.Builder
	v.write(&s)
	return s.String()
}

// maxForm bounds the length of a printed normal form.
const maxForm = 2000

func (v Value) write(s *strings.Builder) {
	if s.Len() > maxForm {
		return
	}
	switch v.Kind {
	case Scalar:
		s.WriteString(algebra.Canonical(v.Expr))
		if v.unit.name != "" {
			s.WriteString(" " + v.unit.String())
		}
	case List:
		items := make([]string, len(v.Items))
		for i := range items {
			items[i] = v.Items[i].String()
		}
		sort.Strings(items)
		s.WriteString("{" + strings.Join(items, ", ") + "}")
	case Tuple:
		s.WriteByte(v.Open)
		writeItems(s, v.Items, ", ")
		s.WriteByte(v.Close)
	case Union:
		writeItems(s, v.Items, " ∪ ")
	case Ratio:
		writeItems(s, v.Items, ":")
	case Chain:
		for i, e := range v.Sides {
			if i > 0 {
				s.WriteString(" " + v.Ops[i-1] + " ")
			}
			s.WriteString(algebra.Canonical(e))
		}
	case Matrix:
		s.WriteByte('[')
		for i, row := range v.Rows {
			if i > 0 {
				s.WriteString("; ")
			}
			for j, e := range row {
				if j > 0 {
					s.WriteString(", ")
				}
				s.WriteString(algebra.Canonical(e))
			}
		}
		s.WriteByte(']')
	case Numeral:
		s.WriteString(v.Text + "_" + strconv.Itoa(v.Base))
	case Text:
		s.WriteString(v.Text)
	}
}

func writeItems(s *strings.Builder, items []Value, sep string) {
	for i, item := range items {
		if i > 0 {
			s.WriteString(sep)
		}
		item.write(s)
	}
}
