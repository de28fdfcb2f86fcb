package tokenizer

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"

	"github.com/ardanlabs/jinja"
)

// jsonStyle is what json.dumps lets one choose.
type jsonStyle struct {
	item, key string // separators
	indent    string // of one level
	lines     bool   // one item to a line
	ascii     bool
	sorted    bool
}

// toJSON is the filter tojson of transformers: json.dumps with ensure_ascii off, and its arguments.
func toJSON(args []jinja.Value, named map[string]jinja.Value) (jinja.Value, error) {
	for i, name := range []string{"ensure_ascii", "indent", "separators", "sort_keys"} {
		if i+1 < len(args) {
			if named == nil {
				named = map[string]jinja.Value{}
			}
			named[name] = args[i+1]
		}
	}
	s := jsonStyle{item: ", ", key: ": ", ascii: named["ensure_ascii"].IsTruthy(), sorted: named["sort_keys"].IsTruthy()}
	switch indent := named["indent"]; {
	case indent.IsInt():
		s.lines, s.item, s.indent = true, ",", strings.Repeat(" ", int(min(max(indent.AsInt(), 0), 64)))
	case indent.IsString():
		s.lines, s.item, s.indent = true, ",", indent.AsString()
	}
	if separators := named["separators"]; separators.IsList() {
		pair := separators.AsList().Items
		if len(pair) != 2 || !pair[0].IsString() || !pair[1].IsString() {
			return jinja.Undefined(), fmt.Errorf("tojson: separators must be two strings")
		}
		s.item, s.key = pair[0].AsString(), pair[1].AsString()
	}
	var out strings.Builder
	if err := s.write(&out, args[0], "\n"); err != nil {
		return jinja.Undefined(), fmt.Errorf("tojson: %w", err)
	}
	return jinja.NewString(out.String()), nil
}

// write writes a value; line is what starts a new line at its level.
func (s *jsonStyle) write(out *strings.Builder, v jinja.Value, line string) error {
	switch {
	case v.IsString():
		s.writeString(out, v.AsString())
	case v.IsNone():
		out.WriteString("null")
	case v.IsBool():
		out.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsFloat():
		out.WriteString(strings.NewReplacer("inf", "Infinity", "nan", "NaN").Replace(pyFloat(v.AsFloat())))
	case v.IsList():
		items := v.AsList().Items
		return s.writeAll(out, "[]", len(items), line, func(i int, line string) error { return s.write(out, items[i], line) })
	case v.IsDict():
		keys := v.AsDict().OrderedKeys()
		if s.sorted {
			slices.Sort(keys)
		}
		return s.writeAll(out, "{}", len(keys), line, func(i int, line string) error {
			s.writeString(out, keys[i])
			out.WriteString(s.key)
			return s.write(out, v.AsDict().Data[keys[i]], line)
		})
	default:
		digits, ok := integer(v)
		if !ok {
			return fmt.Errorf("%s is not JSON", v.String())
		}
		out.WriteString(digits)
	}
	return nil
}

// writeAll writes a list or an object of n items.
func (s *jsonStyle) writeAll(out *strings.Builder, brackets string, n int, line string, write func(i int, line string) error) error {
	out.WriteByte(brackets[0])
	inner := line + s.indent
	for i := range n {
		if i > 0 {
			out.WriteString(s.item)
		}
		if s.lines {
			out.WriteString(inner)
		}
		if err := write(i, inner); err != nil {
			return err
		}
	}
	if s.lines && n > 0 {
		out.WriteString(line)
	}
	out.WriteByte(brackets[1])
	return nil
}

func (s *jsonStyle) writeString(out *strings.Builder, text string) {
	out.WriteByte('"')
	for _, r := range text {
		if i := strings.IndexRune("\"\\\n\r\t\b\f", r); i >= 0 {
			out.WriteString([...]string{`\"`, `\\`, `\n`, `\r`, `\t`, `\b`, `\f`}[i])
		} else if r < 0x20 || s.ascii && r >= 0x7f && r < 0x10000 {
			fmt.Fprintf(out, `\u%04x`, r)
		} else if s.ascii && r >= 0x10000 {
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(out, `\u%04x\u%04x`, high, low)
		} else {
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
}

// integer returns the digits of an integer of any size; see number.
func integer(v jinja.Value) (string, bool) {
	if v.IsInt() {
		return strconv.FormatInt(v.AsInt(), 10), true
	}
	if v.IsCallable() {
		name := v.AsCallable().Name
		return name, strings.Trim(name, "-0123456789") == "" && name != ""
	}
	return "", false
}

// pyFloat is Python's repr of a float: the shortest digits that read back, an exponent below 1e-4 and from 1e16 on.
func pyFloat(f float64) string {
	switch {
	case math.IsNaN(f):
		return "nan"
	case math.IsInf(f, 1):
		return "inf"
	case math.IsInf(f, -1):
		return "-inf"
	case f != 0 && (math.Abs(f) < 1e-4 || math.Abs(f) >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	text := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(text, ".") {
		text += ".0"
	}
	return text
}

// pyString is Python's str, which is what Jinja prints; undefined prints nothing.
func pyString(v jinja.Value) string {
	switch {
	case v.IsUndefined():
		return ""
	case v.IsString():
		return v.AsString()
	}
	var out strings.Builder
	pyRepr(&out, v)
	return out.String()
}

func pyRepr(out *strings.Builder, v jinja.Value) {
	switch {
	case v.IsString():
		pyQuote(out, v.AsString())
	case v.IsFloat():
		out.WriteString(pyFloat(v.AsFloat()))
	case v.IsList():
		out.WriteByte('[')
		for i, item := range v.AsList().Items {
			if i > 0 {
				out.WriteString(", ")
			}
			pyRepr(out, item)
		}
		out.WriteByte(']')
	case v.IsDict():
		out.WriteByte('{')
		for i, key := range v.AsDict().Keys {
			if i > 0 {
				out.WriteString(", ")
			}
			pyQuote(out, key)
			out.WriteString(": ")
			pyRepr(out, v.AsDict().Data[key])
		}
		out.WriteByte('}')
	default:
		if digits, ok := integer(v); ok {
			out.WriteString(digits)
		} else {
			out.WriteString(v.String()) // True, False, None, Undefined
		}
	}
}

// pyQuote writes a string as Python's repr does.
func pyQuote(out *strings.Builder, text string) {
	quote := '\''
	if strings.Contains(text, "'") && !strings.Contains(text, `"`) {
		quote = '"'
	}
	out.WriteRune(quote)
	for _, r := range text {
		switch {
		case r == quote || r == '\\':
			out.WriteString(`\` + string(r))
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < 0x20 || r >= 0x7f && r < 0x100 && !unicode.IsPrint(r):
			fmt.Fprintf(out, `\x%02x`, r)
		case !unicode.IsPrint(r) && r < 0x10000:
			fmt.Fprintf(out, `\u%04x`, r)
		case !unicode.IsPrint(r):
			fmt.Fprintf(out, `\U%08x`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteRune(quote)
}
