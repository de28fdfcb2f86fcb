package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"tandem/tokenizer"
	"tandem/trainer"
	"tandem/trainer/env"
	"tandem/trainer/eval"
	"tandem/trainer/reward"
	"tandem/trainer/tool"
)

// toolFlags say what this machine runs programs with. What a program may take is the recipe's.
type toolFlags struct {
	python string
	unsafe bool
}

func (f *toolFlags) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.python, "python", "", "interpreter of the programs that the model writes, or a virtual environment's (default python3 on PATH)")
	flags.BoolVar(&f.unsafe, "unsafe-sandbox", false, "run them without the layers of isolation that this machine lacks")
}

// open starts the sandbox, if a tool needs one, and says what it goes without.
func (f toolFlags) open(t trainer.ToolsConfig) (*tool.Sandbox, error) {
	if t.Name == "" {
		return nil, nil
	}
	s, err := tool.New(tool.Config{
		Python: f.python, Packages: append([]string{}, strings.Fields(t.Packages)...), // none, not those by default
		Wall: time.Duration(t.Seconds * float64(time.Second)), Memory: int64(t.MemoryMB) << 20, Unsafe: f.unsafe,
	})
	if err != nil {
		return nil, err
	}
	for _, layer := range s.Missing() {
		fmt.Fprintf(os.Stderr, "tandem: note: without %s (%s): %s\n", layer.Name, layer.Detail, layer.Lost)
	}
	return s, nil
}

// newTools is the task of answering with the recipe's tool at hand.
func newTools(r trainer.Recipe, tok *tokenizer.Tokenizer, p env.Prompting, g reward.Grader, sandbox *tool.Sandbox) *env.Tools {
	t := r.Tools
	e := env.NewTools(tok, p, g, env.ToolLimits{Turns: t.Turns, Calls: t.Calls, Output: t.Output}, env.CodeInterpreter(sandbox))
	e.Brief = t.Errors == "brief"
	e.Shaped = r.Data.Reward == "calls"
	return e
}

// evalTask asks the problems of an evaluation. The sandbox is nil where it has no tool.
func evalTask(tok *tokenizer.Tokenizer, s eval.Settings, g reward.Grader, flags toolFlags) (env.Env, *tool.Sandbox, error) {
	p := env.Prompting{Template: s.Template, System: s.System, Suffix: s.Suffix}
	if s.Tools == nil {
		return env.NewSingle(tok, p, g), nil, nil
	}
	r := trainer.DefaultRecipe()
	t := &r.Tools
	t.Name, t.Turns, t.Calls, t.Output, t.Seconds = s.Tools.Name, s.Tools.Turns, s.Tools.Calls, s.Tools.Output, s.Tools.Seconds
	r.Model.Template = s.Template
	if err := r.CheckTools(); err != nil {
		return nil, nil, fmt.Errorf("eval: %w", err)
	}
	sandbox, err := flags.open(*t)
	if err != nil {
		return nil, nil, err
	}
	return newTools(r, tok, p, g, sandbox), sandbox, nil
}
