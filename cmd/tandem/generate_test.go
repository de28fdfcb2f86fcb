package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/tokenizer"
)

const prompts = `{"prompt": "47+58=?"}

{"messages": [{"role": "user", "content": "47+58=?"}]}
{"prompt_tokens": [24, 1, 5, 8]}
{"messages": [{"role": "system", "content": "+"}, {"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}, {"role": "user", "content": "3"}]}
`

// A rawRow keeps the text of the log-probs.
type rawRow struct {
	Prompt, Member       *int
	PromptTokens, Tokens []int32
	LogProbs             []json.Number
	Text, Stop           *string
}

func rawRows(t *testing.T, text string) []rawRow {
	t.Helper()
	var out []rawRow
	for _, m := range rows[map[string]json.RawMessage](t, text) {
		var r rawRow
		for key, to := range map[string]any{
			"prompt": &r.Prompt, "member": &r.Member, "prompt_tokens": &r.PromptTokens, "tokens": &r.Tokens, "logprobs": &r.LogProbs, "text": &r.Text, "stop": &r.Stop,
		} {
			if err := json.Unmarshal(m[key], to); err != nil {
				t.Fatalf("row %d: %s: %v", len(out), key, err)
			}
			delete(m, key)
		}
		if len(m) > 0 {
			t.Fatalf("row %d has more: %v", len(out), m)
		}
		out = append(out, r)
	}
	return out
}

func demoTokenizer(t *testing.T) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Load(filepath.Join(repo(), "trainer", "recipes", "demo-tokenizer"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tok.Close)
	return tok
}

func TestGenerateRows(t *testing.T) {
	t.Parallel()
	tok := demoTokenizer(t)
	for _, dtype := range []string{"bf16", "float32"} {
		r := tandemWith(t, prompts, "generate", "--model", need(t, shared.tiny), "--prompts", "-", "--out", "-", "--n", "3", "--max-tokens", "40", "--dtype", dtype)
		got := rawRows(t, r.stdout)
		if len(got) != 12 {
			t.Fatalf("%d rows, want 4 prompts of 3 members", len(got))
		}
		stops := make(map[string]int)
		for i, row := range got {
			if *row.Prompt != i/3 || *row.Member != i%3 {
				t.Errorf("row %d is member %d of prompt %d", i, *row.Member, *row.Prompt)
			}
			if len(row.LogProbs) != len(row.Tokens) || len(row.Tokens) == 0 || len(row.Tokens) > 40 {
				t.Errorf("row %d: %d log-probs for %d tokens", i, len(row.LogProbs), len(row.Tokens))
			}
			for _, x := range row.LogProbs {
				if f, err := strconv.ParseFloat(x.String(), 32); err != nil || strconv.FormatFloat(f, 'g', -1, 32) != x.String() || f >= 0 {
					t.Errorf("row %d: log-prob %s is no shortest text of a float32 below 0: %v, %v", i, x, f, err)
				}
			}
			if want := tok.Decode(row.Tokens, false); *row.Text != want {
				t.Errorf("row %d: text %q, want %q", i, *row.Text, want)
			}
			last := slices.Contains(tok.EOS(), row.Tokens[len(row.Tokens)-1])
			if ends := *row.Stop == "stop"; ends != last || !ends && (*row.Stop != "length" || len(row.Tokens) != 40) {
				t.Errorf("row %d: %d tokens that end with %d, stop %q", i, len(row.Tokens), row.Tokens[len(row.Tokens)-1], *row.Stop)
			}
			stops[*row.Stop]++
		}
		t.Logf("%s: %v", dtype, stops)
		if diff := cmp.Diff(got[0].PromptTokens, got[3].PromptTokens); diff != "" {
			t.Errorf("a prompt and the same message: %s", diff)
		}
		if diff := cmp.Diff([]int32{24, 1, 5, 8}, got[6].PromptTokens); diff != "" {
			t.Errorf("prompt_tokens: %s", diff)
		}
	}
}

