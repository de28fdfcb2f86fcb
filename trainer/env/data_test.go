package env

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
)

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadDataFindsTheColumnsPeopleHave(t *testing.T) {
	for _, tt := range []struct {
		name, row string
		cols      Columns
		want      Problem
	}{
		{"MATH-500", `{"problem": "1+1", "answer": "2"}`, Columns{}, Problem{Text: "1+1", Answer: "2"}},
		{"AIME, integer answer", `{"question": "q", "answer": 204}`, Columns{}, Problem{Text: "q", Answer: "204"}},
		{"AIME, leading zeros kept in text", `{"problem": "q", "answer": "025"}`, Columns{}, Problem{Text: "q", Answer: "025"}},
		{"GSM8K", `{"question": "q", "answer": "work\n#### 1,800"}`, Columns{}, Problem{Text: "q", Answer: "1,800"}},
		{"Hendrycks MATH", `{"problem": "q", "solution": "so \\boxed{\\frac{1}{2}}."}`, Columns{}, Problem{Text: "q", Answer: `\frac{1}{2}`}},
		{"dapo-math-17k", `{"prompt": [{"role": "user", "content": "q"}], "reward_model": {"ground_truth": "34"}}`, Columns{}, Problem{Text: "q", Answer: "34"}},
		{"label", `{"prompt": "q", "label": "34"}`, Columns{}, Problem{Text: "q", Answer: "34"}},
		{"named", `{"ask": "q", "gold": 0.5, "problem": "not this"}`, Columns{Problem: "ask", Answer: "gold"}, Problem{Text: "q", Answer: "0.5"}},
		{"large integer", `{"problem": "q", "answer": 12345678901234567890}`, Columns{}, Problem{Text: "q", Answer: "12345678901234567890"}},
		{"demonstration", `{"prompt": "q", "reply": "r"}`, Columns{Reply: "reply"}, Problem{Text: "q", Reply: "r"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := ReadData(write(t, "d.jsonl", tt.row+"\n"), tt.cols)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]Problem{tt.want}, d.Problems); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadDataSlicesKeepRowNumbers(t *testing.T) {
	path := write(t, "d.jsonl", strings.Join([]string{
		`{"problem": "a", "answer": "0"}`, ``, `{"problem": "b", "answer": "1"}`, `{"problem": "c", "solution": "no box"}`, `{"problem": "d", "answer": "3"}`,
	}, "\n"))
	for slice, want := range map[string][]int{
		"": {0, 1, 3}, "@[1:]": {1, 3}, "@[:1]": {0}, "@[-1:]": {3}, "@[1:3]": {1}, "@[0:100]": {0, 1, 3},
	} {
		d, err := ReadData(path+slice, Columns{})
		if err != nil {
			t.Fatalf("%s: %v", slice, err)
		}
		var ids []int
		for _, p := range d.Problems {
			ids = append(ids, p.ID)
		}
		if diff := cmp.Diff(want, ids); diff != "" {
			t.Errorf("%q: %s", slice, diff)
		}
	}
}

func TestReadDataParquet(t *testing.T) {
	type message struct {
		Role    string `parquet:"role"`
		Content string `parquet:"content"`
	}
	type model struct {
		Truth string `parquet:"ground_truth"`
	}
	type row struct {
		Prompt []message `parquet:"prompt,list"`
		Model  model     `parquet:"reward_model"`
	}
	path := filepath.Join(t.TempDir(), "d.parquet")
	rows := []row{{[]message{{"system", "s"}, {"user", "one"}}, model{"1"}}, {[]message{{"user", "two"}}, model{"2"}}}
	if err := parquet.WriteFile(path, rows); err != nil {
		t.Fatal(err)
	}
	d, err := ReadData(path+"@[1:]", Columns{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Problem{{ID: 1, Text: "two", Answer: "2"}}, d.Problems); diff != "" {
		t.Error(diff)
	}
}

func TestReadDataSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct{ name, spec, want string }{
		{"no file", filepath.Join(t.TempDir(), "none.jsonl"), "no such file"},
		{"bad line", write(t, "d.jsonl", "{\"problem\": \"a\", \"answer\": 1}\n{oops\n"), "line 2"},
		{"empty", write(t, "d.jsonl", "\n\n"), "0 rows"},
		{"no question", write(t, "d.jsonl", `{"answer": 1}`), "row 1: there is no column problem, question, prompt"},
		{"no answers", write(t, "d.jsonl", `{"problem": "a"}`), "none with a problem and an answer"},
		{"bad slice", write(t, "d.jsonl", `{"problem": "a"}`) + "@[1]", "want path@[from:to]"},
		{"empty slice", write(t, "d.jsonl", `{"problem": "a", "answer": 1}`) + "@[5:]", "0 rows"},
		{"not parquet", write(t, "d.parquet", "PAR"), "d.parquet"},
	} {
		_, err := ReadData(tt.spec, Columns{})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: error %v, want %q", tt.name, err, tt.want)
		}
	}
}
