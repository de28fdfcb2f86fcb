package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"
)

// fresh returns a generator with a new seed, which is logged.
func fresh(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// scraps are what random texts are made of: tags, blanks, the marks the package uses itself, and much of Unicode.
var scraps = []string{"<|im_end|>", "<|im_start|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "<", "|>", "<|im_",
	"a", "word", " the", "42", "\n", "\r\n", "  ", "\t", "é", "ß", "你好", "數學", "😀", "👍🏽", "\x00", "\x00\x00", nulMark, nulMark + "0", nulMark + "1",
	guardMark, guardMark + "0", guardMark + "1", replyMark, "0", "1", "{", "}", "\"", "\\", "\\boxed{", "'s", "\u2028", "\ufffd", "\ufeff", "\x1b[0m"}

func randomText(r *rand.Rand) string {
	var text strings.Builder
	for range r.IntN(12) {
		text.WriteString(scraps[r.IntN(len(scraps))])
	}
	return text.String()
}

func TestEncodeKeepsText(t *testing.T) {
	eachDirectory(t, func(t *testing.T, tok *Tokenizer, _ string) {
		r := fresh(t)
		for range 500 {
			text := randomText(r)
			for _, special := range []Special{ParseSpecial, SpecialAsText} {
				if got := tok.Decode(tok.Encode(text, special), true); got != text {
					t.Fatalf("special %d: %s", special, difference(got, text))
				}
			}
			if ids := tok.Encode(text, SpecialAsText); len(controlIDs(tok, ids)) > 0 {
				t.Fatalf("%q as text gives the control tokens %v", text, controlIDs(tok, ids))
			}
		}
	})
}

func TestEncodeInvalidUTF8(t *testing.T) {
	tok := openTokenizer(t, "testdata/tiny")
	for _, c := range []struct{ text, want string }{
		{"a\xffb", "a\uFFFDb"},
		{"\xe4\xb8", "\uFFFD"},
		{"\xe4\xb8<|im_end|>", "\uFFFD<|im_end|>"},
		{"\xc0\x80", "\uFFFD\uFFFD"},
		{"\xed\xa0\x80", "\uFFFD\uFFFD\uFFFD"},
		{"\xf0\x9f\x98", "\uFFFD"},
		{"\x00\xff\x00", "\x00\uFFFD\x00"},
	} {
		if got := tok.Decode(tok.Encode(c.text, ParseSpecial), true); got != c.want {
			t.Errorf("%q: got %q, want %q", c.text, got, c.want)
		}
	}
}

func TestEncodeEmpty(t *testing.T) {
	tok := openTokenizer(t, "testdata/tiny")
	if ids := tok.Encode("", ParseSpecial); len(ids) != 0 {
		t.Errorf("no text gives %v", ids)
	}
	if text := tok.Decode(nil, true); text != "" {
		t.Errorf("no tokens give %q", text)
	}
}

// TestEncodeLong has texts on which a backtracking pattern or quadratic merging would not end.
func TestEncodeLong(t *testing.T) {
	eachDirectory(t, func(t *testing.T, tok *Tokenizer, _ string) {
		for _, scrap := range []string{" ", "\n", "\r\n", "a", "é", "_", "1", " \n", "<", "<|im_end|", "\x00", "😀"} {
			text := strings.Repeat(scrap, 10_000)
			if got := tok.Decode(tok.Encode(text, ParseSpecial), true); got != text {
				t.Errorf("%q repeated: %s", scrap, difference(got, text))
			}
		}
	})
}

func TestAddedTokensLongestFirst(t *testing.T) {
	f, err := newAddedTokens([]addedToken{{ID: 1, Content: "<a"}, {ID: 2, Content: "<a>"}, {ID: 3, Content: "b"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		text string
		at   int
		id   int64
	}{{"x<a>b", 1, 2}, {"<a<a>", 0, 1}, {"<<ab", 1, 1}, {"xxb", 2, 3}, {"<", 0, 0}, {"", 0, 0}} {
		at, a := f.find(c.text)
		if a == nil {
			a = &addedToken{}
		}
		if at != c.at || a.ID != c.id {
			t.Errorf("%q: token %d at %d, want %d at %d", c.text, a.ID, at, c.id, c.at)
		}
	}
}

func TestDecodeOutOfRange(t *testing.T) {
	tok := openTokenizer(t, "testdata/tiny")
	ids := append(tok.Encode("ab", ParseSpecial), -1, -1<<31, 1<<31-1, int32(tok.VocabSize()))
	if got := tok.Decode(ids, true); got != "ab" {
		t.Errorf("got %q, want ab", got)
	}
	stream := tok.NewStream()
	var got string
	for _, id := range ids {
		got += stream.Push(id)
	}
	if got += stream.Flush(); got != "ab" {
		t.Errorf("streamed %q, want ab", got)
	}
	if b := tok.TokenBytes(-5); b != nil {
		t.Errorf("TokenBytes(-5) is %q", b)
	}
}

func TestStreamEqualsDecode(t *testing.T) {
	eachDirectory(t, func(t *testing.T, tok *Tokenizer, _ string) {
		r := fresh(t)
		for range 500 {
			ids := tok.Encode(randomText(r), ParseSpecial)
			for range r.IntN(6) { // tokens that an untrained model draws, which break characters
				ids = slices.Insert(ids, r.IntN(len(ids)+1), int32(r.IntN(tok.VocabSize()+9)-4))
			}
			stream := tok.NewStream()
			var got string
			for _, id := range ids {
				delta := stream.Push(id)
				if !utf8.ValidString(delta) {
					t.Fatalf("%v: delta %q is half a character", ids, delta)
				}
				got += delta
			}
			if got += stream.Flush(); got != tok.Decode(ids, false) {
				t.Fatalf("%v: streamed %q, decoded %q", ids, got, tok.Decode(ids, false))
			}
		}
	})
}

// FuzzStream cuts bytes into tokens anywhere.
func FuzzStream(f *testing.F) {
	f.Add([]byte("Hi \xf0\x9f\x98\x80!"), uint64(0x55))
	f.Add([]byte("\xe4\xb8\xff\xe4\xb8\xad\xed\xa0\x80\xc0\x80"), uint64(0xffff))
	f.Add([]byte("\xf4\x90\x80\x80\xf0\x9f"), uint64(3))
	f.Fuzz(func(t *testing.T, text []byte, cuts uint64) {
		var tokens [][]byte
		from := 0
		for i := range text {
			if cuts>>(i%64)&1 == 1 {
				tokens = append(tokens, text[from:i+1])
				from = i + 1
			}
		}
		tokens = append(tokens, text[from:])
		s := &Stream{t: &Tokenizer{vocab: flatVocab(tokens)}}
		var got string
		for id := range tokens {
			delta := s.Push(int32(id))
			if !utf8.ValidString(delta) {
				t.Fatalf("delta %q is half a character", delta)
			}
			got += delta
		}
		got += s.Flush()
		if want, _ := whole(text, true); got != want {
			t.Fatalf("%q: streamed %q, whole %q", text, got, want)
		}
		if utf8.Valid(text) && got != string(text) {
			t.Fatalf("%q became %q", text, got)
		}
	})
}

// flatVocab is a vocabulary of the given tokens, which may repeat.
func flatVocab(tokens [][]byte) *vocab {
	v := &vocab{special: make([]bool, len(tokens))}
	for _, token := range tokens {
		v.bytes = append(v.bytes, token...)
		v.end = append(v.end, uint32(len(v.bytes)))
	}
	return v
}

func TestConcurrentUse(t *testing.T) {
	tok := openTokenizer(t, "testdata/tiny")
	messages := []Message{{Role: "user", Content: "What is 12 + 34? <|im_end|>"}}
	want, err := tok.EncodeChat(messages, ChatOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var users sync.WaitGroup
	for range 8 {
		users.Go(func() {
			for range 50 {
				got, err := tok.EncodeChat(messages, ChatOptions{})
				if err != nil || !slices.Equal(got, want) {
					t.Errorf("got %v, %v, want %v", got, err, want)
					return
				}
			}
		})
	}
	users.Wait()
}

func TestEncodeAfterClose(t *testing.T) {
	tok, err := Load("testdata/tiny")
	if err != nil {
		t.Fatal(err)
	}
	tok.Close()
	tok.Close()
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "Close") {
			t.Errorf("got %v, want a panic that names Close", r)
		}
	}()
	tok.Encode("x", ParseSpecial)
}

func BenchmarkEncode(b *testing.B) {
	tok := openTokenizer(b, sharedDir)
	text := strings.Repeat("Let $x$ be a real number with $x^2 + \\frac{1}{x} = 12$. What is 你好 x? The answer is \\boxed{3}.\n", 2000)
	for name, special := range map[string]Special{"parse": ParseSpecial, "text": SpecialAsText} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				tok.Encode(text, special)
			}
		})
	}
}

func BenchmarkStream(b *testing.B) {
	tok := openTokenizer(b, sharedDir)
	ids := tok.Encode(strings.Repeat("The answer is 你好 \\boxed{3}.\n", 100), ParseSpecial)
	start, n := time.Now(), 0
	for b.Loop() {
		s := tok.NewStream()
		for _, id := range ids {
			s.Push(id)
		}
		n += len(ids)
	}
	b.ReportMetric(float64(n)/time.Since(start).Seconds(), "tokens/s")
}

func BenchmarkChat(b *testing.B) {
	tok := openTokenizer(b, sharedDir)
	rows := golden[chatRow](b, "chat_qwen3")[:50]
	for b.Loop() {
		for _, r := range rows {
			if _, err := tok.Chat(r.Messages, r.options()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkLoad(b *testing.B) {
	openTokenizer(b, sharedDir)
	for b.Loop() {
		t, err := Load(sharedDir)
		if err != nil {
			b.Fatal(err)
		}
		t.Close()
	}
}
