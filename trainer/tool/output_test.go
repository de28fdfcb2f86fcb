package tool

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClipKeepsBothEnds(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	for range 500 {
		limit := 1 + random.IntN(40)
		var whole strings.Builder
		c := clip{limit: limit}
		for range random.IntN(12) {
			part := make([]byte, random.IntN(30))
			for i := range part {
				part[i] = byte('a' + random.IntN(26))
			}
			whole.Write(part)
			c.add(part)
		}
		all := whole.String()
		want := all
		if gone := len(all) - limit; gone > 0 {
			want = fmt.Sprintf("%s\n[... %d bytes cut ...]\n%s", all[:limit/2], gone, all[len(all)-(limit-limit/2):])
		}
		if got := c.text(); got != want {
			t.Fatalf("limit %d of %q: %q, want %q", limit, all, got, want)
		}
	}
}

func TestClipIsPrintable(t *testing.T) {
	cases := []struct {
		name, in string
		limit    int
		want     string
	}{
		{"each bad byte", "ok \xff\xfe\n", 100, "ok \ufffd\ufffd\n"},
		{"control", "\x00\x1b[2J\r\n\t\x7f\u0085", 100, "\ufffd\ufffd[2J\r\n\t\ufffd\ufffd"},
		{"cut inside characters", "éééééé", 5, "é\n[... 8 bytes cut ...]\né"},
		{"half a character at the end", "a\xc3", 100, "a\ufffd"},
		{"nothing", "", 100, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			k := clip{limit: c.limit}
			k.add([]byte(c.in))
			if got := k.text(); got != c.want || !utf8.ValidString(got) {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
