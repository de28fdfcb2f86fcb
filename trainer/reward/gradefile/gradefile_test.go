package gradefile_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"

	"tandem/trainer/reward"
	"tandem/trainer/reward/gradefile"
)

func graders(t testing.TB, names ...string) []reward.Grader {
	var out []reward.Grader
	for _, n := range names {
		g, err := reward.New(n)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, g)
	}
	return out
}

type badRow struct {
	line int
	text string
}

// grade runs File on text and returns the output lines and the bad rows.
func grade(t testing.TB, text string, o gradefile.Options) ([]string, []badRow, gradefile.Summary) {
	t.Helper()
	var bad []badRow
	o.BadRow = func(line int, err error) { bad = append(bad, badRow{line, err.Error()}) }
	var out bytes.Buffer
	s, err := gradefile.File(context.Background(), "-", strings.NewReader(text), &out, o)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n"), bad, s
}

func TestFileKeepsRows(t *testing.T) {
	in := `{"id": 18446744073709551615, "response": "\\boxed{1{,}250}", "x": {"b":1,"a":2}, "label": 1250, "math": "old"}`
	lines, bad, _ := grade(t, in, gradefile.Options{Graders: graders(t, "math", "tandem")})
	want := `{"id":18446744073709551615,"response":"\\boxed{1{,}250}","x":{"b":1,"a":2},"label":1250,` +
		`"math":{"score":1,"extracted":"1{,}250","given":"1250","want":"1250","rule":"sympy","reason":""},` +
		`"tandem":{"score":1,"extracted":"1{,}250","given":"1250","want":"1250","rule":"identical","reason":""}}`
	if d := cmp.Diff([]string{want}, lines); d != "" || bad != nil {
		t.Errorf("bad rows %v; want -, got +:\n%s", bad, d)
	}
}

func TestFileFields(t *testing.T) {
	tests := []struct{ name, row, response, label string }{
		{"usual names", `{"completion":"\\boxed{7}","answer":"7"}`, "", ""},
		{"named", `{"out":"\\boxed{7}","want":"7","response":"no"}`, "out", "want"},
		{"nested", `{"response":"\\boxed{7}","reward_model":{"ground_truth":"7"}}`, "", ""},
		{"chat", `{"response":[{"role":"user","content":"?"},{"role":"assistant","content":"\\boxed{7}"}],"label":"7"}`, "", ""},
		{"number as label", `{"response":"\\boxed{7}","label":7.0}`, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, bad, s := grade(t, tt.row, gradefile.Options{Graders: graders(t, "tandem"), ResponseField: tt.response, LabelField: tt.label})
			if s.Tallies[0].Right != 1 || bad != nil {
				t.Errorf("%+v, bad rows %v", s, bad)
			}
		})
	}
}

func TestFileReportsBadRows(t *testing.T) {
	in := strings.Join([]string{
		`{"response":"\\boxed{1}","label":"1"}`,
		`not json`,
		``,
		`{"response":"\\boxed{1}"}`,
		`{"response":"\\boxed{1}","label":"\\frac{1"}`,
		`{"response":"\\boxed{2}","label":"2"} {}`,
		`{"response":"\\boxed{3}","label":"3"}`,
	}, "\n")
	lines, bad, s := grade(t, in, gradefile.Options{Graders: graders(t, "tandem")})
	var at []int
	for _, b := range bad {
		at = append(at, b.line)
	}
	if d := cmp.Diff([]int{2, 4, 5, 6}, at); d != "" {
		t.Errorf("lines of bad rows, want -, got +:\n%s%v", d, bad)
	}
	if s.Bad != 4 || s.Rows != 6 || s.Tallies[0].Right != 2 || len(lines) != 3 {
		t.Errorf("%d lines, %+v", len(lines), s)
	}
	if !strings.Contains(lines[1], `"tandem":{"error":"could not read the gold answer`) {
		t.Errorf("a row with an unreadable label reads %s", lines[1])
	}
}

// TestFileKeepsOrder grades rows that take very different times on many workers.
func TestFileKeepsOrder(t *testing.T) {
	var in strings.Builder
	const n = 3000
	for i := range n {
		answer := fmt.Sprint(i)
		if i%37 == 0 {
			answer = `\sin(` + strings.Repeat(`\sqrt{2+`, 20) + "x" + strings.Repeat("}", 20) + ")"
		}
		fmt.Fprintf(&in, `{"i":%d,"response":%q,"label":"%d"}`+"\n", i, `\boxed{`+answer+"}", i)
	}
	lines, bad, s := grade(t, in.String(), gradefile.Options{Graders: graders(t, "tandem", "dapo"), Workers: 7})
	if len(lines) != n || bad != nil || s.Rows != n {
		t.Fatalf("%d lines, %d rows, %d bad", len(lines), s.Rows, len(bad))
	}
	for i, line := range lines {
		var row struct{ I int }
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.I != i {
			t.Fatalf("line %d holds row %d (%v)", i, row.I, err)
		}
	}
}

