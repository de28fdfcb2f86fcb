package tokenizer

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// piece is a part of a template: text, an expression {{ }} or a statement {% %}. Comments and the blanks that Jinja strips
// are gone.
type piece struct {
	kind   byte // 't', 'e' or 's'
	text   string
	tokens []lexeme
	line   int
}

// lexeme is a name, a number, a string (text is its value) or an operator inside a tag.
type lexeme struct {
	kind byte // 'n', '0', '"' or 'o'
	text string
}

// lexer splits a template as Jinja does with trim_blocks and lstrip_blocks, the settings of transformers: "-" strips all blanks
// on its side of a tag, a statement or comment alone on its line takes its indentation and its newline with it.
type lexer struct {
	src       string
	pos       int
	lineStart bool // what was consumed last ended a line
	out       []piece
}

func lex(src string) ([]piece, error) {
	src = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(src)
	l := &lexer{src: strings.TrimSuffix(src, "\n"), lineStart: true}
	for l.pos < len(l.src) {
		if err := l.next(); err != nil {
			return nil, fmt.Errorf("line %d: %w", l.line(), err)
		}
	}
	return l.out, nil
}

func (l *lexer) line() int { return 1 + strings.Count(l.src[:min(l.pos, len(l.src))], "\n") }

// next takes the text up to a tag, and the tag.
func (l *lexer) next() error {
	rest := l.src[l.pos:]
	at := tagStart(rest)
	if at < 0 {
		l.emitText(rest)
		l.pos = len(l.src)
		return nil
	}
	kind := rest[at+1]
	sign := l.strip(rest[:at], rest[at+2:], kind == '{')
	l.pos += at + 2
	if sign != 0 {
		l.pos++
	}
	switch {
	case kind == '#':
		return l.comment()
	case kind == '%' && rawBegin.MatchString(l.src[l.pos:]):
		return l.raw()
	}
	return l.tag(kind)
}

// tagStart finds {{, {% or {#.
func tagStart(s string) int {
	for i := 0; i+1 < len(s); i++ {
		if s[i] == '{' && strings.IndexByte("{%#", s[i+1]) >= 0 {
			return i
		}
	}
	return -1
}

// strip emits the text before a tag, whose inside is given, without the blanks that the tag takes. It returns the tag's sign, or 0.
func (l *lexer) strip(text, inside string, expression bool) byte {
	sign := byte(0)
	if inside != "" && (inside[0] == '-' || inside[0] == '+') {
		sign = inside[0]
	}
	if sign == '-' {
		text = strings.TrimRightFunc(text, pySpace)
	} else if sign == 0 && !expression {
		start := strings.LastIndexByte(text, '\n') + 1
		if (start > 0 || l.lineStart) && strings.TrimFunc(text[start:], pySpace) == "" {
			text = text[:start]
		}
	}
	l.emitText(text)
	return sign
}

func (l *lexer) emitText(text string) {
	if text != "" {
		l.out = append(l.out, piece{kind: 't', text: text})
	}
}

// comment skips to the end of a comment.
func (l *lexer) comment() error {
	end := strings.Index(l.src[l.pos:], "#}")
	if end < 0 {
		return fmt.Errorf("comment is not closed")
	}
	sign := byte(0)
	if end > 0 {
		sign = l.src[l.pos+end-1]
	}
	l.pos += end + 2
	l.after(sign, true)
	return nil
}

// after skips what the end of a tag takes: all blanks after "-", the newline after a statement or comment without a sign.
func (l *lexer) after(sign byte, trim bool) {
	rest := l.src[l.pos:]
	switch {
	case sign == '-':
		rest = strings.TrimLeftFunc(rest, pySpace)
	case sign != '+' && trim:
		rest = strings.TrimPrefix(rest, "\n")
	}
	l.pos = len(l.src) - len(rest)
	l.lineStart = l.src[l.pos-1] == '\n'
}

var (
	rawBegin = regexp.MustCompile(`^\s*raw\s*-?%\}`)
	rawEnd   = regexp.MustCompile(`\{%[-+]?\s*endraw\s*([-+]?)%\}`)
)

// raw takes a raw block, whose text is not looked into.
func (l *lexer) raw() error {
	begin := rawBegin.FindString(l.src[l.pos:])
	l.pos += len(begin)
	l.after(begin[len(begin)-3], false)
	rest := l.src[l.pos:]
	end := rawEnd.FindStringSubmatchIndex(rest)
	if end == nil {
		return fmt.Errorf("raw block is not closed")
	}
	l.strip(rest[:end[0]], rest[end[0]+2:], false)
	l.pos += end[1]
	sign := byte(0)
	if end[2] < end[3] {
		sign = rest[end[2]]
	}
	l.after(sign, true)
	return nil
}

// maxLexemes bounds a tag, and with it how deep the template library's parser recurses. Real tags have under 200.
const maxLexemes = 4096

