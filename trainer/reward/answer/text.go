package answer

import (
	"strings"
	"unicode"

	"tandem/trainer/reward/algebra"
)

// shortWords are words of two and three letters that are not products of letters.
var shortWords = set("yes", "no", "odd", "all", "any", "may", "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
	"mon", "tue", "wed", "thu", "fri", "sat", "sun", "not", "red", "one", "two", "six", "ten", "dne", "boy", "tie", "he", "she", "am", "pm", "up", "ann", "bob", "tom", "joe", "jim", "sam", "amy", "ben", "dan", "kim", "lee", "max", "meg", "pat", "ron", "sue", "ted", "tim", "zoe")

var months = map[string]string{"jan": "january", "feb": "february", "mar": "march", "apr": "april", "jun": "june", "jul": "july", "aug": "august",
	"sep": "september", "sept": "september", "oct": "october", "nov": "november", "dec": "december",
	"mon": "monday", "tue": "tuesday", "tues": "tuesday", "wed": "wednesday", "thu": "thursday", "thurs": "thursday", "fri": "friday", "sat": "saturday", "sun": "sunday"}

// words reports whether s, as a whole, is words and not mathematics. In text is
// whether it stood in \text{}, where short words count too.
func words(s string, inText bool) bool {
	if strings.ContainsAny(s, `\^_=+*/<>|{}[]!`) || s == "" {
		return false
	}
	first := s[0]
	if !isLetter(first) && first != '(' && first != '"' && first < 0x80 {
		return false
	}
	found := false
	for _, w := range strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsLetter(r) }) {
		low := strings.ToLower(w)
		n := len([]rune(w))
		switch {
		case n == 1 || separatorWords[low]:
		case strings.Trim(w, "IVX") == "":
			found = true // a Roman numeral
		case low == "pi" || low == "inf" || low == "infinity" || low == "infty" || functions[low] != "" && !shortWords[low]:
			return false
		case n <= 3 && !inText && !shortWords[low]:
			return false
		default:
			found = true
		}
	}
	return found
}

// textValue is the value of words: one Text, or a List of them where they name several things.
func textValue(s string) Value {
	s = normalText(s)
	parts := strings.FieldsFunc(strings.NewReplacer(" and ", ",", " or ", ",", ", and ", ",").Replace(s), func(r rune) bool { return r == ',' || r == ';' })
	if len(parts) < 2 || len(parts) > maxItems {
		return Value{Kind: Text, Text: s}
	}
	v := Value{Kind: List}
	for _, t := range parts {
		if t = strings.TrimSpace(t); t != "" {
			v.Items = append(v.Items, Value{Kind: Text, Text: t})
		}
	}
	return v
}

// normalText lowers the case, spells months and days out, and drops what words do not
// consist of.
func normalText(s string) string {
	s = strings.NewReplacer(`\ `, " ", `\,`, " ", "~", " ", "$", "", `"`, "", "`", "", "p.m.", "pm", "a.m.", "am", "{", "", "}", "").Replace(strings.ToLower(s))
	s = strings.Trim(s, " .!?,:;\n\t")
	if len(s) > 2 && s[0] == '(' && strings.IndexByte(s, ')') == len(s)-1 {
		s = strings.TrimSpace(s[1 : len(s)-1])
	}
	f := strings.Fields(s)
	for i, w := range f {
		if full, ok := months[strings.TrimRight(w, ".")]; ok {
			f[i] = full
		}
	}
	return strings.Join(f, " ")
}

// textGroup reads a textual command and its argument.
func (p *parser) textGroup() (string, bool) {
	name := p.command()
	if !textual[name] {
		return "", false
	}
	start := p.pos
	p.pos += 1 + len(name)
	inner, ok := p.rawGroup()
	if !ok {
		p.pos = start
	}
	return inner, ok
}

// wholeText reads \text{...} at the start of a term when it is the whole term; ok is
// false, and nothing is read, where it belongs to an expression.
func (p *parser) wholeText() (v Value, ok bool) {
	start := p.pos
	defer func() {
		if !ok {
			p.pos = start
		}
	}()
	all := ""
	for {
		inner, isText := p.textGroup()
		if !isText {
			break
		}
		all += " " + inner
	}
	all = strings.TrimSpace(strings.ReplaceAll(all, "~", " "))
	if c := choiceLetter(all); c != "" && p.depth <= 2 {
		p.space()
		if p.pos < len(p.src) && (p.operand() || p.at("-") || p.at(":")) { // (C) and the text of the choice
			p.pos = len(p.src)
			return scalar(algebra.Var(c)), true
		}
	}
	if c := p.peek(); c != 0 && strings.IndexByte(",;=)]}&:", c) < 0 && !p.atSeparator() && !p.at(`\}`) && !p.at(`\\`) && !p.at(`\end`) {
		return Value{}, false
	}
	if !words(all, true) {
		return Value{}, false
	}
	return textValue(all), true
}

