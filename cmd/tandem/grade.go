package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"tandem/trainer/reward"
	"tandem/trainer/reward/gradefile"
)

// gradeFlags are what `tandem grade` was asked for.
type gradeFlags struct {
	graders, in, out string
	report, bareLine bool
	options          gradefile.Options
}

func newGradeCmd() *cobra.Command {
	var f gradeFlags
	cmd := &cobra.Command{
		Use:   "grade --in FILE|- [--out FILE] | --report FILE...",
		Short: "Grade final answers in a file, or measure graders on labelled data",
		Long: `Grade reads rows with a response and a gold answer (JSON Lines, or a Parquet file) and
writes each row, in order, with one object per grader: {"score", "extracted", "given", "want",
"rule", "reason"}. A row that cannot be read, or whose gold answer a grader cannot read, is
reported with its line; the others are still graded, and the exit status is 1.

With --report it prints, for files whose rows carry the flag "correct" and for collected
grading cases, how often every grader agrees with the label, and examples where it does not.`,
		Example: `  tandem grade --in rollouts.jsonl --out graded.jsonl
  tandem grade --grader math,tandem --in - --label-field reward_model.ground_truth < rows.jsonl
  tandem grade --report labelled.jsonl cases.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if f.report {
				return gradeReport(cmd, &f, args)
			}
			if len(args) > 0 {
				return fmt.Errorf("grade: unexpected argument %q (files follow --in or --report)", args[0])
			}
			return gradeFile(cmd, &f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.graders, "grader", "", "graders, separated by commas: "+strings.Join(reward.Names(), ", ")+" (default tandem; all of them for --report)")
	flags.StringVar(&f.in, "in", "", "rows to grade: a JSON Lines or Parquet file, or - for standard input")
	flags.StringVar(&f.out, "out", "-", "where graded rows go, as JSON Lines; - is standard output")
	flags.StringVar(&f.options.ResponseField, "response-field", "", "field of the response (default: response, completion, output or text)")
	flags.StringVar(&f.options.LabelField, "label-field", "", "field of the gold answer, a.b inside objects (default: label, gold, answer, ground_truth or reward_model.ground_truth)")
	flags.BoolVar(&f.bareLine, "bare-line", false, "let the tandem grader take the last line of a response without a box or an answer line")
	flags.BoolVar(&f.report, "report", false, "measure the graders on labelled files and print the tables")
	return cmd
}

// selected makes the graders that were named, or those of a default list.
func (f *gradeFlags) selected(names ...string) ([]reward.Grader, error) {
	if f.graders != "" {
		names = strings.Split(f.graders, ",")
	}
	var out []reward.Grader
	seen := make(map[string]bool)
	for _, name := range names {
		name = strings.TrimSpace(name)
		if seen[name] {
			return nil, fmt.Errorf("grade: grader %q is named twice", name)
		}
		seen[name] = true
		g, err := reward.New(name)
		if err != nil {
			return nil, err
		}
		if _, ok := g.(reward.Tandem); ok {
			g = reward.Tandem{BareLine: f.bareLine}
		}
		out = append(out, g)
	}
	return out, nil
}

func gradeReport(cmd *cobra.Command, f *gradeFlags, paths []string) error {
	if len(paths) == 0 {
		return errors.New("grade --report: name the labelled files")
	}
	var err error
	if f.options.Graders, err = f.selected(reward.Names()...); err != nil {
		return err
	}
	for _, path := range paths {
		cs, err := gradefile.Report(path, f.options)
		if err != nil {
			return err
		}
		if err := gradefile.WriteReport(cmd.OutOrStdout(), path, cs); err != nil {
			return fmt.Errorf("write report: %w", err)
		}
	}
	return nil
}

// maxBadRows is how many bad rows are named; the others are only counted.
const maxBadRows = 100

func gradeFile(cmd *cobra.Command, f *gradeFlags) error {
	if f.in == "" {
		return errors.New("grade: name the rows with --in FILE, or --in - for standard input")
	}
	var err error
	if f.options.Graders, err = f.selected("tandem"); err != nil {
		return err
	}
	out, closeOut, err := createOutput(f.out, cmd.OutOrStdout())
	if err != nil {
		return err
	}
	var bar *progress
	f.options.Progress = func(read, total int64) {
		if total == 0 {
			return // from a pipe there is no telling how much is left
		}
		if bar == nil {
			bar = newProgress(os.Stderr, "grade", 0, int(total), "bytes")
		}
		bar.set(int(read))
	}
	bad := 0
	f.options.BadRow = func(line int, err error) {
		if bad++; bad > maxBadRows {
			return
		}
		if bar != nil {
			bar.clear()
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "line %d: %v\n", line, err)
	}
	s, err := gradefile.File(cmd.Context(), f.in, cmd.InOrStdin(), out, f.options)
	if bar != nil {
		bar.done()
	}
	if err := errors.Join(err, closeOut()); err != nil {
		return err
	}
	if bad > maxBadRows {
		fmt.Fprintf(cmd.ErrOrStderr(), "and %d more bad rows\n", bad-maxBadRows)
	}
	writeGradeSummary(cmd.ErrOrStderr(), s)
	if s.Bad > 0 {
		return exitCode(1)
	}
	return nil
}

func createOutput(path string, stdout io.Writer) (io.Writer, func() error, error) {
	if path == "-" {
		return stdout, func() error { return nil }, nil
	}
	file, err := os.Create(path)
	if err != nil {
		return nil, nil, fmt.Errorf("create output: %w", err)
	}
	return file, file.Close, nil
}

func writeGradeSummary(w io.Writer, s gradefile.Summary) {
	fmt.Fprintf(w, "%d rows, %d bad\n", s.Rows, s.Bad)
	for _, t := range s.Tallies {
		fmt.Fprintf(w, "%-12s graded %d, right %d (%.1f %%), mean score %.4f", t.Name, t.Graded, t.Right,
			100*float64(t.Right)/float64(max(t.Graded, 1)), t.Sum/float64(max(t.Graded, 1)))
		var reasons []string
		for r := range t.Reasons {
			reasons = append(reasons, r)
		}
		sort.Slice(reasons, func(i, j int) bool {
			a, b := t.Reasons[reasons[i]], t.Reasons[reasons[j]]
			return a > b || a == b && reasons[i] < reasons[j]
		})
		for i, r := range reasons {
			sep := "; not 1: "
			if i > 0 {
				sep = ", "
			}
			fmt.Fprintf(w, "%s%s %d", sep, r, t.Reasons[r])
		}
		fmt.Fprintln(w)
	}
}