func TestGenerateTemplates(t *testing.T) {
	t.Parallel()
	tok := demoTokenizer(t)
	chat := func(thinking *bool) []int32 {
		tokens, err := tok.EncodeChat([]tokenizer.Message{{Role: "user", Content: "1+1=?"}}, tokenizer.ChatOptions{AddGenerationPrompt: true, EnableThinking: thinking})
		if err != nil {
			t.Fatal(err)
		}
		return tokens
	}
	for template, want := range map[string][]int32{
		"none": tok.Encode("1+1=?", tokenizer.ParseSpecial), "default": chat(nil), "no-thinking": chat(new(bool)),
	} {
		r := tandemWith(t, `{"prompt": "1+1=?"}`, "generate", "--model", need(t, shared.tiny), "--template", template, "--max-tokens", "1")
		if diff := cmp.Diff(want, rows[sampleRow](t, r.stdout)[0].PromptTokens); diff != "" {
			t.Errorf("%s: %s", template, diff)
		}
	}
	refusedWith(t, `{"messages": [{"role": "user", "content": "1"}]}`, 2,
		[]string{"generate", "--model", need(t, shared.tiny), "--template", "none"}, "line 1", "messages need a template; --template is none")
}

func generate(t *testing.T, stdin string, args ...string) []sampleRow {
	t.Helper()
	r := tandemWith(t, stdin, append([]string{"generate", "--model", need(t, shared.tiny), "--max-tokens", "24"}, args...)...)
	return rows[sampleRow](t, r.stdout)
}

// What shares the batch, and how many threads there are, does not matter; seed, prompt and member do.
func TestGenerateSameBits(t *testing.T) {
	t.Parallel()
	want := generate(t, prompts, "--n", "4", "--seed", "7")
	if diff := cmp.Diff(want, generate(t, prompts, "--n", "4", "--seed", "7", "--workers", "1")); diff != "" {
		t.Errorf("one worker: %s", diff)
	}
	if diff := cmp.Diff(want, generate(t, prompts, "--n", "4", "--seed", "7", "--workers", "5", "--context", "100")); diff != "" {
		t.Errorf("five workers, another context: %s", diff)
	}
	out := filepath.Join(t.TempDir(), "out.jsonl")
	generate(t, "", "--prompts", write(t, "in.jsonl", prompts), "--n", "4", "--seed", "7", "--out", out)
	if diff := cmp.Diff(want, rows[sampleRow](t, read(t, out))); diff != "" {
		t.Errorf("through files: %s", diff)
	}
	first, _, _ := strings.Cut(prompts, "\n")
	if diff := cmp.Diff(want[:2], generate(t, first, "--n", "2", "--seed", "7")); diff != "" {
		t.Errorf("fewer members, alone: %s", diff)
	}
	if other := generate(t, first, "--n", "2", "--seed", "8"); cmp.Equal(want[0].Tokens, other[0].Tokens) || cmp.Equal(want[0].Tokens, want[1].Tokens) {
		t.Errorf("other seeds or members give the same reply %v", want[0].Tokens)
	}
}

func TestGenerateGreedy(t *testing.T) {
	t.Parallel()
	first, _, _ := strings.Cut(prompts, "\n")
	want := generate(t, first, "--temperature", "0", "--n", "2", "--seed", "1")
	for name, args := range map[string][]string{
		"another seed": {"--temperature", "0", "--seed", "2"},
		"top-k":        {"--top-k", "1", "--seed", "3"},
		"top-p":        {"--top-p", "1e-6", "--seed", "4"},
		"min-p":        {"--min-p", "1", "--seed", "5"},
	} {
		for _, row := range append(want, generate(t, first, args...)...) {
			if diff := cmp.Diff(want[0].Tokens, row.Tokens); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			if diff := cmp.Diff(want[0].LogProbs, row.LogProbs); diff != "" { // of the full distribution at 1 in all of them
				t.Errorf("%s: %s", name, diff)
			}
		}
	}
}

