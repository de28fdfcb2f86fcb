package gradefile

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"

	"tandem/trainer/reward"
)

// Fields that are looked for where the caller names none.
var (
	responseFields = []string{"response", "completion", "output", "text"}
	labelFields    = []string{"label", "gold", "answer", "ground_truth", "reward_model.ground_truth"}
)

// Options say what to grade and how.
type Options struct {
	Graders       []reward.Grader
	ResponseField string // "" looks for the usual names
	LabelField    string
	Workers       int                       // 0 is one per core
	BadRow        func(line int, err error) // told of every row that could not be graded, in order
	Progress      func(read, total int64)   // bytes or rows of the file; total is 0 where unknown
}

// A Tally is what one grader said about a file.
type Tally struct {
	Name    string
	Graded  int
	Right   int // score 1
	Sum     float64
	Reasons map[string]int
}

// A Summary is what happened to a file.
type Summary struct {
	Rows, Bad int
	Tallies   []Tally
}

// Batches keep the goroutines from meeting at every row; bytes bound them where rows are large.
const (
	batchRows  = 64
	batchBytes = 1 << 20
)

type input struct {
	text []byte
	line int
}

type problem struct {
	line int
	err  error
}

// A batch is rows on their way from the reader to the writer.
type batch struct {
	in       []input
	out      bytes.Buffer
	tallies  []Tally
	problems []problem
	read     int64
	total    int64
	ready    chan struct{}
}

// File grades the file at path ("-" is stdin) into out and returns when every row is
// written. Rows that cannot be read are left out and counted as bad; rows whose label
// a grader cannot read are written with the error in the grader's place and counted too.
func File(ctx context.Context, path string, stdin io.Reader, out io.Writer, o Options) (Summary, error) {
	src, closeSource, err := open(path, stdin)
	if err != nil {
		return Summary{}, err
	}
	s, err := run(ctx, src, out, o)
	if err := errors.Join(err, closeSource()); err != nil {
		return s, fmt.Errorf("grade %s: %w", path, err)
	}
	return s, nil
}

// run moves batches from one reader through the workers to the writer, which takes them
// in the order they were read. The channel of pending batches bounds memory.
func run(ctx context.Context, src source, out io.Writer, o Options) (Summary, error) {
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pending := make(chan *batch, 4*workers)
	work := make(chan *batch, 4*workers)
	readErr := make(chan error, 1)
	go func() {
		readErr <- read(ctx, src, pending, work)
		close(pending)
		close(work)
	}()
	finished := make(chan struct{})
	for range workers {
		go func() {
			for b := range work {
				b.grade(o)
				close(b.ready)
			}
			finished <- struct{}{}
		}()
	}
	s, err := write(pending, out, o)
	if err != nil { // let the reader stop and drain what it has queued
		cancel()
		for b := range pending {
			<-b.ready
		}
	}
	for range workers {
		<-finished
	}
	return s, errors.Join(err, <-readErr)
}

func read(ctx context.Context, src source, pending, work chan<- *batch) error {
	for {
		b := &batch{ready: make(chan struct{})}
		bytes := 0
		var err error
		for len(b.in) < batchRows && bytes < batchBytes {
			var in input
			if in.text, in.line, err = src.next(); err != nil {
				break
			}
			b.in = append(b.in, in)
			bytes += len(in.text)
		}
		b.read, b.total = src.progress()
		if len(b.in) > 0 {
			select {
			case pending <- b:
				work <- b
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func write(pending <-chan *batch, out io.Writer, o Options) (Summary, error) {
	w := bufio.NewWriterSize(out, 1<<20)
	s := Summary{Tallies: newTallies(o.Graders)}
	for b := range pending {
		<-b.ready
		if _, err := b.out.WriteTo(w); err != nil {
			return s, fmt.Errorf("write graded rows: %w", err)
		}
		s.Rows += len(b.in)
		s.Bad += len(b.problems)
		for i := range b.tallies {
			s.Tallies[i].add(b.tallies[i])
		}
		for _, p := range b.problems {
			if o.BadRow != nil {
				o.BadRow(p.line, p.err)
			}
		}
		if o.Progress != nil {
			o.Progress(b.read, b.total)
		}
	}
	if err := w.Flush(); err != nil {
		return s, fmt.Errorf("write graded rows: %w", err)
	}
	return s, nil
}

func newTallies(graders []reward.Grader) []Tally {
	out := make([]Tally, len(graders))
	for i, g := range graders {
		out[i] = Tally{Name: g.Name(), Reasons: make(map[string]int)}
	}
	return out
}

func (t *Tally) add(u Tally) {
	t.Graded += u.Graded
	t.Right += u.Right
	t.Sum += u.Sum
	for r, n := range u.Reasons {
		t.Reasons[r] += n
	}
}

// grade fills the batch's output.
func (b *batch) grade(o Options) {
	b.tallies = newTallies(o.Graders)
	labels := make(map[string][]error) // of this batch: the members of a group share their label
	for _, in := range b.in {
		if err := b.gradeRow(in.text, o, labels); err != nil {
			b.problems = append(b.problems, problem{in.line, err})
		}
	}
}

func (b *batch) gradeRow(text []byte, o Options, labels map[string][]error) error {
	r, err := parseRow(text)
	if err != nil {
		return err
	}
	response, err := r.text(fields(o.ResponseField, responseFields))
	if err != nil {
		return err
	}
	label, err := r.text(fields(o.LabelField, labelFields))
	if err != nil {
		return err
	}
	if _, ok := labels[label]; !ok {
		for _, g := range o.Graders {
			labels[label] = append(labels[label], g.Check(label))
		}
	}
	var first error
	var extra []member
	for i, g := range o.Graders {
		if err := labels[label][i]; err != nil {
			if first == nil {
				first = fmt.Errorf("grader %s: %w", g.Name(), err)
			}
			extra = append(extra, member{g.Name(), mustJSON(map[string]string{"error": err.Error()})})
			continue
		}
		res := g.Grade(response, label)
		b.tallies[i].count(res)
		extra = append(extra, member{g.Name(), mustJSON(object(res))})
	}
	b.out.Write(r.with(extra))
	return first
}

func fields(name string, usual []string) []string {
	if name != "" {
		return []string{name}
	}
	return usual
}

// maxReasonKinds bounds the summary; reasons that quote the answer are counted together.
const maxReasonKinds = 40

func (t *Tally) count(r reward.Result) {
	t.Graded++
	t.Sum += r.Score
	if r.Score == 1 {
		t.Right++
		return
	}
	reason, _, _ := strings.Cut(r.Reason, ": ") // the kind, without what it quotes
	if _, ok := t.Reasons[reason]; !ok && len(t.Reasons) >= maxReasonKinds {
		reason = "other"
	}
	t.Reasons[reason]++
}

// object is a Result as it stands in a row.
func object(r reward.Result) any {
	return struct {
		Score     float64 `json:"score"`
		Extracted string  `json:"extracted"`
		Given     string  `json:"given,omitempty"`
		Want      string  `json:"want,omitempty"`
		Rule      string  `json:"rule,omitempty"`
		Reason    string  `json:"reason"`
	}{r.Score, r.Extracted, r.Given, r.Want, r.Rule, r.Reason}
}

// mustJSON encodes values that always have a JSON form.
func mustJSON(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // \le and < stay readable
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
