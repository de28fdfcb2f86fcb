package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tandem/kernels"
	"tandem/kernels/device"
	"tandem/model"
)

func newInitModelCmd() *cobra.Command {
	var seed uint64
	var dtype, tokenizerDir string
	cmd := &cobra.Command{
		Use:   "init-model SHAPE DIR",
		Short: "Write a model of random weights in the Hugging Face layout",
		Long:  "Write a model of random weights in the Hugging Face layout. SHAPE is one of " + model.ShapeNames + ".",
		Args:  cobra.ExactArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := model.Shape(args[0])
			if err != nil {
				return err
			}
			d, err := parseDType(dtype)
			if err != nil {
				return err
			}
			dev, err := device.Open("cpu", 0)
			if err != nil {
				return err
			}
			defer dev.Close()
			if err := hasRoom(dev, c, d, 1); err != nil {
				return fmt.Errorf("make %s: %w", args[0], err)
			}
			w, err := model.NewWeights(dev, c, d, 1)
			if err != nil {
				return err
			}
			x, err := kernels.NewTransfer(dev)
			if err != nil {
				return err
			}
			if err := model.Random(x, w, seed); err != nil {
				return err
			}
			card := model.Card{From: tokenizerDir, Facts: [][2]string{{"weights", fmt.Sprintf("random, shape %s, seed %d", args[0], seed)}}}
			if err := w.Save(x, args[1], card); err != nil {
				return err
			}
			fmt.Printf("%s: %d parameters, %v\n", args[1], model.Count(c), d)
			return nil
		},
	}
	cmd.Flags().Uint64Var(&seed, "seed", 0, "of the weights")
	cmd.Flags().StringVar(&dtype, "dtype", "bf16", "bf16 or float32")
	cmd.Flags().StringVar(&tokenizerDir, "tokenizer", "", "directory whose tokenizer files come along")
	return cmd
}
