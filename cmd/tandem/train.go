package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"tandem/durable"
	"tandem/trainer"
	"tandem/trainer/recipes"
	"tandem/trainer/run"
)

type trainOptions struct {
	set        []string
	dir        string
	resume     bool
	rollouts   string
	write      string
	device     string
	workers    int
	tools      toolFlags
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
	f.StringVar(&o.rollouts, "rollouts", "", "train on rollouts that were sampled elsewhere, instead of sampling: JSON Lines; the same as --set data.rollouts=FILE")
	f.StringVar(&o.write, "write-rollouts", "", "at the end, write what the run was trained on to this file, in the form that --rollouts reads")
	f.StringVar(&o.device, "device", "auto", "auto, cpu, cuda or cuda:N")
	f.IntVar(&o.workers, "workers", 0, "threads of the CPU device (0: one per processor)")
	o.tools.register(f)
	f.Float64Var(&o.expectRise, "expect-rise", 0, "fail unless the mean reward of the last five steps exceeds that of the first five by this much")
	return cmd
}

func (o *trainOptions) run(ctx context.Context, args []string) error {
	r, dir, err := o.open(args)
	if err != nil {
		return err
	}
	defer dir.Close()
	l := &loop{recipe: r, dir: dir, expectRise: o.expectRise}
	defer l.close()
	if err := l.begin(o); err != nil {
		if !o.resume {
			err = errors.Join(err, dir.Discard())
		}
		return err
	}
	if err := l.run(ctx); err != nil || o.write == "" {
		return err
	}
	return writeRollouts(o.write, dir, r.Steps())
}

// writeRollouts writes what a run was trained on.
func writeRollouts(path string, dir *run.Dir, steps int) error {
	n := 0
	err := durable.Write(path, func(w io.Writer) (err error) {
		b := bufio.NewWriterSize(w, 1<<20)
		if n, err = trainer.WriteRollouts(b, dir, steps); err == nil {
			err = b.Flush()
		}
		return err
	})
	if err == nil {
		fmt.Printf("%d rollouts in %s\n", n, path)
	}
	return err
}

// open resolves the recipe and takes the run directory.
func (o *trainOptions) open(args []string) (trainer.Recipe, *run.Dir, error) {
	if o.rollouts != "" {
		o.set = append(o.set, fmt.Sprintf("data.rollouts=%q", o.rollouts))
	}
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
	r, err := resumed(text, given, o.set)
	if err == nil {
		err = sameModel(text, r, dir)
	}
	if err != nil {
		dir.Close()
		return r, nil, fmt.Errorf("resume %s: %w", o.dir, err)
	}
	return r, dir, nil
}
