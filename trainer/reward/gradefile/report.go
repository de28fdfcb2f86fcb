package gradefile

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"tandem/trainer/reward"
)

// labelFlags are the fields that say whether a response is right.
var labelFlags = []string{"correct", "is_correct", "label_correct"}

// A labelled row is a response, its gold answer, and whether it is right.
type labelled struct {
	response, gold string
	right          bool
	level          string // of a collected case: must, should or convention
}

// maxExamples bounds the disagreements that a report quotes per grader and kind.
const maxExamples = 5

// Confusion counts what one grader says about labelled rows against the labels.
type Confusion struct {
	Name                                 string
	TruePos, FalsePos, TrueNeg, FalseNeg int
	Unreadable                           int // gold answers the grader cannot read; their rows are wrong to it
	Time                                 time.Duration
	FalsePosExamples, FalseNegExamples   []Example
	LevelRight, LevelTotal               map[string]int
}

// An Example is a row on which a grader and the label disagree.
type Example struct {
	Line            int
	Gold, Extracted string
	Rule, Reason    string
}

// Errors is how many rows the grader and the labels disagree on.
func (c Confusion) Errors() int { return c.FalsePos + c.FalseNeg }

// Report runs every grader over a labelled file: rows with a response, a gold answer
// and a flag `correct`, or collected cases of kind grade_pair. Other cases are skipped.
// Rows are graded one after the other on one core, so that the times compare.
func Report(path string, o Options) ([]Confusion, error) {
	src, closeSource, err := open(path, strings.NewReader(""))
	if err != nil {
		return nil, err
	}
	out := make([]Confusion, len(o.Graders))
	for i, g := range o.Graders {
		out[i] = Confusion{Name: g.Name(), LevelRight: make(map[string]int), LevelTotal: make(map[string]int)}
	}
	err = reportRows(src, o, out)
	if err := errors.Join(err, closeSource()); err != nil {
		return nil, fmt.Errorf("report on %s: %w", path, err)
	}
	return out, nil
}

func reportRows(src source, o Options, out []Confusion) error {
	for {
		text, line, err := src.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		row, ok, err := readLabelled(text, o)
		if err != nil {
			return fmt.Errorf("line %d: %w", line, err)
		}
		if !ok {
			continue
		}
		for i, g := range o.Graders {
			out[i].judge(g, row, line)
		}
	}
}

// readLabelled reads one row; ok is false for a case that is no pair of answers.
func readLabelled(text []byte, o Options) (l labelled, ok bool, err error) {
	r, err := parseRow(text)
	if err != nil {
		return l, false, err
	}
	if kind, isCase := r.field("kind"); isCase {
		if string(kind) != `"grade_pair"` {
			return l, false, nil
		}
		return readCase(r)
	}
	if l.response, err = r.text(fields(o.ResponseField, responseFields)); err != nil {
		return l, false, err
	}
	if l.gold, err = r.text(fields(o.LabelField, labelFields)); err != nil {
		return l, false, err
	}
	flag, err := r.text(labelFlags)
	if err != nil {
		return l, false, err
	}
	l.right = flag == "true" || flag == "1"
	return l, true, nil
}

func readCase(r row) (l labelled, ok bool, err error) {
	answer, err := r.text([]string{"input.answer"})
	if err != nil {
		return l, false, err
	}
	if l.gold, err = r.text([]string{"input.gold"}); err != nil {
		return l, false, err
	}
	equal, _ := r.field("expect.equal")
	level, _ := r.field("level")
	if err := json.Unmarshal(level, &l.level); err != nil {
		return l, false, fmt.Errorf("field \"level\": %w", err)
	}
	// one text in which every grader looks where it looks for the answer
	l.response = "</think>\\boxed{" + answer + "}\nAnswer: " + answer
	l.right = string(equal) == "true"
	return l, true, nil
}

func (c *Confusion) judge(g reward.Grader, l labelled, line int) {
	if g.Check(l.gold) != nil {
		c.Unreadable++
	}
	start := time.Now()
	r := g.Grade(l.response, l.gold)
	c.Time += time.Since(start)
	given := r.Score == 1
	if l.level != "" {
		c.LevelTotal[l.level]++
		if given == l.right {
			c.LevelRight[l.level]++
		}
	}
	e := Example{line, l.gold, r.Extracted, r.Rule, r.Reason}
	switch {
	case given && l.right:
		c.TruePos++
	case given:
		c.FalsePos++
		c.FalsePosExamples = addExample(c.FalsePosExamples, e)
	case l.right:
		c.FalseNeg++
		c.FalseNegExamples = addExample(c.FalseNegExamples, e)
	default:
		c.TrueNeg++
	}
}

func addExample(list []Example, e Example) []Example {
	if len(list) < maxExamples {
		return append(list, e)
	}
	return list
}

// WriteReport writes the tables of one file as Markdown.
func WriteReport(w io.Writer, path string, cs []Confusion) error {
	var s strings.Builder
	fmt.Fprintf(&s, "## %s\n\n", filepath.Base(path))
	s.WriteString("| grader | rows | right, scored 1 | wrong, scored 1 | wrong, not 1 | right, not 1 | errors | gold unreadable | µs a row |\n")
	s.WriteString("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	for _, c := range cs {
		n := c.TruePos + c.FalsePos + c.TrueNeg + c.FalseNeg
		fmt.Fprintf(&s, "| %s | %d | %d | %d | %d | %d | %d | %d | %.1f |\n",
			c.Name, n, c.TruePos, c.FalsePos, c.TrueNeg, c.FalseNeg, c.Errors(), c.Unreadable, float64(c.Time.Microseconds())/float64(max(n, 1)))
	}
	writeLevels(&s, cs)
	for _, c := range cs {
		writeExamples(&s, c.Name+" scores 1 where the label says wrong", c.FalsePosExamples, c.FalsePos)
		writeExamples(&s, c.Name+" does not score 1 where the label says right", c.FalseNegExamples, c.FalseNeg)
	}
	s.WriteByte('\n')
	_, err := io.WriteString(w, s.String())
	return err
}

func writeLevels(s *strings.Builder, cs []Confusion) {
	if len(cs) == 0 || len(cs[0].LevelTotal) == 0 {
		return
	}
	s.WriteString("\n| grader | must | should | convention |\n| --- | ---: | ---: | ---: |\n")
	for _, c := range cs {
		fmt.Fprintf(s, "| %s |", c.Name)
		for _, level := range []string{"must", "should", "convention"} {
			fmt.Fprintf(s, " %d of %d |", c.LevelRight[level], c.LevelTotal[level])
		}
		s.WriteByte('\n')
	}
}

func writeExamples(s *strings.Builder, title string, list []Example, total int) {
	if total == 0 {
		return
	}
	fmt.Fprintf(s, "\n%s (%d", title, total)
	if total > len(list) {
		fmt.Fprintf(s, ", the first %d", len(list))
	}
	s.WriteString("):\n\n")
	for _, e := range list {
		fmt.Fprintf(s, "- line %d: gold `%s`, extracted `%s`", e.Line, clip(e.Gold), clip(e.Extracted))
		if e.Rule != "" {
			fmt.Fprintf(s, ", by %s", e.Rule)
		}
		if e.Reason != "" {
			fmt.Fprintf(s, ": %s", clip(e.Reason))
		}
		s.WriteByte('\n')
	}
}

// clip shortens a text to what fits a line of a report.
func clip(text string) string {
	const most = 80
	text = strings.ReplaceAll(text, "\n", " ")
	if r := []rune(text); len(r) > most {
		return string(r[:most]) + "..."
	}
	return text
}
