package eval

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/engine"
	"tandem/kernels"
	"tandem/model"
	"tandem/trainer/env"
	"tandem/trainer/reward"
)

func TestPassAtK(t *testing.T) {
	for _, tt := range []struct {
		n, c, k int
		want    float64
		ok      bool
	}{
		{4, 1, 2, 0.5, true}, {200, 1, 1, 0.005, true}, {4, 0, 2, 0, true}, {4, 3, 2, 1, true}, {5, 5, 5, 1, true}, {16, 1, 16, 1, true},
		{2, 0, 5, 0, false}, {4, 1, 0, 0, false},
	} {
		got, ok := PassAtK(tt.n, tt.c, tt.k)
		if ok != tt.ok || math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("pass@%d of %d with %d right: %v, %v, want %v, %v", tt.k, tt.n, tt.c, got, ok, tt.want, tt.ok)
		}
	}
}

func scores(answers string, right string) []Score {
	var out []Score
	for a := range strings.SplitSeq(answers, " ") {
		if a == "-" {
			a = ""
		}
		out = append(out, Score{Given: a, Right: a == right})
	}
	return out
}

func TestMajority(t *testing.T) {
	for _, tt := range []struct {
		answers string
		want    float64
	}{
		{"7 7 8 9", 1}, {"8 8 7", 0}, {"7 8", 1}, {"8 7", 0}, {"- - - 7", 1}, {"- -", 0},
	} {
		if got := Majority(scores(tt.answers, "7")); got != tt.want {
			t.Errorf("votes %s: %v, want %v", tt.answers, got, tt.want)
		}
	}
}

func TestEstimateCoversTheMean(t *testing.T) {
	// Of 400 intervals of 60 fair coins about 95 % hold 0.5.
	covered := 0
	state := uint64(1)
	for range 400 {
		values := make([]float64, 60)
		for i := range values {
			r := kernels.Philox(state, uint32(i), 0, 0, 0)
			values[i] = float64(r[0] & 1)
		}
		state++
		if e := estimate(values); e.Low <= 0.5 && 0.5 <= e.High {
			covered++
		}
	}
	if covered < 360 || covered > 396 {
		t.Errorf("%d of 400 intervals hold the mean, want about 380", covered)
	}
	if e := estimate([]float64{1, 1, 1}); e != (Estimate{1, 1, 1}) {
		t.Errorf("all right: %+v", e)
	}
}

