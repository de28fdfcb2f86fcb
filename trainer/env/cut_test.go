package env

import (
	"context"
	"encoding/json"
	"testing"

	"tandem/tokenizer"
	"tandem/trainer/reward"
)

// TestCutIsWhatStepGivesWithoutRoom cuts replies at every token, and compares with a Step that met the limit there.
func TestCutIsWhatStepGivesWithoutRoom(t *testing.T) {
	tok, err := tokenizer.Load("../../tokenizer/testdata/tiny")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	g, err := reward.New("math")
	if err != nil {
		t.Fatal(err)
	}
	say := Tool{"say", json.RawMessage(`{"type": "function", "function": {"name": "say", "parameters": {"type": "object"}}}`), func(context.Context, json.RawMessage) Outcome {
		return Outcome{Text: "5"}
	}}
	tools := NewTools(tok, Prompting{Template: "default"}, Signed{g}, ToolLimits{Turns: 4, Calls: 4, Output: 100}, say)
	shaped := *tools
	shaped.Shaped = true
	call := "<tool_call>\n{\"name\": \"say\", \"arguments\": {}}\n</tool_call>"
	for _, e := range []Env{NewSingle(tok, Prompting{Template: "default"}, Signed{g}), tools, &shaped} {
		for _, turns := range [][]string{{`It is \boxed{5}, I say.`}, {"I call. " + call, `So \boxed{5}.`}, {call + call, call, `\boxed{4}`}} {
			if _, single := e.(*Single); single && len(turns) > 1 {
				continue
			}
			ep, err := e.Start(Problem{Text: "2+3?", Answer: "5"})
			if err != nil {
				t.Fatal(err)
			}
			for i, text := range turns {
				whole := append(tok.Encode(text, tokenizer.ParseSpecial), tok.EOS()[0])
				past := *ep // as it is known afterwards: without calls
				past.Past = nil
				for _, x := range ep.Past {
					x.Turn.Calls = nil
					past.Past = append(past.Past, x)
				}
				for n := range len(whole) {
					want, err := e.Step(t.Context(), ep, Reply{Tokens: whole[:n], Truncated: true})
					if err != nil {
						t.Fatal(err)
					}
					if got := e.(Cutter).Cut(&past, whole[:n]); got != want.Reward || !want.Done {
						t.Errorf("%T, %q cut after %d tokens of turn %d: %v, want %v (%s)", e, turns, n, i, got, want.Reward, want.End)
					}
				}
				r := Reply{Tokens: whole, Room: 200}
				turn, err := e.Step(t.Context(), ep, r)
				if err != nil {
					t.Fatal(err)
				}
				ep.Past = append(ep.Past, Exchange{r, turn})
			}
		}
	}
}
