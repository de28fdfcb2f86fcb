package env

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"tandem/tokenizer"
)

// trim cuts text in the middle to at most n tokens, saying how much is gone where there is room to, and gives the number
// of tokens left.
func (t *Tools) trim(text string, n int) (string, int) {
	tokens := func(s string) int { return len(t.tok.Encode(s, tokenizer.SpecialAsText)) }
	if all := tokens(text); all <= n {
		return text, all
	}
	// The most bytes kept with which it fits. More bytes are more tokens, but for a few at the cut: hence the search stays
	// below the first length that does not fit.
	best, most := "", 0
	lo, hi := 0, len(text)-1
	for lo <= hi {
		keep := (lo + hi) / 2
		cut := cutMiddle(text, keep)
		if has := tokens(cut); has <= n {
			best, most = cut, has
			lo = keep + 1
		} else {
			hi = keep - 1
		}
	}
	if best != "" {
		return best, most
	}
	for lo, hi = 0, len(text)-1; lo <= hi; { // no room for the words in the middle
		keep := (lo + hi) / 2
		head := text[:boundary(text, keep)]
		if has := tokens(head); has <= n {
			best, most = head, has
			lo = keep + 1
		} else {
			hi = keep - 1
		}
	}
	return best, most
}

// cutMiddle keeps about keep bytes of the two ends of text, in whole characters.
func cutMiddle(text string, keep int) string {
	head := boundary(text, keep/2)
	tail := len(text) - (keep - keep/2)
	for tail < len(text) && !utf8.RuneStart(text[tail]) {
		tail++
	}
	gap := fmt.Sprintf("[... %d bytes cut ...]", tail-head)
	if head == 0 && tail == len(text) {
		return gap
	}
	return strings.TrimSuffix(text[:head], "\n") + "\n" + gap + "\n" + text[tail:]
}

// boundary is the last start of a character at or before at.
func boundary(text string, at int) int {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
