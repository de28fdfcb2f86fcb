package tokenizer

import (
	"strings"
	"unicode/utf8"
)

// guardMark goes into what a user or a tool wrote before a template sees it, inside every added token the text spells, so
// that in the rendered prompt those can be told from the template's own. It is a noncharacter; where text holds it, it is
// escaped too: a break is guardMark 0, guardMark is guardMark 1.
const guardMark = "\U0010fffe"

// guard breaks the added tokens that text spells.
func (t *Tokenizer) guard(text string) string {
	text = strings.ReplaceAll(text, guardMark, guardMark+"1")
	var out strings.Builder
	for {
		at, a := t.added.find(text)
		if a == nil {
			break
		}
		// After the first character; what follows is looked at again, for a token may begin inside another.
		_, first := utf8.DecodeRuneInString(text[at:])
		at += first
		out.WriteString(text[:at] + guardMark + "0")
		text = text[at:]
	}
	out.WriteString(text)
	return out.String()
}

// unguard gives the text back that guard took.
func unguard(text string) string {
	if !strings.Contains(text, guardMark) {
		return text
	}
	return strings.NewReplacer(guardMark+"0", "", guardMark+"1", guardMark).Replace(text)
}
