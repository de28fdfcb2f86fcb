package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	_ "embed"

	"tandem/trainer/page"
)

//go:embed run.html.tmpl
var runPage string

// HTML is a page about the run that needs nothing but itself.
func (r *Run) HTML() ([]byte, error) { return render("run", runPage, r) }

func render(name, text string, data any) ([]byte, error) {
	t, err := template.New(name).Funcs(template.FuncMap{
		"style": page.Style, "script": page.Script, "number": page.Number, "seconds": page.Seconds, "title": title,
		"f3":    func(v float64) string { return fmt.Sprintf("%.3f", v) },
		"known": Known, "talk": talk, "list": func(v ...string) []string { return v },
	}).Parse(text)
	if err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	var b bytes.Buffer
	if err := t.Execute(&b, data); err != nil {
		return nil, fmt.Errorf("report: %w", err)
	}
	return b.Bytes(), nil
}

// A Tile is one of the numbers at the top.
type Tile struct{ Value, Text string }

// Tiles are what a person wants to know first.
func (r *Run) Tiles() []Tile {
	tiles := []Tile{{fmt.Sprintf("%d of %d", len(r.Steps), r.planned()), "steps"}}
	if r.stage() != "warmup" && len(r.values("reward")) > 0 {
		first, last := r.ends("reward")
		tiles = append(tiles, Tile{fmt.Sprintf("%.3f → %.3f", first, last), "mean reward, first and last 5 steps"})
	}
	for _, greedy := range []bool{true, false} {
		first, ok := r.eval(greedy, false)
		last, _ := r.eval(greedy, true)
		if ok {
			tiles = append(tiles, Tile{fmt.Sprintf("%.3f → %.3f", first.Accuracy, last.Accuracy), "held-out accuracy, " + how(greedy)})
		}
	}
	for _, f := range []struct{ name, text string }{{"sampled_per_second", "tokens/s sampled, median"}, {"trained_per_second", "tokens/s trained, median"}, {"power", "W drawn, median"}, {"clock", "MHz, median"}} {
		if v := slices.DeleteFunc(r.values(f.name), func(v float64) bool { return v == 0 }); len(v) > 0 {
			tiles = append(tiles, Tile{page.Number(median(v), ""), f.text})
		}
	}
	if v := r.values("wasted"); len(v) > 0 && r.stage() != "warmup" {
		tiles = append(tiles, Tile{page.Number(mean(v), "share"), "of sampled tokens taught nothing"})
	}
	_, seconds := r.Curve("seconds", "")
	tiles = append(tiles, Tile{page.Seconds(sum(seconds)), "in steps"})
	return tiles
}

