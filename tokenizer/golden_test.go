package tokenizer

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ardanlabs/jinja"
)

// sharedDir holds Qwen3's own tokenizer on machines that have it.
const sharedDir = "../../shared/data/qwen3-tokenizer"

// qwen3 is loaded once for all tests: that takes seconds under the race detector.
var qwen3 = sync.OnceValues(func() (*Tokenizer, error) { return Load(sharedDir) })

func openTokenizer(tb testing.TB, dir string) *Tokenizer {
	tb.Helper()
	if dir == sharedDir {
		if _, err := os.Stat(dir); err != nil {
			tb.Skipf("needs Qwen3's tokenizer files in %s", filepath.Clean(dir))
		}
		tok, err := qwen3()
		if err != nil {
			tb.Fatal(err)
		}
		return tok
	}
	tok, err := Load(dir)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(tok.Close)
	return tok
}

// eachDirectory runs a test on the small tokenizer of testdata, and on Qwen3's where it is there.
func eachDirectory(t *testing.T, test func(t *testing.T, tok *Tokenizer, name string)) {
	for name, dir := range map[string]string{"tiny": "testdata/tiny", "qwen3": sharedDir} {
		t.Run(name, func(t *testing.T) { test(t, openTokenizer(t, dir), name) })
	}
}

// golden reads rows that testdata/gen_golden.py wrote, after the one that says when and with what.
func golden[Row any](tb testing.TB, name string) []Row {
	tb.Helper()
	f, err := os.Open(filepath.Join("testdata", name+".jsonl.gz"))
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		tb.Fatal(err)
	}
	var rows []Row
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var r Row
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			tb.Fatalf("%s row %d: %v", name, len(rows)+1, err)
		}
		rows = append(rows, r)
	}
	if lines.Err() != nil || len(rows) == 0 {
		tb.Fatalf("%s: %d rows, %v", name, len(rows), lines.Err())
	}
	return rows[1:]
}

type chatRow struct {
	Messages       []Message         `json:"messages"`
	Tools          []json.RawMessage `json:"tools"`
	Prompt         bool              `json:"add_generation_prompt"`
	EnableThinking *bool             `json:"enable_thinking"`
	Text           string            `json:"text"`
	Error          string            `json:"error"`
}

func (r *chatRow) options() ChatOptions {
	return ChatOptions{Tools: r.Tools, AddGenerationPrompt: r.Prompt, EnableThinking: r.EnableThinking}
}

func TestChatGolden(t *testing.T) {
	eachDirectory(t, func(t *testing.T, tok *Tokenizer, name string) {
		rows := golden[chatRow](t, "chat_"+name)
		wrong := 0
		for i, r := range rows {
			got, err := tok.Chat(r.Messages, r.options())
			if (err != nil) != (r.Error != "") {
				t.Errorf("row %d: got error %v, want %q", i+1, err, r.Error)
			}
			if got != r.Text {
				if wrong++; wrong <= 3 {
					t.Errorf("row %d: %s", i+1, difference(got, r.Text))
				}
			}
		}
		if wrong > 0 {
			t.Errorf("%d of %d prompts differ from transformers'", wrong, len(rows))
		}
	})
}

// difference shows where two texts part.
func difference(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	from := max(0, i-60)
	return "first difference at byte " + jsonText(i) + "\n got " + jsonText(got[from:min(len(got), i+60)]) +
		"\nwant " + jsonText(want[from:min(len(want), i+60)])
}

func jsonText(v any) string {
	text, _ := marshal(v)
	return string(text)
}

type idsRow struct {
	Text    *string `json:"text"`
	IDs     []int32 `json:"ids"`
	Plain   []int32 `json:"plain"`
	Kept    string  `json:"kept"`
	Skipped string  `json:"skipped"`
}

func TestIDsGolden(t *testing.T) {
	eachDirectory(t, func(t *testing.T, tok *Tokenizer, name string) {
		for i, r := range golden[idsRow](t, "ids_"+name) {
			if r.Text != nil {
				if got := tok.Encode(*r.Text, ParseSpecial); !slices.Equal(got, r.IDs) {
					t.Errorf("row %d: %q encodes to %v, want %v", i+1, *r.Text, got, r.IDs)
				}
				if got := tok.Encode(*r.Text, SpecialAsText); !slices.Equal(got, r.Plain) {
					t.Errorf("row %d: %q as text encodes to %v, want %v", i+1, *r.Text, got, r.Plain)
				}
			}
			if got := tok.Decode(r.IDs, true); got != r.Kept {
				t.Errorf("row %d: %v decodes to %q, want %q", i+1, r.IDs, got, r.Kept)
			}
			if got := tok.Decode(r.IDs, false); got != r.Skipped {
				t.Errorf("row %d: %v decodes to %q without special tokens, want %q", i+1, r.IDs, got, r.Skipped)
			}
		}
	})
}

type jinjaRow struct {
	Variables map[string]json.RawMessage `json:"variables"`
	Template  string                     `json:"template"`
	Text      string                     `json:"text"`
	Error     string                     `json:"error"`
}

func TestTemplateGolden(t *testing.T) {
	rows := golden[jinjaRow](t, "jinja")
	variables := map[string]jinja.Value{}
	for name, data := range rows[0].Variables {
		v, err := jsonValue(data, func(s string) string { return s })
		if err != nil {
			t.Fatal(err)
		}
		variables[name] = v
	}
	for _, r := range rows[1:] {
		var got string
		tmpl, err := compileTemplate(r.Template)
		if err == nil {
			got, err = tmpl.render(variables, testNow)
		}
		if (err != nil) != (r.Error != "") {
			t.Errorf("%s: got error %v, want %q", r.Template, err, r.Error)
		} else if r.Error == "" && got != r.Text {
			t.Errorf("%s\n got %q\nwant %q", r.Template, got, r.Text)
		} else if raised, ok := strings.CutPrefix(r.Error, "TemplateError: "); ok && !strings.Contains(err.Error(), raised) {
			t.Errorf("%s: error %q does not say %q", r.Template, err, raised)
		}
	}
}
