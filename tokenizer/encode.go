package tokenizer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Special says what Encode does with text that spells a special or other added token, such as <|im_end|> or <think>.
type Special int

const (
	ParseSpecial  Special = iota // the text becomes the token: for prompts that a template rendered
	SpecialAsText                // the text stays text: for what a user or a tool wrote
)

// Encode returns the tokens of text. Invalid UTF-8 is read as U+FFFD, one for each broken character. Added tokens are taken
// leftmost, and of those that start at one place the longest, as in Hugging Face tokenizers.
func (t *Tokenizer) Encode(text string, special Special) []int32 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.native == nil {
		panic("tokenizer: Encode after Close")
	}
	if special == SpecialAsText {
		return t.encodePlain(nil, text)
	}
	return t.encodeParsed(text, func(plain string) string { return plain })
}

// encodeParsed returns the tokens of text in which added tokens count; the text between them passes through between.
func (t *Tokenizer) encodeParsed(text string, between func(string) string) []int32 {
	var ids []int32
	for text != "" {
		at, a := t.added.find(text)
		if a == nil {
			return t.encodePlain(ids, between(text))
		}
		ids = t.encodePlain(ids, between(text[:at]))
		ids = append(ids, int32(a.ID))
		text = text[at+len(a.Content):]
	}
	return ids
}

// encodePlain appends the tokens of text by byte-pair encoding alone.
func (t *Tokenizer) encodePlain(ids []int32, text string) []int32 {
	if text == "" {
		return ids
	}
	encoding, err := t.native.EncodeWithOptionsErr(escapeNUL(text), false)
	if err != nil {
		// The pattern gave up (it has a limit on backtracking) or the library panicked. No text may be lost: two halves
		// encode to the same text, if not always to the same ids.
		if half := runeBoundary(text, len(text)/2); half > 0 {
			return t.encodePlain(t.encodePlain(ids, text[:half]), text[half:])
		}
		return ids
	}
	ids = slices.Grow(ids, len(encoding.IDs))
	for _, id := range encoding.IDs {
		ids = append(ids, int32(id))
	}
	return ids
}

// runeBoundary moves i down to the start of a character.
func runeBoundary(text string, i int) int {
	for i > 0 && !utf8.RuneStart(text[i]) {
		i--
	}
	return i
}

// addedTokens finds added tokens in text. Entries are grouped by first byte, longest first.
type addedTokens struct {
	first  string // the first bytes that occur
	byByte [256][]*addedToken
}

func newAddedTokens(all []addedToken) (addedTokens, error) {
	var f addedTokens
	for _, a := range all {
		if a.Content == "" {
			continue
		}
		if a.LStrip || a.RStrip || a.SingleWord {
			return f, fmt.Errorf("added token %q asks for lstrip, rstrip or single_word, which are not supported", a.Content)
		}
		b := a.Content[0]
		if f.byByte[b] == nil {
			f.first += a.Content[:1]
		}
		f.byByte[b] = append(f.byByte[b], &a)
	}
	for _, group := range f.byByte {
		slices.SortStableFunc(group, func(x, y *addedToken) int { return cmp.Compare(len(y.Content), len(x.Content)) })
	}
	return f, nil
}

// find returns the first added token in text and where it starts, or nil.
func (f *addedTokens) find(text string) (int, *addedToken) {
	for i := 0; i < len(text); i++ {
		if len(f.first) == 1 {
			skip := strings.IndexByte(text[i:], f.first[0])
			if skip < 0 {
				return 0, nil
			}
			i += skip
		}
		for _, a := range f.byByte[text[i]] {
			if strings.HasPrefix(text[i:], a.Content) {
				return i, a
			}
		}
	}
	return 0, nil
}

// nulMark stands for a NUL on its way into the native library, whose strings end at one. It is a noncharacter;
// where text holds it, it is escaped too: NUL is nulMark 0, nulMark is nulMark 1. The normaliser undoes both.
const nulMark = "\U0010ffff"

func escapeNUL(text string) string {
	if strings.IndexByte(text, 0) < 0 && !strings.Contains(text, nulMark) {
		return text
	}
	return strings.NewReplacer("\x00", nulMark+"0", nulMark, nulMark+"1").Replace(text)
}
