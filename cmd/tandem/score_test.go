package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/trainer"
)

// sampled writes what generate makes of a mix of prompts, of which some are longer than a page.
func sampled(t *testing.T, dtype string, temperature string) string {
	t.Helper()
	in := prompts + fmt.Sprintf("{\"prompt_tokens\": [1%s]}\n", strings.Repeat(", 9, 10", 75))
	out := filepath.Join(t.TempDir(), "samples.jsonl")
	tandemWith(t, in, "generate", "--model", need(t, shared.tiny), "--n", "7", "--max-tokens", "70", "--seed", fmt.Sprint(rand.Uint64()),
		"--dtype", dtype, "--temperature", temperature, "--out", out)
	return out
}

// The sampler's log-probs are those of the training forward, bit for bit, after a way through text.
func TestScoreChecksWhatGenerateWrote(t *testing.T) {
	t.Parallel()
	for _, dtype := range []string{"bf16", "float32"} {
		for _, temperature := range []string{"0", "0.3", "1", "1.7"} {
			samples := sampled(t, dtype, temperature)
			for _, workers := range []string{"1", "3"} {
				r := tandem(t, "score", "--model", need(t, shared.tiny), "--in", samples, "--dtype", dtype, "--temperature", temperature, "--check", "--workers", workers)
				if !strings.Contains(r.stderr, "of 35 lines are equal, bit for bit") || r.stdout != "" {
					t.Errorf("%s at temperature %s: %v", dtype, temperature, r)
				}
			}
		}
	}
}

