package main

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const onePrompt = `{"prompt": "47+58=?"}`

// The log-probs of what is drawn are those of the same tokens in a plain run of score, whatever made them be drawn.
func TestGenerateChangedLogits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		args []string
		ok   func(tokens []int32) bool
	}{
		{"a presence penalty that allows nothing twice", []string{"--presence-penalty", "100"}, func(tokens []int32) bool {
			return len(slices.Compact(slices.Sorted(slices.Values(tokens)))) == len(tokens)
		}},
		{"a frequency penalty likewise", []string{"--frequency-penalty", "100"}, func(tokens []int32) bool {
			return len(slices.Compact(slices.Sorted(slices.Values(tokens)))) == len(tokens)
		}},
		{"allowed", []string{"--allowed-tokens", "9,5,9"}, func(tokens []int32) bool {
			return !slices.ContainsFunc(tokens, func(tok int32) bool { return tok != 5 && tok != 9 })
		}},
		{"bias", []string{"--logit-bias", "7=1000,8=-inf"}, func(tokens []int32) bool {
			return !slices.ContainsFunc(tokens, func(tok int32) bool { return tok != 7 })
		}},
		{"banned", []string{"--logit-bias", "7=1000", "--logit-bias", "8=1000,7=-inf"}, nil},
		{"a repetition penalty", []string{"--repetition-penalty", "1.3", "--presence-penalty", "-2", "--min-p", "0.05"}, func([]int32) bool { return true }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append([]string{"--n", "3", "--ignore-eos", "--max-tokens", "16"}, tt.args...)
			if tt.ok == nil {
				refusedWith(t, onePrompt, 2, append([]string{"generate", "--model", need(t, shared.tiny)}, args...), "names token 7 twice")
				return
			}
			out := tandemWith(t, onePrompt, append([]string{"generate", "--model", need(t, shared.tiny)}, args...)...).stdout
			for i, row := range rows[sampleRow](t, out) {
				if len(row.Tokens) != 16 || !tt.ok(row.Tokens) {
					t.Errorf("row %d: tokens %v", i, row.Tokens)
				}
			}
			tandemWith(t, "", "score", "--model", need(t, shared.tiny), "--in", write(t, "in.jsonl", out), "--check")
		})
	}
}

func TestGenerateTopLogProbs(t *testing.T) {
	t.Parallel()
	plain := generate(t, onePrompt, "--n", "2")
	if plain[0].Top != nil {
		t.Errorf("lists that nobody asked for: %v", plain[0].Top)
	}
	for i, row := range generate(t, onePrompt, "--n", "2", "--top-logprobs", "28") {
		if diff := cmp.Diff(plain[i].LogProbs, row.LogProbs); diff != "" || len(row.Top) != len(row.Tokens) {
			t.Fatalf("%d lists for %d tokens; %s", len(row.Top), len(row.Tokens), diff)
		}
		for j, top := range row.Top {
			sum := 0.0
			for _, lp := range top.LogProbs {
				sum += math.Exp(float64(lp))
			}
			at := slices.Index(top.Tokens, row.Tokens[j])
			if len(top.Tokens) != 28 || math.Abs(sum-1) > 1e-5 || at < 0 || top.LogProbs[at] != row.LogProbs[j] {
				t.Errorf("row %d place %d: %v, of which token %d was drawn with %v", i, j, top, row.Tokens[j], row.LogProbs[j])
			}
		}
	}
}

func TestGenerateStopStrings(t *testing.T) {
	t.Parallel()
	plain := generate(t, onePrompt, "--n", "4", "--ignore-eos")
	for i, row := range plain {
		if len(row.Text) < 8 {
			continue
		}
		stop := row.Text[4:6]
		cut := strings.Index(row.Text, stop)
		got := generate(t, onePrompt, "--n", "4", "--ignore-eos", "--stop", "never, to be seen", "--stop", stop)[i]
		if got.Text != row.Text[:cut] || got.Stop != "stop_string" || len(got.Tokens) >= len(row.Tokens) {
			t.Errorf("%q ended at %q: %q, stop %q", row.Text, stop, got.Text, got.Stop)
		}
		if diff := cmp.Diff(row.Tokens[:len(got.Tokens)], got.Tokens); diff != "" {
			t.Errorf("other tokens: %s", diff)
		}
		return
	}
	t.Fatalf("no reply is long enough: %+v", plain)
}

func TestGenerateTimeout(t *testing.T) {
	t.Parallel()
	out := tandemWith(t, onePrompt, "generate", "--model", need(t, shared.tiny), "--timeout", "1ns").stdout
	if !strings.Contains(out, `"tokens":[],"logprobs":[],"text":"","stop":"deadline"`) {
		t.Errorf("a reply that had no time is %s", out)
	}
	plain := generate(t, onePrompt)
	if diff := cmp.Diff(plain, generate(t, onePrompt, "--timeout", "1h")); diff != "" {
		t.Errorf("a deadline that does not come: %s", diff)
	}
}