func TestGenerateLengths(t *testing.T) {
	t.Parallel()
	short := generate(t, prompts, "--n", "8")
	ended := 0
	for _, r := range short {
		if r.Stop == "stop" {
			ended++
		}
	}
	if ended == 0 {
		t.Fatalf("none of %d replies of a random model ends by itself", len(short))
	}
	for i, r := range generate(t, prompts, "--n", "8", "--ignore-eos") {
		if r.Stop != "length" || len(r.Tokens) != 24 {
			t.Errorf("--ignore-eos: row %d has %d tokens, stop %q", i, len(r.Tokens), r.Stop)
		}
		if diff := cmp.Diff(short[i].Tokens, r.Tokens[:len(short[i].Tokens)]); diff != "" {
			t.Errorf("--ignore-eos: row %d begins otherwise: %s", i, diff)
		}
	}
	for i, r := range generate(t, `{"prompt_tokens": [24, 1, 5, 8]}`, "--n", "4", "--ignore-eos", "--context", "7") {
		if r.Stop != "length" || len(r.Tokens) != 3 {
			t.Errorf("a context of 7: row %d has %d tokens after 4, stop %q", i, len(r.Tokens), r.Stop)
		}
	}
}

func TestGenerateWithoutTokenizer(t *testing.T) {
	t.Parallel()
	args := []string{"generate", "--model", need(t, shared.bare), "--max-tokens", "5", "--n", "2"}
	got := rows[sampleRow](t, tandemWith(t, `{"prompt_tokens": [1, 2, 3]}`, args...).stdout)
	if len(got) != 2 || len(got[1].Tokens) != 5 || got[1].Text != "" || got[1].Stop != "length" {
		t.Errorf("rows %+v", got)
	}
	refusedWith(t, `{"prompt": "1"}`, 2, args, "line 1", "no tokenizer.json: only prompt_tokens")
}

func TestGenerateManyMoreThanABatch(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var in strings.Builder
	n := 5*batch + 3
	for range n {
		fmt.Fprintf(&in, "{\"prompt_tokens\": [%d, %d]}\n", rng.IntN(28), rng.IntN(28))
	}
	got := generate(t, in.String(), "--max-tokens", "2")
	for i, r := range got {
		if r.Prompt != i || r.Member != 0 {
			t.Fatalf("row %d is member %d of prompt %d", i, r.Member, r.Prompt)
		}
	}
	if len(got) != n {
		t.Errorf("%d rows for %d prompts", len(got), n)
	}
}

func TestGenerateRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, stdin string
		args        []string
		want        []string
	}{
		{"no model", prompts, []string{"--model", ""}, []string{"--model is missing"}},
		{"missing model", prompts, []string{"--model", "/nonexistent"}, []string{"/nonexistent", "no such file"}},
		{"missing prompts", "", []string{"--prompts", "/nonexistent.jsonl"}, []string{"read /nonexistent.jsonl", "no such file"}},
		{"no prompts", "\n \n", nil, []string{"read -", "there are no prompts"}},
		{"not JSON", "{\"prompt\": \"1\"}\n{prompt}\n", nil, []string{"read -", "line 2", "invalid character"}},
		{"nothing given", `{"text": "1"}`, nil, []string{"line 1", "0 of prompt, messages and prompt_tokens are given, want one"}},
		{"two given", `{"prompt": "1", "prompt_tokens": [1]}`, nil, []string{"line 1", "2 of prompt, messages and prompt_tokens are given, want one"}},
		{"no tokens", `{"prompt_tokens": []}`, nil, []string{"line 1", "there are no tokens"}},
		{"empty text", `{"prompt": ""}`, []string{"--template", "none"}, []string{"line 1", "there are no tokens"}},
		{"token beyond the vocabulary", "\n" + `{"prompt_tokens": [1, 28]}`, nil, []string{"line 2", "token 1 is 28, want 0 to 27"}},
		{"negative token", `{"prompt_tokens": [-1]}`, nil, []string{"line 1", "token 0 is -1"}},
		{"token of 64 bits", `{"prompt_tokens": [4294967296]}`, nil, []string{"line 1", "4294967296"}},
		{"prompt as long as the context", `{"prompt_tokens": [1, 2, 3]}`, []string{"--context", "3"}, []string{"line 1", "3 tokens", "no room for a reply in a context of 3", "--context"}},
		{"prompt longer than the model's context", `{"prompt_tokens": [1` + strings.Repeat(", 1", 1024) + `]}`, nil, []string{"line 1", "1025 tokens exceed the context of 1024"}},
		{"template", prompts, []string{"--template", "thinking"}, []string{"--template", `"thinking"`, "no-thinking"}},
		{"dtype", prompts, []string{"--dtype", "fp8"}, []string{`"fp8"`, "want bf16 or float32"}},
		{"device", prompts, []string{"--device", "tpu"}, []string{`"tpu"`}},
		{"members", prompts, []string{"--n", "0"}, []string{"--n is 0"}},
		{"length", prompts, []string{"--max-tokens", "0"}, []string{"--max-tokens is 0"}},
		{"context", prompts, []string{"--context", "-1"}, []string{"--context is -1"}},
		{"temperature", prompts, []string{"--temperature", "-0.5"}, []string{"--temperature is -0.5"}},
		{"temperature, not a number", prompts, []string{"--temperature", "nan"}, []string{"--temperature is NaN"}},
		{"top-p", prompts, []string{"--top-p", "1.5"}, []string{"--top-p is 1.5"}},
		{"top-k", prompts, []string{"--top-k", "-1"}, []string{"--top-k is -1"}},
		{"min-p", prompts, []string{"--min-p", "2"}, []string{"--min-p is 2"}},
		{"repetition penalty", prompts, []string{"--repetition-penalty", "0"}, []string{"--repetition-penalty is 0"}},
		{"presence penalty", prompts, []string{"--presence-penalty", "1e9"}, []string{"presence penalty is 1e+09"}},
		{"bias", prompts, []string{"--logit-bias", "5"}, []string{"--logit-bias", `"5" is not ID=BIAS`}},
		{"bias, not a number", prompts, []string{"--logit-bias", "5=nan"}, []string{`"5=nan" is not ID=BIAS`}},
		{"bias twice", prompts, []string{"--logit-bias", "5=1,5=2"}, []string{"--logit-bias names token 5 twice"}},
		{"bias beyond the vocabulary", prompts, []string{"--logit-bias", "28=1"}, []string{"bias of token 28, want 0 to 27"}},
		{"allowed beyond the vocabulary", prompts, []string{"--allowed-tokens", "3,28"}, []string{"token 28 is allowed, want 0 to 27"}},
		{"stop string", prompts, []string{"--stop", ""}, []string{"--stop: a stop string is empty"}},
		{"timeout", prompts, []string{"--timeout", "-1s"}, []string{"--timeout is -1s"}},
		{"seed", prompts, []string{"--seed", "-1"}, []string{"--seed"}},
		{"unknown flag", prompts, []string{"--temprature", "1"}, []string{"temprature"}},
		{"argument", prompts, []string{"extra"}, []string{"extra"}},
		{"full disk", prompts, []string{"--out", "/dev/full"}, []string{"write samples", "no space left on device"}},
		{"no place", prompts, []string{"--out", "/nonexistent/out.jsonl"}, []string{"write samples", "/nonexistent/out.jsonl"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"generate", "--model", need(t, shared.tiny), "--max-tokens", "4"}, tt.args...)
			refusedWith(t, tt.stdin, 2, args, tt.want...)
		})
	}
}
