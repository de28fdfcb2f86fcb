package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"tandem/trainer/report"
)

func newCompareCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "compare RUN RUN...",
		Short: "Put runs side by side: what they came to and where their recipes differ",
		Args:  cobra.MinimumNArgs(2),
		RunE: func(_ *cobra.Command, args []string) error {
			c, err := report.Compare(args)
			if err != nil {
				return err
			}
			fmt.Print(c.Text())
			if out == "" {
				return nil
			}
			fmt.Println()
			return writePage(out, c.HTML)
		},
	}
	cmd.Flags().StringVar(&out, "html", "", "write a page with their curves, too")
	return cmd
}
