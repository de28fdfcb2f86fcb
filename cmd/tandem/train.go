package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem/kernels"
	"tandem/kernels/device"
	"tandem/model"
	"tandem/tokenizer"
	"tandem/trainer"
	"tandem/trainer/env"
	"tandem/trainer/recipes"
	"tandem/trainer/reward"
	"tandem/trainer/run"
)

type trainOptions struct {
	set        []string
	dir        string
	resume     bool
	device     string
	workers    int
	expectRise float64
}

func newTrainCmd() *cobra.Command {
	var o trainOptions
	cmd := &cobra.Command{
		Use:   "train RECIPE",
		Short: "Train by a recipe: supervised warm-up, then GRPO",
		Long: "Train by a recipe: a TOML file, or one that ships: " + strings.Join(recipes.Names(), ", ") + `.

The run directory gets the resolved recipe, metrics, rollouts, a log of every step and full states; a run that was
stopped, by whatever, goes on with --resume and ends with the same bits.`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args) },
	}
	f := cmd.Flags()
	f.StringArrayVar(&o.set, "set", nil, "key=value: override a key of the recipe, e.g. --set optimizer.lr=2e-6")
	f.StringVar(&o.dir, "run", "", "run directory (runs/NAME)")
	f.BoolVar(&o.resume, "resume", false, "go on with the run in the run directory; without RECIPE by its own")
	f.StringVar(&o.device, "device", "auto", "auto or cpu")
	f.IntVar(&o.workers, "workers", 0, "threads of the CPU device (0: one per processor)")
	f.Float64Var(&o.expectRise, "expect-rise", 0, "fail unless the mean reward of the last five steps exceeds that of the first five by this much")
	return cmd
}

func (o *trainOptions) run(ctx context.Context, args []string) error {
	r, dir, err := o.open(args)
	if err != nil {
		return err
	}
	defer dir.Close()
	dev, err := device.Open(o.device, o.workers)
	if err != nil {
		return err
	}
	defer dev.Close()
	s, err := openSetup(dev, r, dir.Path())
	if err != nil {
		return err
	}
	defer s.tok.Close()
	fmt.Printf("%s: %s on %s, %d parameters, run directory %s\n", r.Name, s.source, dev.Name(), model.Count(s.weights.Config), dir.Path())
	l := &loop{recipe: r, dir: dir, setup: s, expectRise: o.expectRise}
	return l.run(ctx, dev, o.resume)
}

// open resolves the recipe and takes the run directory.
func (o *trainOptions) open(args []string) (trainer.Recipe, *run.Dir, error) {
	var given *trainer.Recipe
	if len(args) == 1 {
		text, err := recipes.Read(args[0])
		if err != nil {
			return trainer.Recipe{}, nil, err
		}
		r, err := trainer.ParseRecipe(text, o.set...)
		if err != nil {
			return r, nil, fmt.Errorf("%s: %w", args[0], err)
		}
		if r.Name == "" {
			r.Name = strings.TrimSuffix(filepath.Base(args[0]), ".toml")
		}
		given = &r
	}
	if o.dir == "" {
		if given == nil {
			return trainer.Recipe{}, nil, errors.New("train: want a RECIPE, or --resume with --run DIR")
		}
		o.dir = filepath.Join("runs", given.Name)
	}
	if !o.resume {
		if given == nil {
			return trainer.Recipe{}, nil, errors.New("train: want a RECIPE")
		}
		dir, err := run.Create(o.dir, given.TOML())
		return *given, dir, err
	}
	dir, text, err := run.Open(o.dir)
	if err != nil {
		return trainer.Recipe{}, nil, err
	}
	r, err := resumed(text, given)
	if err != nil {
		dir.Close()
		return r, nil, fmt.Errorf("resume %s: %w", o.dir, err)
	}
	return r, dir, nil
}

// resumed is the recipe of the run, which the given one must equal.
func resumed(text []byte, given *trainer.Recipe) (trainer.Recipe, error) {
	r, err := trainer.ParseRecipe(text)
	if err != nil || given == nil {
		return r, err
	}
	was, is := strings.Split(string(text), "\n"), strings.Split(string(given.TOML()), "\n")
	if slices.Equal(was, is) {
		return r, nil
	}
	var diff []string
	for i := range min(len(was), len(is)) { // the same keys in the same order
		if was[i] != is[i] {
			diff = append(diff, fmt.Sprintf("  was %s\n  is  %s", was[i], is[i]))
		}
	}
	return r, fmt.Errorf("the recipe is another one:\n%s", strings.Join(diff, "\n"))
}

