package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tandem/engine"
	"tandem/tokenizer"
	"tandem/trainer/env"
	"tandem/trainer/eval"
	"tandem/trainer/reward"
)

type evalOptions struct {
	modelFlags
	settings eval.Settings
	tools    eval.Tools
	python   toolFlags
	out      string
}

func newEvalCmd() *cobra.Command {
	var o evalOptions
	cmd := &cobra.Command{
		Use:   "eval --model DIR --data NAME=FILE",
		Short: "Measure a model on problems with known answers, at several token budgets in one run",
		Long: `Measure a model on problems with known answers.

One run at the largest budget gives the scores at all of them: a sample at a smaller budget is its first tokens, cut off
unless it had stopped. The output directory gets every sample, summary.json, summary.md and report.html. An evaluation
that was interrupted goes on when the same command is given again.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	o.register(f)
	s := &o.settings
	f.StringArrayVar(&s.Sets, "data", nil, "NAME=FILE, with a slice if wanted: math500=math500.jsonl@[0:100]")
	f.IntVar(&s.Samples, "n", 16, "samples of each problem")
	f.IntSliceVar(&s.Budgets, "budgets", []int{4096}, "tokens of a reply, ascending: 4096,8192,16384")
	f.StringVar(&s.Template, "template", "no-thinking", "default, thinking, no-thinking or none")
	f.StringVar(&s.Grader, "grader", "tandem", "one of "+strings.Join(reward.Names(), ", "))
	f.Float32Var(&s.Temperature, "temperature", 1, "0 is greedy, one sample of each")
	f.Uint64Var(&s.Seed, "seed", 0, "of all draws")
	f.StringVar(&s.System, "system", "", "a system message before every problem")
	f.StringVar(&s.Suffix, "suffix", "", "text after every problem")
	t := &o.tools
	f.StringVar(&t.Name, "tools", "", "code_interpreter: the model may run Python; budgets count what it prints, too")
	f.IntVar(&t.Turns, "tool-turns", 16, "turns of the model at most")
	f.IntVar(&t.Calls, "tool-calls", 16, "calls at most")
	f.IntVar(&t.Output, "tool-output", 2048, "tokens of what one call is answered at most")
	f.Float64Var(&t.Seconds, "tool-seconds", 20, "time of one call")
	o.python.register(f)
	f.StringVar(&o.out, "out", "", "output directory (evals/NAME OF THE MODEL'S DIRECTORY)")
	cmd.AddCommand(newEvalCompareCmd())
	return cmd
}

func (o *evalOptions) run(ctx context.Context) error {
	s := &o.settings
	s.Model, s.DType = o.dir, o.dtype
	if o.tools.Name != "" {
		s.Tools = &o.tools
	}
	if err := s.Check(); err != nil {
		return fmt.Errorf("eval: %w", err)
	}
	g, err := reward.New(s.Grader)
	if err != nil {
		return err
	}
	sets, err := readSets(s.Sets, g)
	if err != nil {
		return err
	}
	m, err := o.open()
	if err != nil {
		return err
	}
	defer m.Close()
	if m.tokenizer == nil {
		return fmt.Errorf("eval: %s has no tokenizer.json", o.dir)
	}
	task, sandbox, err := evalTask(m.tokenizer, *s, g, o.python)
	if err != nil {
		return err
	}
	if sandbox != nil {
		defer sandbox.Close()
	}
	sampler := &eval.Sampler{Grader: g, Stop: m.stops(), Env: task,
		Text: func(tokens []int32) string { return m.tokenizer.Decode(tokens, false) },
	}
	if sandbox != nil {
		sampler.Calls = func(text string) bool {
			r := tokenizer.ParseReply(text)
			return r.Cut || len(r.Calls)+len(r.Problems) > 0
		}
	}
	prompts, err := evalPrompts(sampler, sets, s.Largest(), m.context)
	if err != nil {
		return err
	}
	if sampler.Engine, err = m.engine(prompts, s.Samples, engine.Params{MaxTokens: s.Largest()}); err != nil {
		return err
	}
	defer sampler.Engine.Close()
	if o.out == "" {
		o.out = filepath.Join("evals", filepath.Base(filepath.Clean(o.dir)))
	}
	return o.measure(ctx, sampler, sets)
}

// evalPrompts renders every prompt, and refuses one that leaves less room than the budget: its score would be of another.
func evalPrompts(s *eval.Sampler, sets []eval.Set, budget, context int) ([][]int32, error) {
	var prompts [][]int32
	for _, set := range sets {
		for _, p := range set.Problems {
			ep, err := s.Env.Start(p)
			if err != nil {
				return nil, fmt.Errorf("eval: %s, row %d: %w", set.Name, p.ID+1, err)
			}
			tokens := ep.Tokens
			if len(tokens)+budget > context {
				return nil, fmt.Errorf("eval: %s, row %d: a prompt of %d tokens and a budget of %d exceed the context of %d; --context raises it, up to the model's", set.Name, p.ID+1, len(tokens), budget, context)
			}
			prompts = append(prompts, tokens)
		}
	}
	return prompts, nil
}

func (o *evalOptions) measure(ctx context.Context, sampler *eval.Sampler, sets []eval.Set) error {
	d, err := eval.Open(o.out, o.settings)
	if err != nil {
		return err
	}
	defer d.Close()
	total := 0
	for _, set := range sets {
		total += len(set.Problems) * o.settings.Samples
	}
	if n := len(d.Samples()); n > 0 {
		fmt.Fprintf(os.Stderr, "%s: %d of %d samples are there\n", o.out, n, total)
	}
	bar := newProgress(os.Stderr, "eval", len(d.Samples()), total, "samples")
	err = sampler.Run(ctx, d, sets, func(done, _ int) { bar.set(done) })
	bar.done()
	if err != nil {
		if ctx.Err() != nil {
			fmt.Fprintf(os.Stderr, "stopped with %d of %d samples; the same command goes on\n", len(d.Samples()), total)
			return exitCode(interrupted)
		}
		return err
	}
	sum, err := d.Report()
	if err != nil {
		return err
	}
	fmt.Print(sum.Markdown())
	fmt.Printf("\n%s\n", filepath.Join(o.out, "report.html"))
	return nil
}

// readSets reads NAME=FILE, and holds every gold answer to what the grader can read.
func readSets(specs []string, g reward.Grader) ([]eval.Set, error) {
	var sets []eval.Set
	for _, spec := range specs {
		name, file, ok := strings.Cut(spec, "=")
		if !ok || name == "" || file == "" {
			return nil, fmt.Errorf("--data %q: want NAME=FILE", spec)
		}
		for _, s := range sets {
			if s.Name == name {
				return nil, fmt.Errorf("--data %q: there are two sets of that name", spec)
			}
		}
		d, err := env.ReadData(file, env.Columns{})
		if err != nil {
			return nil, err
		}
		if d.Dropped > 0 {
			fmt.Fprintf(os.Stderr, "%s: %d rows without an answer are left out, %d remain\n", file, d.Dropped, len(d.Problems))
		}
		for _, p := range d.Problems {
			if err := g.Check(p.Answer); err != nil {
				return nil, fmt.Errorf("grader %s: %s, row %d: %w", g.Name(), file, p.ID+1, err)
			}
		}
		sets = append(sets, eval.Set{Name: name, Problems: d.Problems})
	}
	return sets, nil
}

func newEvalCompareCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "compare A B",
		Short: "Compare two evaluations of the same problems, paired, with the interval of the difference",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			var dirs [2]*eval.Dir
			for i, path := range args {
				var err error
				if dirs[i], err = eval.Read(path); err != nil {
					return err
				}
				if len(dirs[i].Samples()) == 0 {
					return errors.New(path + " has no samples")
				}
			}
			ds, err := eval.Compare(dirs[0], dirs[1])
			if err != nil {
				return err
			}
			fmt.Print(eval.Table(ds))
			return nil
		},
	}
}
