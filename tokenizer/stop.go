package tokenizer

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// StopStrings ends a reply at the first of some texts. It looks at bytes as they come, whatever tokens they come in and
// however they cut characters, so that what it says depends on the text alone: the text that ends first wins, of those
// that end together the longest. Work is proportional to the reply's length.
type StopStrings struct {
	t     *Tokenizer
	texts []stopText
}

// A stopText is matched as Knuth, Morris and Pratt do.
type stopText struct {
	text []byte
	fall []int // fall[n]: the longest beginning of text that is an end of its first n+1 bytes, and shorter
}

// NewStopStrings refuses texts that can never come, for a reply's text has neither broken UTF-8 nor special tokens.
func (t *Tokenizer) NewStopStrings(texts []string) (*StopStrings, error) {
	s := &StopStrings{t: t}
	for _, text := range texts {
		if text == "" {
			return nil, fmt.Errorf("a stop string is empty")
		}
		if !utf8.ValidString(text) {
			return nil, fmt.Errorf("stop string %q is no UTF-8", text)
		}
		for id, special := range t.vocab.special {
			if token := t.vocab.token(int32(id)); special && len(token) > 0 && bytes.Contains([]byte(text), token) {
				return nil, fmt.Errorf("stop string %q has the special token %q, which is no part of a reply's text: stop at token %d", text, token, id)
			}
		}
		s.texts = append(s.texts, newStopText([]byte(text)))
	}
	return s, nil
}

func newStopText(text []byte) stopText {
	s := stopText{text: text, fall: make([]int, len(text))}
	for i := 1; i < len(text); i++ {
		s.fall[i] = s.next(s.fall[i-1], text[i])
	}
	return s
}

// next is how much of the text has been seen after one more byte, if it was n, less than all, before.
func (s *stopText) next(n int, b byte) int {
	for n > 0 && s.text[n] != b {
		n = s.fall[n-1]
	}
	if s.text[n] == b {
		n++
	}
	return n
}

// Cut returns the text of tokens as Decode(ids, false) does, but only up to where a stop string begins, and says whether
// there is one.
func (s *StopStrings) Cut(ids []int32) (text string, stopped bool) {
	st := s.NewStream()
	var out []byte
	for _, id := range ids {
		piece, stop := st.Push(id)
		if out = append(out, piece...); stop {
			return string(out), true
		}
	}
	return string(append(out, st.Flush()...)), false
}

// Until returns a function that is told the tokens of a reply after each new one, and says whether a stop string is
// complete. It serves one session of an engine; a reply begins when the tokens get fewer.
func (s *StopStrings) Until() func(turn []int32) bool {
	var st *StopStream
	seen := 0
	return func(turn []int32) bool {
		if len(turn) <= seen || st == nil {
			st, seen = s.NewStream(), 0
		}
		stop := false
		for ; seen < len(turn); seen++ {
			_, stop = st.Push(turn[seen])
		}
		return stop
	}
}

// StopStream is a Stream that ends at a stop string. It holds back what may be the beginning of one.
type StopStream struct {
	s       *StopStrings
	pending []byte // not returned yet
	seen    []int  // how much of each text pending ends with
	stopped bool
}

// NewStream returns a stream that has seen nothing.
func (s *StopStrings) NewStream() *StopStream {
	return &StopStream{s: s, seen: make([]int, len(s.texts))}
}

// Push returns the characters that are known to come before any stop string, and whether one is complete. From then on
// there is nothing more.
func (st *StopStream) Push(id int32) (text string, stop bool) {
	if st.stopped || st.s.t.isSpecial(id) {
		return "", st.stopped
	}
	from := len(st.pending)
	st.pending = append(st.pending, st.s.t.vocab.token(id)...)
	held := 0
	for i := from; i < len(st.pending); i++ {
		var match int
		if held, match = st.byte(st.pending[i]); match > 0 {
			st.stopped = true
			text, _ = whole(st.pending[:i+1-match], true)
			st.pending = nil
			return text, true
		}
	}
	if from == len(st.pending) {
		return "", false
	}
	text, n := whole(st.pending[:len(st.pending)-held], false)
	st.pending = st.pending[:copy(st.pending, st.pending[n:])]
	return text, false
}

// byte takes one more byte. It returns how much at the end is the beginning of a text, and the longest text that ends.
func (st *StopStream) byte(b byte) (held, match int) {
	for k := range st.s.texts {
		s := &st.s.texts[k]
		n := s.next(st.seen[k], b)
		st.seen[k] = n
		if held = max(held, n); n == len(s.text) {
			match = max(match, n)
		}
	}
	return held, match
}

// Flush ends the stream: what was held back is text after all.
func (st *StopStream) Flush() string {
	text, _ := whole(st.pending, true)
	st.pending = nil
	return text
}