// sampler answers problems with a random model of 12 tokens, where token 11 ends a reply and the others are digits and a
// box that is closed by 10.
func sampler(t *testing.T) *Sampler {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUConfig{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := model.Shape("tiny")
	if err != nil {
		t.Fatal(err)
	}
	c.Vocab, c.Live, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.MLP, c.InitRange = 12, 12, 16, 1, 2, 1, 16, 16, 0.3
	w, err := model.NewWeights(dev, c, kernels.BF16, 64)
	if err != nil {
		t.Fatal(err)
	}
	x, err := kernels.NewTransfer(dev)
	if err == nil {
		err = model.Random(x, w, 3)
	}
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.New(dev, w, engine.Config{Pages: 8, Seqs: 4, Rows: 16, Context: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.Close()
		dev.Close()
	})
	g, err := reward.New("math")
	if err != nil {
		t.Fatal(err)
	}
	return &Sampler{
		Engine: e, Grader: g, Stop: []int32{11},
		Env: once{},
		Text: func(tokens []int32) string {
			var b strings.Builder
			for _, tok := range tokens {
				switch {
				case tok < 9:
					fmt.Fprintf(&b, `\boxed{%d`, tok%3)
				case tok < 11:
					b.WriteString("}")
				}
			}
			return b.String()
		},
	}
}

// once asks for one turn.
type once struct{}

func (once) Start(p env.Problem) (*env.Episode, error) {
	return &env.Episode{Problem: p, Tokens: []int32{int32(p.ID)}}, nil
}

func (once) Step(context.Context, *env.Episode, env.Reply) (env.Turn, error) {
	return env.Turn{Done: true}, nil
}

func sets() []Set {
	var ps []env.Problem
	for i := range 6 {
		ps = append(ps, env.Problem{ID: i, Answer: fmt.Sprint(i % 3)})
	}
	return []Set{{"one", ps[:4]}, {"two", ps[2:]}}
}

func settings(budgets ...int) Settings {
	return Settings{Model: "m", Sets: []string{"one=a", "two=b"}, Samples: 5, Budgets: budgets, Template: "none", Grader: "math", Temperature: 1, Seed: 4}
}

func run(t *testing.T, s *Sampler, path string, cfg Settings) *Dir {
	t.Helper()
	d, err := Open(path, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	if err := s.Run(context.Background(), d, sets(), nil); err != nil {
		t.Fatal(err)
	}
	return d
}

// TestBudgetsEqualSeparateRuns compares one run at the largest budget with a run at each.
func TestBudgetsEqualSeparateRuns(t *testing.T) {
	s := sampler(t)
	all := run(t, s, filepath.Join(t.TempDir(), "all"), settings(2, 5, 11, 30))
	truncated := 0
	for b, budget := range all.Settings().Budgets {
		alone := run(t, s, filepath.Join(t.TempDir(), "alone"), settings(budget))
		for i, x := range all.Samples() {
			y := alone.Samples()[i]
			if diff := cmp.Diff(y.Scores[0], x.Scores[b]); diff != "" {
				t.Errorf("budget %d, sample %d: %s", budget, i, diff)
			}
			if diff := cmp.Diff(y.Tokens, x.Tokens[:len(y.Tokens)]); diff != "" {
				t.Errorf("budget %d, sample %d: %s", budget, i, diff)
			}
			if x.Scores[b].Truncated {
				truncated++
			}
		}
	}
	if n := len(all.Samples()); truncated == 0 || truncated == 4*n {
		t.Errorf("%d of %d scores are of truncated samples: the test says little", truncated, 4*n)
	}
}

// twice tells three tokens after the first turn.
type twice struct{ once }

func (twice) Step(_ context.Context, e *env.Episode, r env.Reply) (env.Turn, error) {
	if len(e.Past) > 0 || r.Room < 3 {
		return env.Turn{Done: true, End: map[bool]env.End{true: env.Truncated, false: env.Answered}[r.Truncated]}, nil
	}
	return env.Turn{Append: []int32{1, 2, 3}, Calls: []env.Call{{Tool: "t", Failure: map[bool]string{true: "error"}[e.Problem.ID%2 == 0]}}}, nil
}

// TestBudgetsOfSeveralTurns cuts samples of two turns anywhere: in the first turn, in what was told, in the second.
func TestBudgetsOfSeveralTurns(t *testing.T) {
	s := sampler(t)
	s.Env = twice{}
	budgets := []int{1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 30}
	cfg := settings(budgets...)
	cfg.Tools = &Tools{Name: "t"}
	d := run(t, s, filepath.Join(t.TempDir(), "twice"), cfg)
	turns := 0
	for i, x := range d.Samples() {
		if len(x.Spans) == 0 {
			x.Spans = [][2]int{{0, len(x.Tokens)}}
		}
		turns += len(x.Spans)
		for b, budget := range budgets {
			n := min(budget, len(x.Tokens))
			text := ""
			for _, at := range x.Spans {
				switch {
				case at[0] < n && n <= at[1]:
					text = s.Text(x.Tokens[at[0]:n])
				case at[1] < n:
					text = ""
				}
			}
			want := s.Grader.Grade(text, x.Answer)
			got := x.Scores[b]
			if got.Right != (want.Score > 0) || got.Given != want.Given || got.Tokens != n || got.Truncated != (n < len(x.Tokens) || x.Stop == "length") {
				t.Errorf("sample %d, spans %v, budget %d: %+v, want %+v", i, x.Spans, budget, got, want)
			}
		}
	}
	u := Summarize(d).Sets[0].Tools
	if turns <= len(d.Samples()) || u.Turns <= 1 || u.Called <= 0 || u.Failed <= 0 || u.Failed >= 1 {
		t.Errorf("%d turns of %d samples, %+v", turns, len(d.Samples()), u)
	}
	again := run(t, s, filepath.Join(t.TempDir(), "again"), cfg)
	if diff := cmp.Diff(d.Samples(), again.Samples()); diff != "" {
		t.Error(diff)
	}
}

// TestInterruptedRunsGoOn stops a run at several samples, spoils the last line as a killed process would, and goes on.
func TestInterruptedRunsGoOn(t *testing.T) {
	s := sampler(t)
	whole := run(t, s, filepath.Join(t.TempDir(), "whole"), settings(5, 20))
	for _, at := range []int{1, 7, 39} {
		path := filepath.Join(t.TempDir(), "cut")
		d, err := Open(path, settings(5, 20))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		err = s.Run(ctx, d, sets(), func(done, total int) {
			if done == at {
				cancel()
			}
		})
		cancel()
		if at < 40 && !errors.Is(err, context.Canceled) && d.done() < 40 {
			t.Fatalf("stopped at %d: %v", at, err)
		}
		d.Close()
		f, err := os.OpenFile(filepath.Join(path, samplesFile), os.O_APPEND|os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(`{"set":"one","id":`); err != nil {
			t.Fatal(err)
		}
		f.Close()
		again := run(t, s, path, settings(5, 20))
		if diff := cmp.Diff(whole.Samples(), again.Samples()); diff != "" {
			t.Errorf("stopped at %d: %s", at, diff)
		}
		text := func(d *Dir) string {
			b, err := os.ReadFile(filepath.Join(d.path, samplesFile))
			if err != nil {
				t.Fatal(err)
			}
			return string(b)
		}
		if text(whole) != text(again) {
			t.Errorf("stopped at %d: the files differ", at)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "e")
	d, err := Open(path, settings(5))
	if err != nil {
		t.Fatal(err)
	}
	d.Close()
	other := settings(5)
	other.Seed++
	if _, err := Open(path, other); err == nil || !strings.Contains(err.Error(), "other settings") {
		t.Errorf("other settings: %v", err)
	}
	for _, change := range []func(*Settings){
		func(s *Settings) { s.Budgets = nil }, func(s *Settings) { s.Budgets = []int{5, 5} }, func(s *Settings) { s.Budgets = []int{9, 5} },
		func(s *Settings) { s.Budgets = []int{0, 5} }, func(s *Settings) { s.Samples = 0 }, func(s *Settings) { s.Temperature = -1 },
		func(s *Settings) { s.Temperature = 0 }, func(s *Settings) { s.Sets = nil },
	} {
		s := settings(5)
		change(&s)
		if _, err := Open(filepath.Join(t.TempDir(), "x"), s); err == nil {
			t.Errorf("settings %+v were accepted", s)
		}
	}
}

func TestReportAndCompare(t *testing.T) {
	s := sampler(t)
	a := run(t, s, filepath.Join(t.TempDir(), "a"), settings(5, 20))
	cfg := settings(5, 20)
	cfg.Seed = 99
	b := run(t, s, filepath.Join(t.TempDir(), "b"), cfg)
	sum, err := a.Report()
	if err != nil {
		t.Fatal(err)
	}
	if len(sum.Sets) != 2 || sum.Sets[0].Problems != 4 || len(sum.Sets[0].Budgets) != 2 || len(sum.Sets[0].Budgets[0].Pass) != 4 {
		t.Errorf("summary %+v", sum)
	}
	for _, x := range sum.Sets[0].Budgets {
		if x.Avg.Low > x.Avg.Value || x.Avg.High < x.Avg.Value || math.Abs(x.Pass[0].Value-x.Avg.Value) > 1e-12 || x.Pass[3].Value < x.Avg.Value {
			t.Errorf("budget %d: %+v", x.Budget, x)
		}
	}
	page, err := os.ReadFile(filepath.Join(a.path, "report.html"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(page), "<svg"); n != 6 || strings.Contains(string(page), "http") || strings.Contains(string(page), "ZgotmplZ") {
		t.Errorf("the page has %d plots, want 6, and nothing from elsewhere", n)
	}
	read, err := Read(a.path)
	if err != nil {
		t.Fatal(err)
	}
	same, err := Compare(read, a)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range same {
		if d.Diff.Value != 0 || d.Distinguishable() {
			t.Errorf("an evaluation differs from itself: %+v", d)
		}
	}
	diff, err := Compare(a, b)
	if err != nil || len(diff) != 4 {
		t.Fatalf("%d differences, %v", len(diff), err)
	}
	if !strings.Contains(Table(same), "not distinguishable at this n") {
		t.Error("the table does not say what cannot be told apart")
	}
}
