package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func sums(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	for i := range 12 {
		fmt.Fprintf(&b, `{"problem": "%d+%d=?", "answer": %d}`+"\n", 10+7*i, 99-5*i, 109+2*i)
	}
	return write(t, "sums.jsonl", b.String())
}

func evalArgs(t *testing.T, out, data string) []string {
	t.Helper()
	return []string{"eval", "--model", need(t, shared.tiny), "--data", "sums=" + data, "--data", "few=" + data + "@[:3]", "--n", "16",
		"--budgets", "4,12,40", "--context", "64", "--grader", "math", "--out", out}
}

// TestKilledEvaluationsGoOn kills an evaluation at several moments: no sample is lost or doubled, and the files are those
// of one that was never killed.
func TestKilledEvaluationsGoOn(t *testing.T) {
	t.Parallel()
	data := sums(t)
	whole, cut := filepath.Join(t.TempDir(), "e"), filepath.Join(t.TempDir(), "e")
	r := tandem(t, evalArgs(t, whole, data)...)
	if !strings.Contains(r.stdout, "| sums | 12 | 40 |") || !strings.Contains(r.stdout, "| few | 3 | 4 |") {
		t.Errorf("the table: %s", r.stdout)
	}
	kills := 0
	for n := range 4 {
		p := shared.start(evalArgs(t, cut, data)...)
		for begun := time.Now(); p.running() && lineCount(cut, "samples.jsonl") < 40*n+5 && time.Since(begun) < patience; {
			time.Sleep(time.Millisecond)
		}
		if p.running() {
			kills++
			_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended
		}
		p.wait()
	}
	tandem(t, evalArgs(t, cut, data)...)
	if kills == 0 {
		t.Error("no process was killed")
	}
	for _, file := range []string{"settings.json", "samples.jsonl", "summary.json", "summary.md", "report.html"} {
		if read(t, filepath.Join(cut, file)) != read(t, filepath.Join(whole, file)) {
			t.Errorf("%s differs", file)
		}
	}
	same := tandem(t, "eval", "compare", whole, cut)
	if strings.Count(same.stdout, "not distinguishable at this n") != 6 {
		t.Errorf("an evaluation compared with itself: %s", same.stdout)
	}
}

func TestEvaluationsRefuse(t *testing.T) {
	t.Parallel()
	data := sums(t)
	out := filepath.Join(t.TempDir(), "e")
	with := func(more ...string) []string { return append(evalArgs(t, out, data), more...) }
	refused(t, 2, with("--budgets", "3"), "budgets [4 12 40 3]", "ascending")
	refused(t, 2, with("--budgets", "60"), "sums, row 1", "exceed the context of 64")
	refused(t, 2, with("--data", "sums="+data), "two sets of that name")
	refused(t, 2, with("--data", data), "want NAME=FILE")
	refused(t, 2, with("--grader", "none"), `grader "none"`)
	refused(t, 2, with("--temperature", "0"), "temperature 0", "same one")
	refused(t, 2, evalArgs(t, out, write(t, "none.jsonl", `{"problem": "1+1=?"}`)), "none with a problem and an answer")
	refused(t, 2, []string{"eval", "compare", out, out}, "settings.json")
	if err := os.MkdirAll(out, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(out, "settings.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, 2, with(), "settings.json", "unexpected end")
}
