package main

import (
	"fmt"
	"path/filepath"

	"github.com/spf13/cobra"

	"tandem/durable"
	"tandem/trainer/report"
)

func newReportCmd() *cobra.Command {
	var out string
	cmd := &cobra.Command{
		Use:   "report RUN",
		Short: "Write a page about a run: curves, times, evaluations, replies, recipe",
		Long: `Write one HTML page about a run, which needs nothing but itself and can be read offline. The run may be going on.
The figures are described in docs/metrics.md.`,
		Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			r, err := report.Load(args[0])
			if err != nil {
				return err
			}
			if out == "" {
				out = filepath.Join(args[0], "report.html")
			}
			return writePage(out, r.HTML)
		},
	}
	cmd.Flags().StringVarP(&out, "out", "o", "", "the page (RUN/report.html)")
	return cmd
}

func writePage(path string, page func() ([]byte, error)) error {
	b, err := page()
	if err == nil {
		err = durable.WriteBytes(path, b)
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	fmt.Println(path)
	return nil
}
