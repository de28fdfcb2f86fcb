package report

import (
	"encoding/binary"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"hash/crc32"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tandem/trainer/run"
)

// hostile is what a model may write.
const hostile = `</script><script>alert(1)</script><img src=x onerror=alert(2)>"'&<!--` + "\x00\u202e"

// made is a run directory with some of everything, and what its figures are.
func made(t *testing.T, steps int) (path string, values [][]float64) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "run [1]")
	dir, err := run.Create(path, []byte("name = 'made <b>'\nseed = 3\n[warmup]\nsteps = 2\n[train]\nsteps = 10\n[model]\ndir = '"+"x"+"'\n[algorithm]\nname = 'grpo'\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dir.Close() })
	add := func(file string, v any) {
		if err := dir.Append(file, v); err != nil {
			t.Fatal(err)
		}
	}
	add("processes.jsonl", map[string]any{"step": 0, "began": "2026-01-02T03:04:05Z", "version": "tandem " + hostile, "device": "cpu", "machine": "m", "processors": 2, "system": "s"})
	for i := range steps {
		v := []float64{float64(rand.Float32()), float64(rand.Float32()), float64(rand.Float32())}
		values = append(values, v)
		m := map[string]any{"step": i, "stage": "grpo", "reward": v[0], "never_heard_of": v[1], "tool_calls_seconds": v[2], "loss": nil, "trained": 5,
			"seconds": 2.0, "sampling_seconds": 1.5, "idle_seconds": 0.5, "pass_histogram": []int{1, i, 2}, "by_tool": map[string]any{"python": 2 * i}, "note": hostile}
		if i < 2 {
			m["stage"] = "warmup"
		}
		add("metrics.jsonl", m)
	}
	for _, greedy := range []bool{true, false} {
		add("evaluations.jsonl", map[string]any{"step": 2, "problems": 50, "samples": 4, "greedy": greedy, "accuracy": 0.5, "reward": 0.25, "replies": []map[string]any{{"reply": hostile, "problem": hostile}}})
	}
	add("rollouts.jsonl", map[string]any{"step": 3, "shown": "best", "problem": hostile, "prompt": hostile, "answer": hostile, "reason": hostile, "stop": "length", "reward": 1, "conversation": []map[string]any{
		{"who": "model", "text": "think\n<tool_call>\n{\"name\": \"python\", \"arguments\": {\"code\": \"print(1)\\nprint('" + "<i>" + "')\"}}\n</tool_call>"},
		{"who": "python", "failure": "timed out", "text": hostile}, {"who": "model", "text": hostile + "<tool_call>cut off"}}})
	return path, values
}

// elements are the tags of a page, after all of its text has been taken for what it says it is.
func elements(t *testing.T, html []byte) map[string]int {
	t.Helper()
	count := make(map[string]int)
	for _, m := range regexp.MustCompile(`<([a-zA-Z!/][^\s>]*)`).FindAllSubmatch(html, -1) {
		count[strings.ToLower(string(m[1]))]++
	}
	return count
}

func TestPageEscapesAndNeedsNothing(t *testing.T) {
	path, _ := made(t, 40)
	r, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	html, err := r.HTML()
	if err != nil {
		t.Fatal(err)
	}
	count := elements(t, html)
	if count["script"] != 1 || count["/script"] != 1 || count["img"] != 0 || count["b"] != count["/b"] || count["!--"] != 0 || count["i"] != 0 {
		t.Errorf("what a model wrote is part of the page: %v", count)
	}
	if m := regexp.MustCompile(`(?i)<[^>]*\s(src|href)\s*=\s*["']?[^#"'>]|https?://|@import|url\(`).Find(html); m != nil {
		t.Errorf("the page refers to something outside of it: %s", m)
	}
	for _, want := range []string{
		"&lt;/script&gt;&lt;script&gt;alert(1)", "never heard of", "tool calls", "by tool python", "python: timed out", "print(1)\nprint(&#39;&lt;i&gt;&#39;)", "cut off",
		"0.366 to 0.634", "time by phase", "pass histogram", "40 of 12", "2026-01-02 03:04:05 UTC",
	} {
		if !strings.Contains(string(html), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	// Every chart is well-formed XML by itself.
	for _, svg := range regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAll(html, -1) {
		for d := xml.NewDecoder(strings.NewReader(string(svg))); ; {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%v in %s", err, svg)
			}
		}
		if strings.Contains(string(svg), "NaN") || strings.Contains(string(svg), "Inf") {
			t.Errorf("a place that is no number: %s", svg)
		}
	}
	for _, m := range regexp.MustCompile(`data-series="([^"]*)"`).FindAllSubmatch(html, -1) {
		text := strings.NewReplacer("&#34;", `"`, "&#39;", "'", "&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(string(m[1]))
		if !json.Valid([]byte(text)) {
			t.Errorf("values for the pointer are no JSON: %s", text)
		}
	}
}

func TestPagesOfRunsThatHaveHardlyBegun(t *testing.T) {
	for steps := range 3 {
		path, _ := made(t, steps)
		for _, name := range []string{"evaluations.jsonl", "rollouts.jsonl", "processes.jsonl"} {
			if err := os.Remove(filepath.Join(path, name)); err != nil {
				t.Fatal(err)
			}
		}
		r, err := Load(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.HTML(); err != nil {
			t.Errorf("%d steps: %v", steps, err)
		}
	}
}

func TestCompare(t *testing.T) {
	a, _ := made(t, 12)
	b, _ := made(t, 5)
	recipe := filepath.Join(b, "recipe.toml")
	text, err := os.ReadFile(recipe)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(recipe, []byte(strings.Replace(string(text), "seed = 3", "seed = 4\nonly_here = true", 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	c, err := Compare([]string{a, b})
	if err != nil {
		t.Fatal(err)
	}
	if names := c.Names(); names[0] == names[1] {
		t.Errorf("runs of one name cannot be told apart: %q", names)
	}
	got := c.Text()
	for _, want := range []string{"12 of 12", "5 of 12", "0.500 (0.366 to 0.634)", "\nonly_here  –  true\n", "\nseed       3  4\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("the comparison lacks %q:\n%s", want, got)
		}
	}
	html, err := c.HTML()
	if err != nil {
		t.Fatal(err)
	}
	if count := elements(t, html); count["script"] != 1 || count["img"] != 0 || count["svg"] == 0 {
		t.Errorf("the page has %v", count)
	}
}

// readEvents reads an event file by the formats' own words: TFRecord framing, protobuf fields.
func readEvents(t *testing.T, path string) (scalars map[string]map[int]float32, texts map[string]string, files int) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(glob(path), BoardDir, "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no event file: %v", err)
	}
	b, err := os.ReadFile(names[0])
	if err != nil {
		t.Fatal(err)
	}
	sum := func(data []byte) uint32 {
		c := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
		return uint32((uint64(c>>15|c<<17) + 0xa282ead8) % (1 << 32))
	}
	scalars, texts = make(map[string]map[int]float32), make(map[string]string)
	for n := 0; len(b) > 0; n++ {
		size := binary.LittleEndian.Uint64(b)
		data := b[12 : 12+size]
		if sum(b[:8]) != binary.LittleEndian.Uint32(b[8:]) || sum(data) != binary.LittleEndian.Uint32(b[12+size:]) {
			t.Fatalf("record %d: a checksum differs", n)
		}
		b = b[16+size:]
		event := fields(t, data)
		if n == 0 && string(event[3][0].([]byte)) != "brain.Event:2" {
			t.Errorf("the file begins with %q", event[3])
		}
		step := 0
		if len(event[2]) > 0 {
			step = int(event[2][0].(uint64))
		}
		for _, summary := range event[5] {
			for _, value := range fields(t, summary.([]byte))[1] {
				v := fields(t, value.([]byte))
				tag := string(v[1][0].([]byte))
				if len(v[2]) == 0 {
					texts[tag] = string(fields(t, v[8][0].([]byte))[8][0].([]byte))
					continue
				}
				if scalars[tag] == nil {
					scalars[tag] = make(map[int]float32)
				}
				if _, twice := scalars[tag][step]; twice {
					t.Errorf("%s of step %d is there twice", tag, step)
				}
				scalars[tag][step] = math.Float32frombits(v[2][0].(uint32))
			}
		}
	}
	return scalars, texts, len(names)
}

// fields are those of a message of protobuf.
func fields(t *testing.T, b []byte) map[uint64][]any {
	t.Helper()
	out := make(map[uint64][]any)
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		b = b[n:]
		var v any
		switch key & 7 {
		case 0:
			v, n = binary.Uvarint(b)
		case 1:
			v, n = binary.LittleEndian.Uint64(b), 8
		case 2:
			size, k := binary.Uvarint(b)
			v, n = b[k:k+int(size)], k+int(size)
		case 5:
			v, n = binary.LittleEndian.Uint32(b), 4
		default:
			t.Fatalf("a field of type %d", key&7)
		}
		out[key>>3], b = append(out[key>>3], v), b[n:]
	}
	return out
}

func TestBoardHasEveryFigureOnce(t *testing.T) {
	path, values := made(t, 9)
	for _, more := range []int{0, 1} {
		b, err := OpenBoard(path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range more {
			v := []float64{float64(rand.Float32()), 0, 0}
			values = append(values, v)
			if err := b.Step(map[string]any{"step": 9 + i, "stage": "grpo", "reward": v[0], "never_heard_of": 0, "loss": nil, "trained": 1}); err != nil {
				t.Fatal(err)
			}
			if err := b.Evaluation(map[string]any{"step": 10, "greedy": true, "accuracy": 0.75}); err != nil {
				t.Fatal(err)
			}
		}
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
		scalars, texts, files := readEvents(t, path)
		if files != 1 {
			t.Errorf("%d event files", files)
		}
		for i, v := range values {
			if i < 2 {
				continue
			}
			for tag, want := range map[string]float64{"reward/reward": v[0], "other/never_heard_of": v[1]} {
				if got, ok := scalars[tag][i+1]; !ok || got != float32(want) {
					t.Errorf("%s of step %d is %v, want %v", tag, i+1, got, want)
				}
			}
		}
		var tags []string
		for tag := range scalars {
			tags = append(tags, tag)
		}
		for _, want := range []string{"reward/pass_histogram/1", "other/by_tool/python", "tools/tool_calls_seconds", "time/sampling_seconds", "warmup/sampling_seconds", "held-out-greedy/accuracy", "held-out-sampled/reward"} {
			if !slices.Contains(tags, want) {
				t.Errorf("there is no %s among %q", want, tags)
			}
		}
		if slices.Contains(tags, "learning/loss") || slices.Contains(tags, "warmup/reward") {
			t.Errorf("there is what is no number, or a reward of the warm-up, among %q", tags)
		}
		if !strings.Contains(texts["recipe"], "seed = 3") {
			t.Errorf("the recipe is %q", texts["recipe"])
		}
		if more == 1 && scalars["held-out-greedy/accuracy"][10] != 0.75 {
			t.Errorf("the evaluation after step 10 is %v", scalars["held-out-greedy/accuracy"])
		}
	}
}

func TestIntervals(t *testing.T) {
	for _, tt := range []struct {
		accuracy  float64
		problems  int
		low, high float64 // by statsmodels' proportion_confint, method wilson
	}{{0.5, 50, 0.36645, 0.63355}, {0, 32, 0, 0.10718}, {1, 32, 0.89282, 1}, {0.1, 10, 0.01788, 0.40415}} {
		low, high := Evaluation{Accuracy: tt.accuracy, Problems: tt.problems}.interval()
		if math.Abs(low-tt.low) > 1e-4 || math.Abs(high-tt.high) > 1e-4 {
			t.Errorf("%v of %d: %v to %v, want %v to %v", tt.accuracy, tt.problems, low, high, tt.low, tt.high)
		}
	}
	if fmt.Sprint(Evaluation{}.interval()) != "NaN NaN" {
		t.Error("no problem gives an interval")
	}
}
