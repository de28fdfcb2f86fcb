package tokenizer

import (
	"bytes"
	"unicode/utf8"
)

// TokenBytes returns the bytes a token stands for; for an added token the text it spells, for an id that names no token nil.
// The caller must not change them.
func (t *Tokenizer) TokenBytes(id int32) []byte { return t.vocab.token(id) }

// Decode returns the text of tokens. Ids that name no token give nothing, special tokens give their text only if kept.
// Bytes that are no UTF-8 become U+FFFD, one for each broken character.
func (t *Tokenizer) Decode(ids []int32, keepSpecial bool) string {
	var p []byte
	for _, id := range ids {
		if keepSpecial || !t.isSpecial(id) {
			p = append(p, t.vocab.token(id)...)
		}
	}
	text, _ := whole(p, true)
	return text
}

func (t *Tokenizer) isSpecial(id int32) bool {
	return id >= 0 && int(id) < len(t.vocab.special) && t.vocab.special[id]
}

// Stream decodes tokens as they come. What its calls return, put together, is what Decode(ids, false) returns.
type Stream struct {
	t       *Tokenizer
	pending []byte // the start of a character
}

// NewStream returns a stream that has seen nothing. The prompt is not part of it: a character that the prompt began is
// not shown.
func (t *Tokenizer) NewStream() *Stream { return &Stream{t: t} }

// Push returns the characters that the token completes, which may be none. A byte that can start or continue no
// character gives U+FFFD at once.
func (s *Stream) Push(id int32) string {
	if s.t.isSpecial(id) {
		return ""
	}
	s.pending = append(s.pending, s.t.vocab.token(id)...)
	text, n := whole(s.pending, false)
	s.pending = s.pending[:copy(s.pending, s.pending[n:])]
	return text
}

// Flush ends the stream: the start of a character that never came gives one U+FFFD.
func (s *Stream) Flush() string {
	text, _ := whole(s.pending, true)
	s.pending = s.pending[:0]
	return text
}

// whole returns the text of p and how many bytes of p it covers: all of them, or at the end all but the start of a
// character that may still be completed. Every longest broken start of a character becomes one U+FFFD.
func whole(p []byte, end bool) (string, int) {
	var out bytes.Buffer
	out.Grow(len(p))
	i := 0
	for i < len(p) {
		if r, size := utf8.DecodeRune(p[i:]); r != utf8.RuneError || size > 1 {
			out.Write(p[i : i+size])
			i += size
			continue
		}
		if !end && !utf8.FullRune(p[i:]) {
			break
		}
		n := 1
		for i+n < len(p) && !utf8.FullRune(p[i:i+n+1]) {
			n++
		}
		out.WriteString("\uFFFD")
		i += n
	}
	return out.String(), i
}