func TestScoreFindsTamperedLogProbs(t *testing.T) {
	t.Parallel()
	samples := sampled(t, "bf16", "1")
	all := rows[sampleRow](t, read(t, samples))
	total := 0
	for _, r := range all {
		total += len(r.LogProbs)
	}
	tamper := func(change func(x float32) float32, at ...int) string {
		out, err := openOut(filepath.Join(t.TempDir(), "tampered.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for i, r := range all {
			r.LogProbs = slices.Clone(r.LogProbs)
			if slices.Contains(at, i) {
				last := len(r.LogProbs) - 1
				r.LogProbs[last] = change(r.LogProbs[last])
			}
			if err := out.row(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := out.Close(); err != nil {
			t.Fatal(err)
		}
		return out.file.Name()
	}
	ulp := func(x float32) float32 { return math.Nextafter32(x, 0) }
	half := func(x float32) float32 { return x - 0.5 }
	check := []string{"score", "--model", need(t, shared.tiny), "--check", "--in"}
	line := fmt.Sprintf("line 34, log-prob %d", len(all[33].LogProbs)-1)
	refused(t, 1, append(check, tamper(ulp, 33)), fmt.Sprintf("1 of %d log-probs of 35 lines differ", total), line)
	refused(t, 1, append(check, tamper(half, 0, 12, 34)), fmt.Sprintf("3 of %d log-probs of 35 lines differ, by up to 0.5", total))
	refused(t, 1, append(check, tamper(func(float32) float32 { return float32(math.NaN()) }, 2)), "1 of", "NaN in the line")
	refused(t, 1, append(check, samples, "--temperature", "1.5"), fmt.Sprintf("of %d log-probs of 35 lines differ", total))
}

func TestScoreRows(t *testing.T) {
	t.Parallel()
	in := `{"tokens": [1, 2, 3, 4], "id": "a<b>", "z": {"y": [1.50]}}

{"tokens": [5]}
{"prompt_tokens": [1, 2], "tokens": [3, 4], "logprobs": [-1, -1]}
{"prompt_tokens": [1, 2, 3], "tokens": []}
`
	args := []string{"score", "--model", need(t, shared.bare), "--dtype", "float32"}
	r := tandemWith(t, in, args...)
	got := rows[map[string]json.RawMessage](t, r.stdout)
	if len(got) != 4 || string(got[0]["id"]) != `"a<b>"` || string(got[0]["z"]) != `{"y":[1.50]}` {
		t.Fatalf("rows %v, want four with what was in them", r.stdout)
	}
	var scores [4]trainer.Floats
	for i, row := range got {
		if err := json.Unmarshal(row["logprobs"], &scores[i]); err != nil {
			t.Fatal(err)
		}
	}
	if len(scores[0]) != 3 || len(scores[1]) != 0 {
		t.Errorf("log-probs %v, want of every token but the first", scores)
	}
	if diff := cmp.Diff(scores[0], scores[2]); diff != "" {
		t.Errorf("a prompt and its reply are not one sequence: %s", diff)
	}
	if diff := cmp.Diff(scores[0][:2], scores[3]); diff != "" {
		t.Errorf("a prompt alone: %s", diff)
	}
	// Its own output holds against itself, and through files.
	scored := filepath.Join(t.TempDir(), "scored.jsonl")
	tandemWith(t, in, append(args, "--out", scored)...)
	if read(t, scored) != r.stdout {
		t.Errorf("to a file it writes %s", read(t, scored))
	}
	again := tandem(t, append(args, "--in", scored, "--check")...)
	if !strings.Contains(again.stderr, "8 log-probs of 4 lines are equal") {
		t.Errorf("check of its own output: %v", again)
	}
	// Temperature 0 is 1, as greedy sampling reports.
	if zero := tandemWith(t, in, append(args, "--temperature", "0")...); zero.stdout != r.stdout {
		t.Errorf("temperature 0: %s", zero.stdout)
	}
}

func TestScoreRefuses(t *testing.T) {
	t.Parallel()
	same := write(t, "same.jsonl", "{\"tokens\": [1, 2]}\n")
	for _, tt := range []struct {
		name, stdin string
		args        []string
		want        []string
	}{
		{"missing file", "", []string{"--in", "/nonexistent.jsonl"}, []string{"read sequences", "/nonexistent.jsonl"}},
		{"empty", "\n", nil, []string{"score -", "there are no lines"}},
		{"not JSON", "{\"tokens\": [1, 2]}\n[1, 2]\n", nil, []string{"score -", "line 2", "cannot unmarshal array"}},
		{"no tokens", `{"text": "1"}`, nil, []string{"line 1", "there are no tokens"}},
		{"token beyond the vocabulary", "{\"tokens\": [1, 2]}\n{\"tokens\": [1, 28]}", nil, []string{"line 2", "token 1 is 28, want 0 to 27"}},
		{"too long", `{"tokens": [1` + strings.Repeat(", 1", 1024) + `]}`, nil, []string{"line 1", "1025 tokens exceed the context of 1024"}},
		{"too long for --context", `{"tokens": [1, 2, 3]}`, []string{"--context", "2"}, []string{"line 1", "3 tokens exceed the context of 2; --context raises it, to 1024 at most"}},
		{"nothing to compare", `{"tokens": [1, 2]}`, []string{"--check"}, []string{"line 1", "0 log-probs for 2 tokens"}},
		{"a log-prob for the first token", `{"tokens": [1, 2], "logprobs": [-1, -2]}`, []string{"--check"}, []string{"line 1", "2 log-probs for 2 tokens"}},
		{"log-probs too large", `{"tokens": [1, 2], "logprobs": [1e99]}`, []string{"--check"}, []string{"line 1", "1e99"}},
		{"temperature", `{"tokens": [1, 2]}`, []string{"--temperature", "-1"}, []string{"--temperature is -1"}},
		{"full disk", `{"tokens": [1, 2]}`, []string{"--out", "/dev/full"}, []string{"write scores", "no space left on device"}},
		{"over itself", "", []string{"--in", same, "--out", same}, []string{"--in and --out are the same file", same}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			refusedWith(t, tt.stdin, 2, append([]string{"score", "--model", need(t, shared.bare)}, tt.args...), tt.want...)
		})
	}
	if read(t, same) == "" {
		t.Error("the file that was to be scored is gone")
	}
}

// spoil changes a copy of a model directory.
func spoil(t *testing.T, change func(dir string) error) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "model")
	if err := os.CopyFS(dir, os.DirFS(need(t, shared.tiny))); err != nil {
		t.Fatal(err)
	}
	if err := change(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestDamagedModelsAreRefused(t *testing.T) {
	t.Parallel()
	edit := func(name string, change func(text string) string) func(dir string) error {
		return func(dir string) error {
			path := filepath.Join(dir, name)
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, []byte(change(string(b))), 0o644)
		}
	}
	const weights = "model.safetensors"
	for _, tt := range []struct {
		name   string
		change func(dir string) error
		want   []string
	}{
		{"wrong shape", edit("config.json", func(s string) string {
			return strings.Replace(s, `"intermediate_size": 384`, `"intermediate_size": 256`, 1)
		}),
			[]string{"load", "gate_proj.weight is (384, 128), want (256, 128)"}},
		{"NaN weights", edit(weights, func(s string) string { return s[:len(s)-2] + "\xff\xff" }), []string{"load", "element 127 is NaN; the weights are damaged"}},
		{"cut off", edit(weights, func(s string) string { return s[:len(s)/2] }), []string{weights}},
		{"no weights", func(dir string) error { return os.Remove(filepath.Join(dir, weights)) }, []string{"there is neither model.safetensors nor model.safetensors.index.json"}},
		{"no config", func(dir string) error { return os.Remove(filepath.Join(dir, "config.json")) }, []string{"config.json", "no such file"}},
		{"config cut off", edit("config.json", func(s string) string { return s[:20] }), []string{"config.json"}},
		{"tokenizer cut off", edit("tokenizer.json", func(s string) string { return s[:200] }), []string{"tokenizer.json"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := spoil(t, tt.change)
			refusedWith(t, `{"prompt_tokens": [1]}`, 2, []string{"generate", "--model", dir, "--max-tokens", "1"}, append(tt.want, dir)...)
		})
	}
}