// tag takes the lexemes of an expression or statement up to its end.
func (l *lexer) tag(kind byte) error {
	p := piece{kind: 'e', line: l.line()}
	end := "}}"
	if kind == '%' {
		p.kind, end = 's', "%}"
	}
	depth := 0 // of brackets: {{ {"a": {}} }} ends at the last
	for {
		l.pos = len(l.src) - len(strings.TrimLeftFunc(l.src[l.pos:], pySpace))
		rest := l.src[l.pos:]
		if rest == "" {
			return fmt.Errorf("tag from line %d is not closed", p.line)
		}
		if depth == 0 {
			for _, sign := range []string{"-", "+", ""} {
				if strings.HasPrefix(rest, sign+end) && (sign != "+" || p.kind == 's') {
					l.pos += len(sign + end)
					l.after((sign + "\x00")[0], p.kind == 's')
					l.out = append(l.out, p)
					return nil
				}
			}
		}
		x, n, err := nextLexeme(rest, len(p.tokens) > 0 && p.tokens[len(p.tokens)-1].text == ".")
		if err != nil {
			return err
		}
		l.pos += n
		if x.kind == 'o' && strings.Contains("([{", x.text) {
			depth++
		} else if x.kind == 'o' && strings.Contains(")]}", x.text) {
			depth--
		}
		if last := len(p.tokens) - 1; x.kind == '"' && last >= 0 && p.tokens[last].kind == '"' {
			p.tokens[last].text += x.text // "a" "b" is one string, as in Python
			continue
		}
		if p.tokens = append(p.tokens, x); len(p.tokens) > maxLexemes {
			return fmt.Errorf("tag from line %d has more than %d parts", p.line, maxLexemes)
		}
	}
}

var (
	numberStart = regexp.MustCompile(`^[0-9][0-9_]*(\.[0-9][0-9_]*)?([eE][+-]?[0-9]+)?`)
	nameStart   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*`)
	stringStart = regexp.MustCompile(`(?s)^('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")`)
	operator    = regexp.MustCompile(`^(//|\*\*|==|!=|>=|<=|[-+/*%~\[\](){}<>=.:|,])`)
)

// nextLexeme reads one lexeme and says how long it is. After a dot, digits are an index and no fraction.
func nextLexeme(s string, afterDot bool) (lexeme, int, error) {
	if m := stringStart.FindString(s); m != "" {
		value, err := pyUnquote(m[1 : len(m)-1])
		return lexeme{'"', value}, len(m), err
	}
	if m := numberStart.FindString(s); m != "" {
		if afterDot {
			m, _, _ = strings.Cut(m, ".")
		}
		digits := strings.ReplaceAll(m, "_", "")
		if f, err := strconv.ParseFloat(digits, 64); err == nil && strings.ContainsAny(digits, "eE") {
			digits = strconv.FormatFloat(f, 'f', -1, 64)
			if !strings.Contains(digits, ".") {
				digits += ".0"
			}
		}
		return lexeme{'0', digits}, len(m), nil
	}
	if m := nameStart.FindString(s); m != "" {
		return lexeme{'n', m}, len(m), nil
	}
	if m := operator.FindString(s); m != "" {
		return lexeme{'o', m}, len(m), nil
	}
	return lexeme{}, 0, fmt.Errorf("cannot read %s", clip(s))
}

// pyUnquote undoes the escapes of a Python string.
func pyUnquote(s string) (string, error) {
	var out strings.Builder
	for s != "" {
		if s[0] != '\\' {
			out.WriteByte(s[0])
			s = s[1:]
			continue
		}
		text, n, err := pyEscape(s)
		if err != nil {
			return "", err
		}
		out.WriteString(text)
		s = s[n:]
	}
	return out.String(), nil
}

// pyEscape reads the escape that s starts with and says how long it is. Unknown ones stay as they are.
func pyEscape(s string) (string, int, error) {
	if len(s) < 2 {
		return s, len(s), nil
	}
	if i := strings.IndexByte("abfnrtv\\'\"\n", s[1]); i >= 0 {
		return [...]string{"\a", "\b", "\f", "\n", "\r", "\t", "\v", "\\", "'", "\"", ""}[i], 2, nil
	}
	digits, from, base := 0, 2, 16
	switch s[1] {
	case 'x':
		digits = 2
	case 'u':
		digits = 4
	case 'U':
		digits = 8
	case '0', '1', '2', '3', '4', '5', '6', '7':
		from, base = 1, 8
		for digits < 3 && from+digits < len(s) && s[from+digits] >= '0' && s[from+digits] <= '7' {
			digits++
		}
	default:
		return s[:2], 2, nil
	}
	if len(s) < from+digits {
		return "", 0, fmt.Errorf("escape %q is cut off", s)
	}
	code, err := strconv.ParseUint(s[from:from+digits], base, 32)
	if err != nil || !utf8.ValidRune(rune(code)) {
		return "", 0, fmt.Errorf("escape %q names no character", s[:from+digits])
	}
	return string(rune(code)), from + digits, nil
}

// pySpace is Python's str.isspace.
func pySpace(r rune) bool { return unicode.IsSpace(r) || r >= 0x1c && r <= 0x1f }
