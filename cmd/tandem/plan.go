package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"tandem/kernels"
	"tandem/kernels/device"
	"tandem/model"
	"tandem/trainer"
	"tandem/trainer/recipes"
)

func newPlanCmd() *cobra.Command {
	var set []string
	cmd := &cobra.Command{
		Use:   "plan RECIPE",
		Short: "Print the memory that a recipe takes, and whether it fits",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			text, err := recipes.Read(args[0])
			if err != nil {
				return err
			}
			r, err := trainer.ParseRecipe(text, set...)
			if err != nil {
				return fmt.Errorf("%s: %w", args[0], err)
			}
			return printPlan(r)
		},
	}
	cmd.Flags().StringArrayVar(&set, "set", nil, "key=value: override a key of the recipe")
	return cmd
}

func printPlan(r trainer.Recipe) error {
	demo, err := os.MkdirTemp("", "tandem-plan-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(demo)
	tok, _, err := openTokenizer(r, demo)
	if err != nil {
		return err
	}
	defer tok.Close()
	c, err := readShape(r, tok)
	if err != nil {
		return err
	}
	d, err := parseDType(r.Model.DType)
	if err != nil {
		return err
	}
	free, err := device.FreeMemory()
	if err != nil {
		return err
	}
	if err := trainer.Fit(r, c, d, free); err != nil {
		return err
	}
	fmt.Print(trainer.NewPlan(r, c, d, free))
	if _, err := newTask(r, tok, nil); err != nil { // says what is wrong with the data, too, before a run does
		fmt.Fprintln(os.Stderr, "tandem: note: the run would not start:", err)
	}
	return nil
}

// fits refuses a recipe that the machine has no memory for.
func fits(r trainer.Recipe, c model.Config, d kernels.DType) error {
	free, err := device.FreeMemory()
	if err != nil {
		return err
	}
	return trainer.Fit(r, c, d, free)
}