// A setup is what a recipe names, loaded.
type setup struct {
	weights *model.Weights
	tok     *tokenizer.Tokenizer
	tokDir  string
	task    *env.Task
	source  string // of the weights, for people
}

func openSetup(dev kernels.Device, r trainer.Recipe, runDir string) (*setup, error) {
	s := &setup{tokDir: r.Model.Tokenizer}
	switch s.tokDir {
	case "":
		s.tokDir = r.Model.Dir
	case "demo":
		s.tokDir = filepath.Join(runDir, "tokenizer")
		if err := recipes.WriteDemoTokenizer(s.tokDir); err != nil {
			return nil, err
		}
	}
	var err error
	if s.tok, err = tokenizer.Load(s.tokDir); err != nil {
		return nil, err
	}
	if err := s.load(dev, r); err != nil {
		s.tok.Close()
		return nil, err
	}
	return s, nil
}

func (s *setup) load(dev kernels.Device, r trainer.Recipe) error {
	c, err := readShape(r, s.tok)
	if err != nil {
		return err
	}
	d, err := parseDType(r.Model.DType)
	if err != nil {
		return err
	}
	if err := fits(r, c, d); err != nil {
		return err
	}
	if s.task, err = newTask(r, s.tok); err != nil {
		return err
	}
	if r.Model.Dir != "" {
		s.source = r.Model.Dir
		s.weights, err = loadWeights(dev, c, d, r.Model.Context, r.Model.Dir)
		return err
	}
	s.source = "random " + r.Model.Shape + " weights"
	if s.weights, err = model.NewWeights(dev, c, d, r.Model.Context); err != nil {
		return err
	}
	return model.Random(dev, s.weights, r.Seed)
}

// readShape is the config of the recipe's model.
func readShape(r trainer.Recipe, tok *tokenizer.Tokenizer) (c model.Config, err error) {
	if r.Model.Dir != "" {
		c, err = model.ReadConfig(r.Model.Dir)
	} else {
		c, err = model.Shape(r.Model.Shape)
	}
	if err != nil {
		return c, err
	}
	if tok != nil {
		if r.Model.Dir == "" {
			c.Vocab = tok.VocabSize() // new weights need no rows that no token has
			c.EOS = tok.EOS()
		}
		c.Live = min(c.Vocab, tok.VocabSize())
	}
	if r.Model.Context > c.Context() {
		return c, fmt.Errorf("model.context is %d, but the model's positions end at %d", r.Model.Context, c.Context())
	}
	return c, nil
}

// newTask makes the task that the recipe names.
func newTask(r trainer.Recipe, tok *tokenizer.Tokenizer) (*env.Task, error) {
	g, err := reward.New(r.Data.Grader)
	if err != nil {
		return nil, err
	}
	e := env.NewSingle(tok, env.Prompting{Template: r.Model.Template, System: r.Data.System, Suffix: r.Data.Suffix}, g)
	if r.Data.Task == "addition" {
		return env.Addition(tok, e)
	}
	return readTask(r, tok, e)
}

// readTask reads the recipe's files, and holds every answer to what the grader can read.
func readTask(r trainer.Recipe, tok *tokenizer.Tokenizer, e env.Env) (*env.Task, error) {
	cols := env.Columns{Problem: r.Data.Problem, Answer: r.Data.Answer}
	var problems, heldOut, demonstrations env.Data
	for _, f := range []struct {
		spec string
		cols env.Columns
		to   *env.Data
	}{
		{r.Data.Train, cols, &problems}, {r.Data.HeldOut, cols, &heldOut},
		{r.Warmup.Data, env.Columns{Problem: r.Data.Problem, Reply: "reply"}, &demonstrations},
	} {
		if f.spec == "" {
			continue
		}
		var err error
		if *f.to, err = env.ReadData(f.spec, f.cols); err != nil {
			return nil, err
		}
		if n := f.to.Dropped; n > 0 {
			fmt.Printf("%s: %d rows without an answer are left out, %d remain\n", f.spec, n, len(f.to.Problems))
		}
	}
	g, err := reward.New(r.Data.Grader)
	if err != nil {
		return nil, err
	}
	for _, p := range append(slices.Clone(problems.Problems), heldOut.Problems...) {
		if err := g.Check(p.Answer); err != nil {
			return nil, fmt.Errorf("grader %s: row %d: %w", g.Name(), p.ID+1, err)
		}
	}
	return env.FromFiles(tok, e, problems, heldOut, demonstrations)
}

// export writes the trained model.
func (s *setup) export(dev kernels.Device, dir string, facts [][2]string) error {
	win, err := kernels.NewTransfer(dev)
	if err != nil {
		return err
	}
	return s.weights.Save(win, dir, model.Card{From: s.tokDir, Facts: facts})
}
