package report

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var write = flag.Bool("write", false, "write docs/metrics.md")

const metricsHead = `# Figures of a step

` + "`metrics.jsonl`" + ` in a run directory has one object a step. Names stay as they are; a figure that is no number is null. Beside
the figures, ` + "`step`" + ` counts from 0, warm-up included, ` + "`stage`" + ` is warmup or grpo, and ` + "`replayed`" + ` says that the replies came from
the log of an earlier process. In TensorBoard a figure has its group before its name: ` + "`reward/pass_rate`" + `.

What is told by a card itself (the group hardware, ` + "`memory_card`" + `) is read four times a second while a step goes on. A figure
that the card does not tell is left out, and so are all of them on the CPU. They decide nothing.

This page is written by ` + "`go test ./trainer/report -run Documented -write`" + ` from trainer/report/figures.go.
`

func metricsPage() string {
	var b strings.Builder
	b.WriteString(metricsHead)
	for _, group := range Groups() {
		rows := 0
		for _, f := range Figures() {
			if f.Group != group {
				continue
			}
			if rows == 0 {
				b.WriteString("\n## " + group + "\n\n| figure | unit | |\n|---|---|---|\n")
			}
			rows++
			b.WriteString("| `" + f.Name + "` | " + f.Unit + " | " + f.Text + " |\n")
		}
	}
	b.WriteString("\n## of the line\n\n| | |\n|---|---|\n| `step` | steps done before it |\n| `stage` | warmup or grpo |\n| `replayed` | true if the replies came from the log |\n")
	return b.String()
}

func TestFiguresAreDocumented(t *testing.T) {
	path := filepath.Join("..", "..", "docs", "metrics.md")
	want := metricsPage()
	if *write {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Error("docs/metrics.md is not what trainer/report/figures.go says: go test ./trainer/report -run Documented -write")
	}
}

func TestFiguresAreKnownOnce(t *testing.T) {
	seen := make(map[string]bool)
	for _, f := range Figures() {
		if seen[f.Name] || f.Text == "" || !slices.Contains(Groups(), f.Group) {
			t.Errorf("%+v is listed twice, says nothing or is in no group", f)
		}
		seen[f.Name] = true
	}
	if f := Known("tool_wait_seconds"); f.Group != "tools" || f.Unit != "seconds" {
		t.Errorf("an unknown figure is %+v", f)
	}
}