// endless gives n rows without holding them.
type endless struct {
	n    int
	rest []byte
	peak uint64
}

func (e *endless) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		if e.n == 0 {
			return 0, io.EOF
		}
		if e.n--; e.n%5000 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			e.peak = max(e.peak, m.HeapAlloc)
		}
		e.rest = []byte(`{"response":"the rest of it is long ` + strings.Repeat("word ", 60) + `\\boxed{12}","label":"12"}` + "\n")
	}
	k := copy(p, e.rest)
	e.rest = e.rest[k:]
	return k, nil
}

func TestFileStreams(t *testing.T) {
	in := &endless{n: 20_000} // 7 MB of rows
	s, err := gradefile.File(context.Background(), "-", in, io.Discard, gradefile.Options{Graders: graders(t, "dapo-strict")})
	if err != nil || s.Rows != 20_000 {
		t.Fatal(s.Rows, err)
	}
	if in.peak > 48<<20 {
		t.Errorf("the heap reached %d MiB", in.peak>>20)
	}
}

type failingWriter struct{ left int }

func (w *failingWriter) Write(p []byte) (int, error) {
	if w.left -= len(p); w.left < 0 {
		return 0, errors.New("disk full")
	}
	return len(p), nil
}

func TestFileStopsWhenItCannotWrite(t *testing.T) {
	in := &endless{n: 1 << 40}
	_, err := gradefile.File(context.Background(), "-", in, &failingWriter{left: 3 << 20}, gradefile.Options{Graders: graders(t, "dapo-strict")})
	if err == nil || !strings.Contains(err.Error(), "disk full") {
		t.Errorf("error %v", err)
	}
}

func TestFileStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	rows := 0
	o := gradefile.Options{Graders: graders(t, "dapo-strict"), Progress: func(int64, int64) {
		if rows++; rows == 5 {
			cancel()
		}
	}}
	if _, err := gradefile.File(ctx, "-", &endless{n: 1 << 40}, io.Discard, o); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestFileReadsParquet(t *testing.T) {
	type record struct {
		ID       int64  `parquet:"id"`
		Response string `parquet:"response"`
		Label    string `parquet:"label"`
	}
	path := filepath.Join(t.TempDir(), "rows.bin")
	rows := []record{{1, `\boxed{\frac12}`, "0.5"}, {2, `\boxed{3}`, "4"}}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s, err := gradefile.File(context.Background(), path, nil, &out, gradefile.Options{Graders: graders(t, "tandem")})
	if err != nil {
		t.Fatal(err)
	}
	if s.Rows != 2 || s.Tallies[0].Right != 1 || !strings.HasPrefix(out.String(), `{"id":1,"response":"\\boxed{\\frac12}","label":"0.5","tandem":{"score":1`) {
		t.Errorf("%+v\n%s", s, out.String())
	}
}

func TestReport(t *testing.T) {
	path := filepath.Join(t.TempDir(), "labelled.jsonl")
	text := `{"response":"\\boxed{1/2}","gold":"0.5","correct":true}
{"response":"\\boxed{2/4}","gold":"1/2","correct":true}
{"response":"\\boxed{3}","gold":"4","correct":false}
{"response":"\\boxed{4}","gold":"4","correct":false}
{"id":"a","kind":"grade_pair","level":"must","input":{"answer":"1","gold":"2"},"expect":{"equal":false}}
{"id":"b","kind":"extract","level":"must"}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cs, err := gradefile.Report(path, gradefile.Options{Graders: graders(t, "tandem", "math")})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range [][4]int{{2, 1, 2, 0}, {1, 1, 2, 1}} {
		c := cs[i]
		if got := [4]int{c.TruePos, c.FalsePos, c.TrueNeg, c.FalseNeg}; got != want {
			t.Errorf("%s: true and false positives and negatives %v, want %v", c.Name, got, want)
		}
	}
	var out bytes.Buffer
	if err := gradefile.WriteReport(&out, path, cs); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"| math | 5 |", "| tandem | 1 of 1 |", "line 2: gold `1/2`, extracted `2/4`"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in the report:\n%s", want, out.String())
		}
	}
}
