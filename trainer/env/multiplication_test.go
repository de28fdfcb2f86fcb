package env

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tandem/tokenizer"
	"tandem/trainer/reward"
	"tandem/trainer/tool"
)

// runner answers as a sandbox would.
type runner func(code string) tool.Result

func (r runner) Run(_ context.Context, code string) tool.Result { return r(code) }

func TestCodeInterpreter(t *testing.T) {
	down := errors.New("no server")
	py := CodeInterpreter(runner(func(code string) tool.Result {
		switch code {
		case "down":
			return tool.Result{Reason: tool.Down, Exit: -1, Err: down}
		case "loop":
			return tool.Result{Output: "a", Error: "killed: it ran longer than 20s\n", Exit: 137, Reason: tool.TimedOut, Seconds: 20}
		case "":
			return tool.Result{Reason: tool.OK}
		}
		return tool.Result{Output: code + "\n", Reason: tool.OK, Seconds: 0.25}
	}))
	for _, c := range []struct{ arguments, input, text, failure string }{
		{`{"code": "5"}`, "5", "5", ""},
		{`{"code": "a\nb", "why": 1}`, "a\nb", "a\nb", ""},
		{`{"code": ""}`, "", "(no output)", ""},
		{`{"code": "loop"}`, "loop", "a\nkilled: it ran longer than 20s", "timeout"},
		{`{}`, "", `"code"`, BadArgument},
		{`{"Code": "5"}`, "", `"code"`, BadArgument},
		{`{"code": 5}`, "", `"code"`, BadArgument},
		{`{"code": null}`, "", `"code"`, BadArgument},
		{`[]`, "", `"code"`, BadArgument},
	} {
		o := py.Run(t.Context(), []byte(c.arguments))
		if o.Input != c.input || o.Failure != c.failure || o.Text != c.text && !(c.failure == BadArgument && strings.Contains(o.Text, c.text)) || o.Err != nil {
			t.Errorf("%s: %+v, want %+v", c.arguments, o, c)
		}
	}
	if o := py.Run(t.Context(), []byte(`{"code": "down"}`)); !errors.Is(o.Err, down) {
		t.Errorf("a sandbox that is down: %+v", o)
	}
}

// TestMultiplicationDemonstrations holds what is shown to what it is said to be, by the environment it is shown for.
func TestMultiplicationDemonstrations(t *testing.T) {
	tok, err := tokenizer.Load("../recipes/demo-tools-tokenizer")
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	g, err := reward.New("math")
	if err != nil {
		t.Fatal(err)
	}
	said := ""
	py := CodeInterpreter(runner(func(code string) tool.Result {
		said = code
		return tool.Result{Output: "?\n", Reason: tool.OK}
	}))
	e := NewTools(tok, Prompting{Template: "no-thinking"}, g, ToolLimits{Turns: 3, Calls: 3, Output: 20}, py)
	task, err := Multiplication(tok, e)
	if err != nil {
		t.Fatal(err)
	}
	if len(task.HeldOut) != 256 || len(task.Problems) != 68*68-256 {
		t.Errorf("%d and %d problems", len(task.HeldOut), len(task.Problems))
	}
	for _, p := range task.HeldOut {
		if slices.ContainsFunc(task.Problems, func(q Problem) bool { return q.Text == p.Text }) {
			t.Errorf("%s is held out and trained on", p.Text)
		}
	}
	r := fresh(t)
	const n = 4000
	var guesses, right, broken, calls float64
	for range n {
		p := task.Demonstrations[r.IntN(len(task.Demonstrations))]
		ep, err := e.Start(p)
		if err != nil {
			t.Fatal(err)
		}
		d, err := task.Demonstrate(p, r.Uint64())
		if err != nil {
			t.Fatal(err)
		}
		first, last := d.Spans[0], d.Spans[len(d.Spans)-1]
		turn, err := e.Step(t.Context(), ep, Reply{Tokens: d.Tokens[first[0]:first[1]], Room: 200})
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case turn.Done:
			guesses++
			if turn.Reward != 0 || len(d.Spans) != 1 {
				t.Fatalf("a guess at %s is worth %v: %q", p.Text, turn.Reward, tok.Decode(d.Tokens, true))
			}
		case turn.Calls[0].Failure != "":
			broken++
		default:
			calls++
			if !strings.HasPrefix(said, "print(") {
				t.Fatalf("the program is %q", said)
			}
			ep.Past = append(ep.Past, Exchange{Turn: turn})
			end, err := e.Step(t.Context(), ep, Reply{Tokens: d.Tokens[last[0]:last[1]], Room: 100})
			if err != nil || !end.Done || end.End != Answered {
				t.Fatalf("%q ends in %+v, %v", tok.Decode(d.Tokens, true), end, err)
			}
			right += float64(end.Reward)
			if got := tok.Decode(d.Tokens[first[1]:last[0]], true); !strings.HasPrefix(got, "\n<|im_start|>user\n<tool_response>\n") || !strings.HasSuffix(got, "assistant\n<think>\n\n</think>\n\n") {
				t.Fatalf("the answer to a call reads %q", got)
			}
		}
	}
	for name, share := range map[string][2]float64{
		"guesses": {guesses / n, 0.45}, "broken calls": {broken / n, 0.055}, "calls": {calls / n, 0.495}, "right": {right / n, 0.44},
	} {
		if math.Abs(share[0]-share[1]) > 5*math.Sqrt(share[1]*(1-share[1])/n) {
			t.Errorf("%s: %.3f of the demonstrations, want about %.3f", name, share[0], share[1])
		}
	}
}
