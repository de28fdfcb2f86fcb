package report

import (
	"fmt"
	"html/template"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	_ "embed"

	"tandem/trainer/page"
)

// A Comparison is runs side by side.
type Comparison struct {
	Runs []*Run
}

// Compare reads runs. Two of one name get the names of the directories that they are in, too.
func Compare(paths []string) (*Comparison, error) {
	c := &Comparison{}
	count := make(map[string]int)
	for _, path := range paths {
		r, err := Load(path)
		if err != nil {
			return nil, err
		}
		count[r.Name]++
		c.Runs = append(c.Runs, r)
	}
	for _, r := range c.Runs {
		if count[r.Name] > 1 {
			if full, err := filepath.Abs(r.Path); err == nil {
				r.Name = filepath.Base(filepath.Dir(full)) + "/" + r.Name
			}
		}
	}
	return c, nil
}

// Names are those of the runs.
func (c *Comparison) Names() []string {
	var names []string
	for _, r := range c.Runs {
		names = append(names, r.Name)
	}
	return names
}

// A Row is one value of each run.
type Row struct {
	Name   string
	Values []string
}

func (c *Comparison) row(name string, value func(*Run) (string, bool)) (Row, bool) {
	row, any := Row{Name: name}, false
	for _, r := range c.Runs {
		v, ok := value(r)
		if !ok {
			v = "–"
		}
		any = any || ok
		row.Values = append(row.Values, v)
	}
	return row, any
}

// Summary is what runs came to.
func (c *Comparison) Summary() []Row {
	var rows []Row
	add := func(name string, value func(*Run) (string, bool)) {
		if row, any := c.row(name, value); any {
			rows = append(rows, row)
		}
	}
	add("steps", func(r *Run) (string, bool) { return fmt.Sprintf("%d of %d", len(r.Steps), r.planned()), true })
	add("time in steps", func(r *Run) (string, bool) {
		_, y := r.Curve("seconds", "")
		return page.Seconds(sum(zeros(y))), len(y) > 0
	})
	for _, greedy := range []bool{true, false} {
		for _, last := range []bool{false, true} {
			when := "before"
			if last {
				when = "after"
			}
			add(fmt.Sprintf("held-out accuracy, %s, %s", how(greedy), when), func(r *Run) (string, bool) {
				e, ok := r.eval(greedy, last)
				low, high := e.interval()
				return fmt.Sprintf("%.3f (%.3f to %.3f)", e.Accuracy, low, high), ok
			})
		}
	}
	for _, name := range []string{"reward", "pass_rate", "length", "truncated", "wasted", "entropy", "clipped", "ratio", "grad_norm", "mismatch", "reference_kl"} {
		f := Known(name)
		add(title(name)+", first and last 5 steps", func(r *Run) (string, bool) {
			first, last := r.ends(name)
			return page.Number(first, f.Unit) + " → " + page.Number(last, f.Unit), r.stage() != "warmup" && len(zeroless(r.values(name))) > 0
		})
	}
	for _, f := range []struct{ name, title string }{
		{"sampled_per_second", "sampled tokens/s"}, {"trained_per_second", "trained tokens/s"},
		{"power", "power, W"}, {"clock", "clock, MHz"}, {"memory_clock", "memory clock, MHz"}, {"energy_per_token", "energy of a sampled token, J"},
	} {
		name := f.name
		add(f.title+", median", func(r *Run) (string, bool) {
			v := zeroless(r.values(name))
			if len(v) == 0 {
				return "", false
			}
			return page.Number(median(v), ""), true
		})
	}
	add("throttled, mean", func(r *Run) (string, bool) {
		v := r.values("throttled")
		return page.Number(mean(v), "share"), len(v) > 0
	})
	add("memory taken", func(r *Run) (string, bool) {
		v := r.values("memory")
		if len(v) == 0 {
			return "", false
		}
		return page.Number(v[len(v)-1], "bytes"), true
	})
	return rows
}