// choiceLetter is the letter of a multiple-choice answer, (C) or C or C., alone.
func choiceLetter(s string) string {
	s = strings.Trim(s, " ().:")
	if len(s) == 1 && s[0] >= 'A' && s[0] <= 'J' {
		return s
	}
	return ""
}

// leadingChoice is the letter that a whole answer begins with as (C) or C), when the
// text of the choice follows.
func leadingChoice(s string) string {
	t := strings.TrimPrefix(s, "(")
	if len(t) < 4 || t[0] < 'A' || t[0] > 'J' || t[1] != ')' || t[2] != ' ' && t[2] != '\\' {
		return ""
	}
	rest := strings.TrimSpace(t[2:])
	if strings.ContainsAny(rest[:1], ",;+*/^=)<>") || strings.Contains(strings.ToLower(rest), " or ") || strings.Contains(rest, "and ") || strings.Contains(rest, "(") {
		return ""
	}
	return t[:1]
}

// textOperand reads a textual command inside an expression.
func (p *parser) textOperand() *algebra.Expr {
	inner, ok := p.textGroup()
	if !ok { // \rm and its kin without a group only switch the font
		p.pos += 1 + len(p.command())
		return p.operandValue()
	}
	s := strings.TrimSpace(inner)
	if len(s) == 1 && isLetter(s[0]) {
		return p.variable(s)
	}
	if f := functions[s]; f != "" {
		return p.function(f)
	}
	if words(s, true) {
		return p.part(textValue(s), nil)
	}
	if !p.enter() {
		return algebra.Int(0)
	}
	defer func() { p.depth-- }()
	sub := parser{src: s, depth: p.depth, inTrig: p.inTrig}
	v := sub.items("")
	if sub.err == nil && sub.peek() != 0 {
		sub.unexpected()
	}
	if sub.err != nil {
		return p.fail(sub.err)
	}
	if sub.unit.name != "" {
		p.unit = sub.unit
	}
	if v.Kind == Scalar {
		return algebra.Product(v.Expr) // drops the mark of a decimal of the inner parser
	}
	return p.part(v, nil)
}

// label reads a unit or another label behind a factor: \text{ cm}^2, \text{ apples}, km/h.
func (p *parser) label() bool {
	start := p.pos
	p.space()
	if p.peek() == '\\' && textual[p.command()] {
		if p.atSeparator() {
			p.pos = start
			return false
		}
		inner, ok := p.textGroup()
		if ok && p.readLabel(inner) {
			return true
		}
		p.pos = start
		return false
	}
	w := p.word()
	if len(w) >= 2 && !separatorWords[strings.ToLower(w)] {
		if _, f := functionPrefix(w); f == "" && (bareUnits[strings.ToLower(w)] || len(w) >= 5) {
			p.pos += len(w)
			if p.readLabel(w) {
				return true
			}
		}
	}
	p.pos = start
	return false
}

// readLabel takes the words of a label, and an exponent or a denominator after it.
func (p *parser) readLabel(s string) bool {
	s = strings.Trim(strings.NewReplacer("~", " ", `\%`, "", "%", "").Replace(s), " .,")
	fields := strings.Fields(s)
	joined := false
	if n := len(fields); n > 1 && strings.EqualFold(fields[n-1], "and") {
		fields, joined = fields[:n-1], true
	}
	if len(s) == 1 && (s == "i" || s == "e" || s == "x" || s == "y" || s == "n" || s == "k") || len(fields) > 6 {
		return false
	}
	for _, w := range fields {
		if labelStops[strings.ToLower(w)] || strings.ContainsAny(w, `\=<>+$`) {
			return false
		}
	}
	if len(fields) > 0 && strings.ContainsAny(s, "0123456789") && !strings.ContainsAny(s, "^²³") {
		return false
	}
	u := unitOf(fields)
	if p.accept("^") {
		if n, ok := p.plainInteger(); ok && n.IsInt64() && n.Int64() < 10 {
			u.power *= int(n.Int64())
		}
	}
	if p.at("/") && (p.src[p.pos+1:] != "") {
		save := p.pos
		p.pos++
		if inner, ok := p.textGroup(); ok {
			u = unit{name: u.name + "/" + strings.TrimSpace(inner), power: 1}
		} else {
			p.pos = save
		}
	}
	switch old := p.unit; {
	case old.name == "" && old.power > 1: // square, then cm
		u.power = max(u.power, old.power)
	case len(old.name) > 200:
		u = old
	case old.name != "" && u.name != "":
		u.name = old.name + " " + u.name
	}
	p.unit, p.joined = u, joined
	return true
}

// labelStops are words that make of a label a statement, which is not dropped.
var labelStops = set("not", "or", "and", "if", "when", "where", "is", "are", "but", "for", "except", "unless", "either", "neither", "only", "least", "most", "than")
