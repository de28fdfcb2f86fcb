package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"tandem/model"
	"tandem/trainer"
	"tandem/trainer/run"
)

type exportOptions struct {
	step int
	best bool
}

func newExportCmd() *cobra.Command {
	o := exportOptions{step: -1}
	cmd := &cobra.Command{
		Use:   "export RUN DIR",
		Short: "Write the model of a run, at any full state, as a Hugging Face directory",
		Long: `Write the model of a run as a directory that AutoModelForCausalLM.from_pretrained and other commands load: config, generation
config, tokenizer and weights, with the bits that the run had. Without --step or --best it is the last full state.
The run may be going on, or may have been moved from elsewhere: nothing outside its directory is read.`,
		Args: cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error { return o.run(args[0], args[1]) },
	}
	cmd.Flags().IntVar(&o.step, "step", -1, "the full state after so many steps, warm-up included")
	cmd.Flags().BoolVar(&o.best, "best", false, "the full state that did best on held-out problems, or else in its rollouts")
	cmd.MarkFlagsMutuallyExclusive("step", "best")
	return cmd
}

func (o *exportOptions) run(from, to string) error {
	dir, text, err := run.Read(from)
	if err != nil {
		return err
	}
	r, err := trainer.ParseRecipe(text)
	if err != nil {
		return fmt.Errorf("run directory %s: %w", from, err)
	}
	step, why, err := o.choose(dir, r)
	if err != nil {
		return fmt.Errorf("export %s: %w", from, err)
	}
	base := filepath.Join(from, baseDir)
	c, err := model.ReadConfig(base)
	if err != nil {
		return fmt.Errorf("export %s: %w", from, err)
	}
	card := model.Card{From: base, Facts: [][2]string{
		{"recipe", r.Name}, {"trained from", source(r)}, {"steps", fmt.Sprintf("%d of %d", step, r.Steps())}, {"chosen as", why},
	}}
	if err := trainer.Export(dir, step, c, to, card); err != nil {
		return err
	}
	fmt.Printf("%s: the model after %d of %d steps, %s\n", to, step, r.Steps(), why)
	return nil
}

// choose is the state that the flags name, and what it is.
func (o *exportOptions) choose(dir *run.Dir, r trainer.Recipe) (step int, why string, err error) {
	states, err := dir.States()
	if err != nil {
		return 0, "", err
	}
	if len(states) == 0 {
		return 0, "", errors.New("there is no full state yet")
	}
	switch {
	case o.step >= 0:
		if !slices.Contains(states, o.step) {
			return 0, "", fmt.Errorf("there is no full state after step %d; there are those after %s", o.step, list(states))
		}
		return o.step, "as asked for", nil
	case o.best:
		best, err := trainer.FindBest(dir, r)
		if err == nil && best.Step < 0 {
			err = errors.New("none of its full states was scored, nor follows steps on rollouts")
		}
		return best.Step, "the best by " + measure(best), err
	}
	return states[len(states)-1], "the last full state", nil
}

// measure says what made a state the best.
func measure(b trainer.Best) string {
	if b.HeldOut {
		return fmt.Sprintf("held-out reward, %.3f", b.Reward)
	}
	return fmt.Sprintf("the reward of the steps before it, %.3f", b.Reward)
}

func list(steps []int) string {
	var s []string
	for _, n := range steps {
		s = append(s, fmt.Sprint(n))
	}
	return strings.Join(s, ", ")
}

// source is where the weights of a recipe come from, for people.
func source(r trainer.Recipe) string {
	if r.Model.Dir != "" {
		return r.Model.Dir
	}
	return "random " + r.Model.Shape + " weights"
}