// Differences are the keys of the recipes that are not the same in all runs.
func (c *Comparison) Differences() []Row {
	keys := make(map[string]bool)
	for _, r := range c.Runs {
		for key := range r.Settings {
			keys[key] = true
		}
	}
	var rows []Row
	for key := range keys {
		row, _ := c.row(key, func(r *Run) (string, bool) { v, ok := r.Settings[key]; return v, ok })
		if slices.ContainsFunc(row.Values, func(v string) bool { return v != row.Values[0] }) {
			rows = append(rows, row)
		}
	}
	slices.SortFunc(rows, func(a, b Row) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// Text is the comparison for a terminal: one column a run.
func (c *Comparison) Text() string {
	var b strings.Builder
	header := Row{"", c.Names()}
	table(&b, append([]Row{header}, c.Summary()...))
	b.WriteString("\nrecipes\n")
	if diff := c.Differences(); len(diff) > 0 {
		table(&b, diff)
	} else {
		b.WriteString("are the same\n")
	}
	return b.String()
}

// table writes columns, as wide as what is in them. Control characters, which a name may have, move no cursor.
func table(b *strings.Builder, rows []Row) {
	var widths []int
	for i := range rows {
		for k, cell := range append([]string{rows[i].Name}, rows[i].Values...) {
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range rows {
		var line strings.Builder
		for k, cell := range append([]string{row.Name}, row.Values...) {
			cell = strings.Map(func(r rune) rune {
				if r < ' ' || r == 0x7f {
					return utf8.RuneError
				}
				return r
			}, cell)
			line.WriteString(cell + strings.Repeat(" ", widths[k]-utf8.RuneCountInString(cell)+2))
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
}

//go:embed compare.html.tmpl
var comparePage string

// HTML is the comparison as a page that needs nothing but itself.
func (c *Comparison) HTML() ([]byte, error) { return render("compare", comparePage, c) }

// Sections are the curves of all figures, one line a run, a group at a time. The time is left to the pages of the runs.
func (c *Comparison) Sections() []Section {
	var out []Section
	for _, group := range Groups() {
		s := Section{Group: group}
		if group == "reward" {
			for _, greedy := range []bool{true, false} {
				if chart, ok := c.heldOut(greedy); ok {
					s.Charts = append(s.Charts, chart)
				}
			}
		}
		for _, name := range c.figures() {
			f := Known(name)
			if f.Group != group || group == "time" && name != "seconds" {
				continue
			}
			chart := page.Chart{Title: title(name), Note: f.Text, Unit: f.Unit, XLabel: "step", Smooth: true}
			same := true
			for _, r := range c.Runs {
				x, y := r.Curve(name, r.stage())
				chart.Series = append(chart.Series, page.Series{Name: r.Name, X: x, Y: y})
				same = same && steady(y) && slices.Equal(y, chart.Series[0].Y)
			}
			if !same {
				s.Charts = append(s.Charts, chart.HTML())
			}
		}
		if len(s.Charts) > 0 {
			out = append(out, s)
		}
	}
	return out
}

func (c *Comparison) heldOut(greedy bool) (template.HTML, bool) {
	chart := page.Chart{Title: "held-out accuracy, " + how(greedy), Note: "95 % intervals; the samples of a problem count once", Unit: "share", XLabel: "steps done", Dots: true}
	any := false
	for _, r := range c.Runs {
		s := page.Series{Name: r.Name}
		for _, e := range r.Evaluations {
			if e.Greedy == greedy {
				low, high := e.interval()
				s.X, s.Y, s.Low, s.High = append(s.X, float64(e.Step)), append(s.Y, e.Accuracy), append(s.Low, low), append(s.High, high)
				any = true
			}
		}
		chart.Series = append(chart.Series, s)
	}
	return chart.HTML(), any
}

// figures are those of any of the runs, in the order of the first that has them.
func (c *Comparison) figures() []string {
	var names []string
	for _, r := range c.Runs {
		for _, name := range r.Figures() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}
