package main

import (
	"path/filepath"
	"strings"
	"testing"
)

func TestReportAndCompare(t *testing.T) {
	t.Parallel()
	dir := need(t, shared.trained)
	out := t.TempDir()
	first := filepath.Join(out, "page.html")
	if r := tandem(t, "report", dir, "-o", first); r.stdout != first+"\n" {
		t.Errorf("%v", r)
	}
	html := read(t, first)
	for _, want := range []string{"20 of 20", "held-out accuracy", "time by phase", "[warmup.optimizer]", version()[:6], "first", "problem "} {
		if !strings.Contains(html, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if strings.Contains(html, "<h2>other</h2>") {
		t.Error("a figure of our own is not known to the page")
	}
	both := filepath.Join(out, "both.html")
	copied := damaged(t)
	r := tandem(t, "compare", dir, copied, "--html", both)
	for _, want := range []string{"trained", "20 of 20", "recipes\nare the same\n", both + "\n"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("%v lacks %q", r, want)
		}
	}
	if !exists(both) {
		t.Error("there is no page")
	}
	refused(t, 2, []string{"report", out}, out, "there is no run")
	refused(t, 2, []string{"report", dir, "-o", filepath.Join(out, "none", "page.html")}, "write "+filepath.Join(out, "none", "page.html"), "no such file")
	refused(t, 2, []string{"compare", dir}, "requires at least 2")
}
