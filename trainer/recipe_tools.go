package trainer

import (
	"errors"
	"fmt"
	"slices"
)

// ToolsConfig says which tool the model may call while it answers, and what that may take.
type ToolsConfig struct {
	Name     string  `toml:"name"`      // code_interpreter, or "" for none
	Turns    int     `toml:"turns"`     // of the model in an episode at most
	Calls    int     `toml:"calls"`     // in an episode at most
	Output   int     `toml:"output"`    // tokens of what one call is answered at most
	Errors   string  `toml:"errors"`    // full: the model reads what went wrong; brief: the word Error, for a tokenizer that spells little else
	Seconds  float64 `toml:"seconds"`   // that a call may take
	MemoryMB int     `toml:"memory_mb"` // that a call may take beyond what the interpreter has
	Packages string  `toml:"packages"`  // Python modules on offer where installed, separated by spaces
}

func defaultTools() ToolsConfig {
	return ToolsConfig{Turns: 16, Calls: 16, Output: 2048, Errors: "full", Seconds: 20, MemoryMB: 1024, Packages: "numpy sympy"}
}

// CheckTools says what is wrong with how replies that call tools are played and rewarded.
func (r Recipe) CheckTools() error {
	var faults []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	oneOf := func(key, got string, names ...string) {
		want(slices.Contains(names, got), "%s is %q, want one of %q", key, got, names)
	}
	t := r.Tools
	oneOf("tools.name", t.Name, "", "code_interpreter")
	oneOf("tools.errors", t.Errors, "full", "brief")
	want(t.Turns >= 1 && t.Turns <= most, "tools.turns is %d, want at least 1", t.Turns)
	want(t.Calls >= 1 && t.Calls <= most, "tools.calls is %d, want at least 1", t.Calls)
	want(t.Output >= 1 && t.Output <= most, "tools.output is %d, want at least 1", t.Output)
	want(t.Seconds >= 0.01 && t.Seconds <= 3600, "tools.seconds is %v, want 0.01 to 3600", t.Seconds)
	want(t.MemoryMB >= 16 && t.MemoryMB <= 1<<20, "tools.memory_mb is %d, want 16 to 1048576", t.MemoryMB)
	want(t.Name == "" || r.Model.Template != "none", "tools.name is %q with model.template = \"none\": tools are offered by the model's template", t.Name)
	oneOf("data.reward", r.Data.Reward, "score", "signed", "calls")
	want(r.Data.Reward != "calls" || t.Name != "", "data.reward is \"calls\", but tools.name is empty: no reply can call")
	want(r.Data.Task != "multiplication" || t.Name != "", "data.task is \"multiplication\", but tools.name is empty: its demonstrations call code_interpreter")
	n := r.Rollout.TurnTokens
	want(n >= 0 && n <= r.Rollout.MaxTokens, "rollout.turn_tokens is %d, want 0 (no limit of its own) to rollout.max_tokens, %d", n, r.Rollout.MaxTokens)
	return errors.Join(faults...)
}