func how(greedy bool) string {
	if greedy {
		return "greedy"
	}
	return "sampled"
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// A Section is the charts of a group.
type Section struct {
	Group  string
	Charts []template.HTML
}

// Sections are all charts but those of the time, a group at a time.
func (r *Run) Sections() []Section {
	var out []Section
	stage := r.stage()
	for _, group := range Groups() {
		s := Section{Group: group}
		if group == "time" {
			continue
		}
		if group == "reward" && len(r.Evaluations) > 0 {
			s.Charts = append(s.Charts, r.heldOut().HTML())
		}
		for _, p := range panels {
			if p.group == group {
				if c, ok := p.chart(r, stage); ok {
					s.Charts = append(s.Charts, c.HTML())
				}
			}
		}
		for _, name := range r.Figures() {
			f := Known(name)
			if f.Group != group || inPanel(name) {
				continue
			}
			x, y := r.Curve(name, stage)
			if steady(y) && (group != "other" || len(y) < 2) {
				continue // it is in the table of figures
			}
			c := page.Chart{Title: title(name), Note: f.Text, Unit: f.Unit, XLabel: "step", Smooth: true, Series: []page.Series{{X: x, Y: y}}}
			s.Charts = append(s.Charts, c.HTML())
		}
		for _, name := range r.lists() {
			if Known(name).Group == group {
				s.Charts = append(s.Charts, r.listed(name).HTML())
			}
		}
		if len(s.Charts) > 0 {
			out = append(out, s)
		}
	}
	return out
}

// steady says that a figure has one value at most.
func steady(y []float64) bool {
	seen := make(map[float64]bool)
	for _, v := range y {
		if v-v == 0 {
			seen[v] = true
		}
	}
	return len(seen) < 2
}

// heldOut is the score over the steps, with intervals.
func (r *Run) heldOut() page.Chart {
	c := page.Chart{Title: "held-out accuracy", Note: "95 % intervals; the samples of a problem count once", Unit: "share", XLabel: "steps done", Dots: true}
	for _, greedy := range []bool{true, false} {
		s := page.Series{Name: how(greedy)}
		for _, e := range r.Evaluations {
			if e.Greedy != greedy {
				continue
			}
			low, high := e.interval()
			s.X, s.Y, s.Low, s.High = append(s.X, float64(e.Step)), append(s.Y, e.Accuracy), append(s.Low, low), append(s.High, high)
		}
		if len(s.X) > 0 {
			c.Series = append(c.Series, s)
		}
	}
	return c
}

// lists are the names of figures of several numbers.
func (r *Run) lists() []string {
	seen := make(map[string]bool)
	for _, s := range r.Steps {
		for name := range s.Lists {
			seen[name] = true
		}
	}
	var names []string
	for name := range seen {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// listed is such a figure as areas on top of each other.
func (r *Run) listed(name string) page.Chart {
	f := Known(name)
	c := page.Chart{Title: title(name), Note: f.Text, Unit: f.Unit, XLabel: "step", Stacked: true}
	for _, s := range r.Steps {
		if s.Stage != r.stage() {
			continue
		}
		for i, v := range s.Lists[name] {
			if i == len(c.Series) {
				c.Series = append(c.Series, page.Series{Name: bucketName(name, i)})
			}
			c.Series[i].X, c.Series[i].Y = append(c.Series[i].X, float64(s.Step+1)), append(c.Series[i].Y, v)
		}
	}
	return c
}

func bucketName(name string, i int) string {
	if buckets := []string{"none", "below 1/4", "below 1/2", "below 3/4", "below all", "all"}; name == "pass_histogram" && i < len(buckets) {
		return buckets[i]
	}
	return fmt.Sprint(i)
}

// Time is where it went: all of it, and step by step.
func (r *Run) Time() []template.HTML {
	var bars []page.Bar
	c := page.Chart{Title: "time of a step by phase", Unit: "seconds", XLabel: "step", Stacked: true, Wide: true}
	for _, name := range r.phases() {
		x, y := r.Curve(name, "")
		label := title(strings.TrimSuffix(name, "_seconds"))
		if total := sum(zeros(y)); total > 0 {
			bars = append(bars, page.Bar{Name: label, Value: total})
			c.Series = append(c.Series, page.Series{Name: label, X: x, Y: y})
		}
	}
	return []template.HTML{page.Bars("time by phase, all steps", "seconds", bars), c.HTML()}
}

// phases are the figures that make up a step's time.
func (r *Run) phases() []string {
	var names []string
	for _, f := range figures {
		if strings.HasPrefix(f.Text, "phase: ") {
			names = append(names, f.Name)
		}
	}
	return names
}

func zeros(v []float64) []float64 {
	out := slices.Clone(v)
	for i := range out {
		if out[i]-out[i] != 0 {
			out[i] = 0
		}
	}
	return out
}

// A FigureRow is a figure in numbers.
type FigureRow struct {
	Figure
	First, Last, Mean, Min, Max string
}

// Rows are all figures in numbers, over the steps that count.
func (r *Run) Rows() []FigureRow {
	var rows []FigureRow
	for _, name := range r.Figures() {
		f, v := Known(name), r.values(name)
		if len(v) == 0 {
			continue
		}
		n := func(v float64) string { return page.Number(v, f.Unit) }
		rows = append(rows, FigureRow{f, n(v[0]), n(v[len(v)-1]), n(mean(v)), n(slices.Min(v)), n(slices.Max(v))})
	}
	return rows
}

// ScoreRow is an evaluation as a row.
type ScoreRow struct {
	Evaluation
	How       string
	Low, High float64
}

// Scores are the evaluations as rows.
func (r *Run) Scores() []ScoreRow {
	var rows []ScoreRow
	for _, e := range r.Evaluations {
		low, high := e.interval()
		how := "greedy"
		if !e.Greedy {
			how = fmt.Sprintf("sampled, %d of each", e.Samples)
		}
		rows = append(rows, ScoreRow{e, how, low, high})
	}
	return rows
}

// shownReplies is the number of replies of a kind on the page.
const shownReplies = 4

// A Kind is replies that were chosen for the same reason.
type Kind struct {
	Name    string
	Replies []Reply
}

// Kinds are the latest replies of each kind, and those of the last evaluations.
func (r *Run) Kinds() []Kind {
	var out []Kind
	for _, name := range []string{"best", "worst", "truncated", "first", ""} {
		k := Kind{Name: name}
		for _, reply := range slices.Backward(r.Replies) {
			if reply.Shown == name && len(k.Replies) < shownReplies {
				k.Replies = append(k.Replies, reply)
			}
		}
		if name == "" {
			k.Name = "others"
		}
		if len(k.Replies) > 0 {
			out = append(out, k)
		}
	}
	for _, greedy := range []bool{true, false} {
		if e, ok := r.eval(greedy, true); ok && len(e.Replies) > 0 {
			out = append(out, Kind{"held out, " + how(greedy), e.Replies})
		}
	}
	return out
}

// A Turn is a part of a reply on the page.
type Turn struct {
	Kind string // model, call or tool
	Who  string
	Text string
}

// talk is a reply as a conversation: calls of tools stand apart from what the model wrote around them.
func talk(r Reply) []Turn {
	said := r.Conversation
	if len(said) == 0 {
		said = []Said{{Who: "model", Text: r.Reply}}
	}
	var out []Turn
	for _, s := range said {
		switch {
		case s.Who == "model":
			out = append(out, calls(s.Text)...)
		case s.Failure != "":
			out = append(out, Turn{"tool", s.Who + ": " + s.Failure, s.Text})
		default:
			out = append(out, Turn{"tool", s.Who, s.Text})
		}
	}
	return out
}

// calls cuts the text of a model at its tool calls, and shows the code in them as code.
func calls(text string) []Turn {
	const open, end = "<tool_call>", "</tool_call>"
	var out []Turn
	add := func(kind, text string) {
		if text = strings.TrimSpace(text); text != "" {
			out = append(out, Turn{kind, kind, text})
		}
	}
	for {
		before, rest, found := strings.Cut(text, open)
		add("model", before)
		if !found {
			return out
		}
		call, after, _ := strings.Cut(rest, end)
		add("call", callText(call))
		text = after
	}
}

// callText is a call for people: its arguments with real line breaks, or as it is where it cannot be read.
func callText(call string) string {
	var c struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	}
	if json.Unmarshal([]byte(call), &c) != nil || c.Name == "" {
		return call
	}
	var b strings.Builder
	b.WriteString(c.Name)
	var keys []string
	for key := range c.Arguments {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		fmt.Fprintf(&b, "\n%s:\n%v", key, c.Arguments[key])
	}
	return b.String()
}
