package tokenizer

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func stopStrings(t testing.TB, tok *Tokenizer, texts ...string) *StopStrings {
	t.Helper()
	s, err := tok.NewStopStrings(texts)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// caseStopString has replies in pieces. What is shown must not depend on the pieces, so it is cut in others as well.
func caseStopString(t *testing.T, c *testCase) {
	var in struct{ Chunks, Stop []string }
	var want struct {
		Emitted string
		Reason  string `json:"finish_reason"`
	}
	c.read(t, &in, &want)
	for _, n := range []int{0, 1, 2, 3} {
		tokens := [][]byte{}
		for _, chunk := range in.Chunks {
			tokens = append(tokens, []byte(chunk))
		}
		if n > 0 {
			tokens = slices.Collect(slices.Chunk([]byte(strings.Join(in.Chunks, "")), n))
		}
		tok, ids := tokensOf(t, tokens)
		text, stopped := stopStrings(t, tok, in.Stop...).Cut(ids)
		if text != want.Emitted || stopped != (want.Reason == "stop") {
			t.Errorf("in pieces of %d: %q, %v, want %q, %s", n, text, stopped, want.Emitted, want.Reason)
		}
	}
}

// tokensOf is a tokenizer of the given tokens and their ids; the same token may come again.
func tokensOf(t testing.TB, tokens [][]byte) (*Tokenizer, []int32) {
	t.Helper()
	var distinct [][]byte
	ids := make([]int32, len(tokens))
	for i, token := range tokens {
		at := slices.IndexFunc(distinct, func(b []byte) bool { return bytes.Equal(b, token) })
		if at < 0 {
			at = len(distinct)
			distinct = append(distinct, token)
		}
		ids[i] = int32(at)
	}
	return byteTokenizer(t, distinct), ids
}

// TestStopStringsRandom compares with a search from the beginning at every byte, over texts of few characters, of one to
// four bytes, broken ones among them, cut anywhere.
func TestStopStringsRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	letters := []string{"a", "b", "é", "汉", "😀", "\xff", "\xe6\xb1"}
	some := func(n, kinds int) string {
		var b strings.Builder
		for range n {
			b.WriteString(letters[r.IntN(kinds)])
		}
		return b.String()
	}
	stopped := 0
	for range 3000 {
		reply := []byte(some(r.IntN(40), 2+r.IntN(6)))
		var texts []string
		for range r.IntN(4) {
			texts = append(texts, some(1+r.IntN(5), 2+r.IntN(4)))
		}
		var tokens [][]byte
		for rest := reply; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(7))
			tokens, rest = append(tokens, rest[:n]), rest[n:]
		}
		tok, ids := tokensOf(t, tokens)
		cut, found := len(reply), false
		for end := 1; end <= len(reply) && !found; end++ {
			for _, text := range texts {
				if bytes.HasSuffix(reply[:end], []byte(text)) {
					cut, found = min(cut, end-len(text)), true
				}
			}
		}
		want, _ := whole(reply[:cut], true)
		s := stopStrings(t, tok, texts...)
		got, stop := s.Cut(ids)
		if got != want || stop != found {
			t.Fatalf("%q with stops %q in tokens %q: %q, %v, want %q, %v", reply, texts, tokens, got, stop, want, found)
		}
		if !found && got != tok.Decode(ids, false) {
			t.Fatalf("%q without a stop is not what Decode says", got)
		}
		until, ended := s.Until(), false
		for n := 1; n <= len(ids) && !ended; n++ {
			ended = until(ids[:n])
		}
		if ended != found {
			t.Fatalf("%q with stops %q: Until says %v", reply, texts, ended)
		}
		if found {
			stopped++
		}
	}
	if stopped < 500 {
		t.Errorf("%d replies were stopped", stopped)
	}
}

// TestStopStreamHoldsBackNoMoreThanItMust says at which token each part of a reply is shown.
func TestStopStreamHoldsBackNoMoreThanItMust(t *testing.T) {
	for _, c := range []struct {
		name   string
		tokens []string
		stops  []string
		deltas []string // and what Flush gives
	}{
		{"no stops", []string{"ab", "\xe6", "\xb1\x89c"}, nil, []string{"ab", "", "汉c", ""}},
		{"a beginning that is none", []string{"xa", "b", "d"}, []string{"abc"}, []string{"x", "", "abd", ""}},
		{"a beginning within", []string{"aab", "aab", "c"}, []string{"aabaabb", "zz"}, []string{"", "", "aabaabc", ""}},
		{"another begins", []string{"ab", "ac"}, []string{"abad"}, []string{"", "abac", ""}},
		{"at the end", []string{"x", "ab"}, []string{"abc"}, []string{"x", "", "ab"}},
		{"half a character and a beginning", []string{"\xe6\xb1", "a", "b"}, []string{"ab"}, []string{"", "", "\uFFFD", ""}},
		{"the stop is a part of a token", []string{"x", "y\n\nUser"}, []string{"\n\n"}, []string{"x", "y", ""}},
		{"nothing after the stop", []string{"x.", "y"}, []string{"."}, []string{"x", "", ""}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var tokens [][]byte
			for _, token := range c.tokens {
				tokens = append(tokens, []byte(token))
			}
			tok, ids := tokensOf(t, tokens)
			st := stopStrings(t, tok, c.stops...).NewStream()
			var deltas []string
			for _, id := range ids {
				text, _ := st.Push(id)
				deltas = append(deltas, text)
			}
			if deltas = append(deltas, st.Flush()); !slices.Equal(deltas, c.deltas) {
				t.Errorf("shown %q, want %q", deltas, c.deltas)
			}
		})
	}
}

// TestStopStringsUntilBeginsAgain has a turn whose end is the beginning of a stop string that the next turn would end.
func TestStopStringsUntilBeginsAgain(t *testing.T) {
	tok, ids := tokensOf(t, [][]byte{[]byte("a"), []byte("b")})
	until := stopStrings(t, tok, "ab").Until()
	if until(ids[:1]) || until(ids[1:]) {
		t.Error("a stop string was put together from two turns")
	}
	if until(ids[:1]) || !until(ids) {
		t.Error("a stop string of one turn was missed")
	}
}

func TestStopStringsThatCanNeverCome(t *testing.T) {
	v, err := newVocab(map[string]int64{"a": 0}, []addedToken{{ID: 1, Content: "<|im_end|>", Special: true}, {ID: 2, Content: "</think>"}})
	if err != nil {
		t.Fatal(err)
	}
	tok := &Tokenizer{vocab: v}
	for text, want := range map[string]string{
		"": "is empty", "a\xff": "no UTF-8", "x<|im_end|>": `special token "<|im_end|>", which is no part of a reply's text: stop at token 1`,
	} {
		if _, err := tok.NewStopStrings([]string{"fine", text}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
	text, stop := stopStrings(t, tok, "</think>", "aa").Cut([]int32{0, 1, 0, 2})
	if text != "" || !stop { // a special token is no text
		t.Errorf("%q, %v", text, stop)
	}
}

// BenchmarkStopStrings is a reply that all but ends at every byte: the work for a byte does not grow with the reply.
func BenchmarkStopStrings(b *testing.B) {
	tok, ids := tokensOf(b, [][]byte{[]byte("aaaa")})
	s := stopStrings(b, tok, strings.Repeat("a", 200)+"b", "aaab")
	for _, n := range []int{1000, 100_000} {
		reply := slices.Repeat(ids, n)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				s.Cut(reply)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/token")
		})
	}
}
