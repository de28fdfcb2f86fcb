package answer

import (
	"fmt"
	"regexp"
	"strings"

	"tandem/trainer/reward/algebra"
)

// Parse reads an answer. The error says why it could not, in words that follow "could
// not read: ".
func Parse(s string) (Value, error) {
	if len(s) > MaxLength {
		return Value{}, errLength
	}
	s = clean(s)
	inText := false
	for range 3 {
		inner, ok := onlyText(s)
		if !ok {
			break
		}
		s, inText = clean(inner), true
	}
	if strings.Trim(s, " {}$") == "" {
		return Value{}, errEmpty
	}
	s = strings.TrimPrefix(s, "=")
	if c := leadingChoice(s); c != "" {
		return scalar(algebra.Var(c)), nil
	}
	if m := clockTime.FindStringSubmatch(s); m != nil {
		v, err := Parse(m[1])
		v.unit = unit{name: strings.ToLower(m[2]) + "m", power: 1}
		return v, err
	}
	if m := letterNumeral.FindStringSubmatch(s); m != nil {
		return Value{Kind: Numeral, Text: m[1], Base: 10 + int(m[2][1]-'0')}, nil
	}
	if words(s, inText) {
		return textValue(s), nil
	}
	p := parser{src: s, bare: true}
	v := p.items("")
	if p.err == nil && p.peek() != 0 {
		p.unexpected()
	}
	if p.err != nil {
		return Value{}, fmt.Errorf("%w at byte %d", p.err, p.pos)
	}
	return v, nil
}

// letterNumeral is a numeral to a base from 11 to 16 that holds letters: 1A7_{16}.
var letterNumeral = regexp.MustCompile(`^([0-9]*[A-F][0-9A-F]*)_\{?(1[1-6])\}?$`)

// clockTime is a time of day with its half: 4:30 p.m.
var clockTime = regexp.MustCompile(`^(\d{1,2}(?::\d\d)?)\s*(?:\\text\{\s*)?(?i:([ap])\.?\s?m\.?)\}?$`)

// onlyText takes the textual command off an answer that is nothing else.
func onlyText(s string) (string, bool) {
	p := parser{src: s}
	inner, ok := p.textGroup()
	if !ok {
		return "", false
	}
	p.space()
	return inner, p.pos == len(p.src)
}

// Canonical is the text of an answer without what never matters: white space, the size
// of brackets, the delimiters of formulas, a full stop. Two answers with the same
// canonical text, not empty, are the same answer.
func Canonical(s string) string {
	s = clean(s)
	for range 3 {
		inner, ok := onlyText(s)
		if !ok {
			break
		}
		s = clean(inner)
	}
	p := parser{src: s}
	var out strings.Builder
	for {
		if c := p.peek(); c == 0 && p.pos >= len(p.src) {
			return strings.TrimSpace(out.String())
		}
		if c := p.command(); c != "" {
			out.WriteByte('\\')
			out.WriteString(c)
			p.pos += 1 + len(c)
			if p.pos < len(p.src) && p.src[p.pos] == ' ' {
				out.WriteByte(' ')
			}
			continue
		}
		if p.src[p.pos] == '\\' && p.pos+1 < len(p.src) {
			out.WriteString(p.src[p.pos : p.pos+2])
			p.pos += 2
			continue
		}
		if isDigit(p.src[p.pos]) && p.pos > 0 && out.Len() > 0 && isDigit(out.String()[out.Len()-1]) && !isDigit(p.src[p.pos-1]) {
			out.WriteByte(' ') // 1 2 is not 12
		}
		out.WriteByte(p.src[p.pos])
		p.pos++
	}
}
