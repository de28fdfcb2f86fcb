package eval

import (
	"bytes"
	"fmt"
	"html/template"
	"path/filepath"
	"strings"

	_ "embed"

	"tandem/trainer/page"
)

// Report writes summary.json, summary.md and report.html, and returns the summary.
func (d *Dir) Report() (Summary, error) {
	s := Summarize(d)
	page, err := s.html(d)
	if err != nil {
		return s, fmt.Errorf("evaluation: report: %w", err)
	}
	for _, f := range []struct {
		name string
		text []byte
	}{{"summary.json", indented(s)}, {"summary.md", []byte(s.Markdown())}, {"report.html", page}} {
		if err := d.write(f.name, f.text); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Markdown is the summary as a table.
func (s Summary) Markdown() string {
	n := s.Settings.Samples
	var b strings.Builder
	fmt.Fprintf(&b, "| data | problems | budget | avg@%d | 95 %% interval |", n)
	for _, k := range ks(n) {
		fmt.Fprintf(&b, " pass@%d |", k)
	}
	fmt.Fprintf(&b, " maj@%d | tokens | truncated | no answer |\n|%s\n", n, strings.Repeat("---|", 9+len(ks(n))))
	for _, set := range s.Sets {
		for _, x := range set.Budgets {
			fmt.Fprintf(&b, "| %s | %d | %d | %.3f | %.3f to %.3f |", set.Name, set.Problems, x.Budget, x.Avg.Value, x.Avg.Low, x.Avg.High)
			for _, p := range x.Pass {
				fmt.Fprintf(&b, " %.3f |", p.Value)
			}
			fmt.Fprintf(&b, " %.3f | %.1f | %.1f %% | %.1f %% |\n", x.Maj.Value, x.Length, 100*x.Truncated, 100*x.NoAnswer)
		}
	}
	if s.Settings.Tools != nil {
		b.WriteString("\n| data | turns | samples that call | calls of a sample | failed calls |\n|---|---|---|---|---|\n")
	}
	for _, set := range s.Sets {
		if u := set.Tools; u != nil {
			fmt.Fprintf(&b, "| %s | %.2f | %.1f %% | %.2f | %.1f %% |\n", set.Name, u.Turns, 100*u.Called, u.Calls, 100*u.Failed)
		}
	}
	return b.String()
}

//go:embed report.html.tmpl
var pageText string

// shown is the number of samples of each kind on the page.
const shown = 3

// html is a page that needs nothing but itself.
func (s Summary) html(d *Dir) ([]byte, error) {
	t, err := template.New("report").Funcs(template.FuncMap{
		"style":   page.Style,
		"f3":      func(v float64) string { return fmt.Sprintf("%.3f", v) },
		"percent": func(v float64) string { return fmt.Sprintf("%.1f %%", 100*v) },
		"curve":   func(x SetSummary) template.HTML { return template.HTML(curve(x)) },
		"bars":    func(x SetSummary) template.HTML { return template.HTML(rateBars(x)) },
		"lengths": func(name string) template.HTML {
			return template.HTML(histogram(lengths(d, name), s.Settings.Largest()))
		},
		"samples": func(name string) []Sample { return examples(d, name) },
		"last":    func(x SetSummary) BudgetSummary { return x.Budgets[len(x.Budgets)-1] },
	}).Parse(pageText)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, map[string]any{"Title": filepath.Base(d.path), "S": s})
	return b.Bytes(), err
}

func lengths(d *Dir, set string) []int {
	var out []int
	for _, s := range d.samples {
		if s.Set == set {
			out = append(out, len(s.Tokens))
		}
	}
	return out
}

// examples are the first right, wrong and truncated samples.
func examples(d *Dir, set string) []Sample {
	var out []Sample
	counts := make(map[string]int)
	for _, s := range d.samples {
		last := s.Scores[len(s.Scores)-1]
		kind := "wrong"
		if last.Right {
			kind = "right"
		} else if last.Truncated {
			kind = "truncated"
		}
		if s.Set == set && counts[kind] < shown {
			counts[kind]++
			out = append(out, s)
		}
	}
	return out
}
