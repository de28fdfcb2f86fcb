package engine

import (
	"math/rand/v2"
	"slices"
	"testing"

	"tandem/model"
)

// TestPagesRandom plays sequences that find, take, remember and drop, and compares the books after every move.
func TestPagesRandom(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const n = 24
	p := newPages(n)
	type holder struct{ tokens, held []int32 }
	var holders []*holder
	books := func() {
		t.Helper()
		var held [][]int32
		for _, h := range holders {
			held = append(held, h.held)
		}
		if err := p.check(held); err != nil {
			t.Fatal(err)
		}
	}
	for range 20000 {
		switch k := r.IntN(10); {
		case k < 4: // a new sequence over few different prefixes
			tokens := make([]int32, 1+r.IntN(5*model.PageTokens))
			for i := range tokens {
				tokens[i] = int32(i / 50)
			}
			if r.IntN(2) == 0 {
				tokens[r.IntN(len(tokens))] = 9
			}
			full, _, m := p.find(tokens)
			if m >= model.PageTokens {
				t.Fatalf("a partial match of %d tokens", m)
			}
			for i, page := range full {
				p.hold(page)
				if got := p.node[page].tokens; !slices.Equal(got, tokens[i*model.PageTokens:(i+1)*model.PageTokens]) {
					t.Fatalf("page %d of the match has other tokens", i)
				}
			}
			own := p.take(model.PagesFor(len(tokens)) - len(full))
			if own == nil {
				p.dropAll(full)
				break
			}
			holders = append(holders, &holder{tokens, append(full, own...)})
		case k < 6 && len(holders) > 0: // remember
			h := holders[r.IntN(len(holders))]
			p.remember(h.tokens[:1+r.IntN(len(h.tokens))], h.held)
		case k < 9 && len(holders) > 0: // leave
			i := r.IntN(len(holders))
			h := holders[i]
			if r.IntN(2) == 0 {
				p.remember(h.tokens, h.held)
			}
			p.dropAll(h.held)
			holders = slices.Delete(holders, i, i+1)
		case r.IntN(50) == 0: // the weights have changed: everybody starts again
			for _, h := range holders {
				p.dropAll(h.held)
			}
			holders = nil
			p.forget()
		}
		books()
	}
	for _, h := range holders {
		p.dropAll(h.held)
	}
	holders = nil
	p.forget()
	books()
	if len(p.free) != n {
		t.Errorf("%d of %d pages are free in the end", len(p.free), n)
	}
}

func TestPagesKeyIncludesWhatComesBefore(t *testing.T) {
	p := newPages(8)
	first := make([]int32, 2*model.PageTokens)
	second := make([]int32, 2*model.PageTokens)
	for i := range first {
		first[i], second[i] = int32(i), int32(i)
	}
	second[0] = 7 // the second page has the same tokens, after others
	held := p.take(2)
	p.remember(first, held)
	if full, _, n := p.find(second); len(full) != 0 || n != 0 {
		t.Errorf("found %d pages and %d tokens of another prefix", len(full), n)
	}
	if full, _, n := p.find(first); len(full) != 2 || n != 0 {
		t.Errorf("found %d pages and %d tokens of the same prefix, want 2 and 0", len(full), n)
	}
}

func TestPagesEvictTheLeastRecentlyUsed(t *testing.T) {
	p := newPages(3)
	prefix := func(tok int32) []int32 { return slices.Repeat([]int32{tok}, model.PageTokens) }
	for tok := range int32(3) {
		held := p.take(1)
		p.remember(prefix(tok), held)
		p.dropAll(held)
	}
	full, _, _ := p.find(prefix(0)) // used again
	p.hold(full[0])
	p.dropAll(full)
	p.take(1)
	for tok, want := range []int{1, 0, 1} {
		if full, _, _ := p.find(prefix(int32(tok))); len(full) != want {
			t.Errorf("prefix %d: %d pages, want %d", tok, len(full), want)
		}
	}
}

// TestPagesFor has the ends of pages: token t lies on page t/PageTokens.
func TestPagesFor(t *testing.T) {
	const n = model.PageTokens
	for tokens, want := range map[int]int{0: 0, 1: 1, n - 1: 1, n: 1, n + 1: 2, 2 * n: 2, 2*n + 1: 3} {
		if got := model.PagesFor(tokens); got != want {
			t.Errorf("%d tokens need %d pages, want %d", tokens, got, want)
		}
	}
}
