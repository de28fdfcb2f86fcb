package kerneltest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
)

// A listener is a test whose failures are only heard.
type listener struct {
	testing.TB
	said []string
	ends []func()
}

func (l *listener) Errorf(f string, a ...any) { l.said = append(l.said, fmt.Sprintf(f, a...)) }
func (l *listener) Cleanup(f func())          { l.ends = append(l.ends, f) }

// Bits that were kept are found again, and those that differ are told.
func TestBits(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bits.jsonl")
	run := func(reads ...string) string {
		l := &listener{TB: t}
		w := newWitness(l)
		for _, r := range reads {
			w.saw([]byte(r))
		}
		for _, f := range l.ends {
			f()
		}
		return strings.Join(l.said, "\n")
	}
	if w := newWitness(t); w != nil {
		t.Fatal("bits are kept though nobody asked")
	}
	t.Setenv(BitsOut, file)
	for _, device := range [][]string{{"a", "b"}, {"a", "c", "d"}} {
		if said := run(device...); said != "" {
			t.Fatal(said)
		}
	}
	t.Setenv(BitsOut, "")
	t.Setenv(BitsIn, file)
	for _, c := range []struct {
		reads []string
		says  string
	}{
		{[]string{"a", "b"}, ""},
		{[]string{"a", "c", "d"}, ""},
		{[]string{"a", "c", "e"}, "3 results were read; after 2 of them"},
		{[]string{"a"}, "1 results were read; after 1 of them"},
	} {
		if said := run(c.reads...); c.says == "" && said != "" || !strings.Contains(said, c.says) {
			t.Errorf("%q: %q, want %q", c.reads, said, c.says)
		}
	}
	t.Setenv(BitsIn, file+".none")
	if said := run("a"); !strings.Contains(said, "no such file") {
		t.Errorf("without a file: %q", said)
	}
}
