package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/spf13/cobra"

	"tandem/trainer"
)

type scoreOptions struct {
	modelFlags
	in, out     string
	temperature float32
	check       bool
}

func newScoreCmd() *cobra.Command {
	var o scoreOptions
	cmd := &cobra.Command{
		Use:   "score --model DIR --in FILE",
		Short: "Give the log-prob of every token of given sequences, by the training forward",
		Long: `Give the log-prob of every token but the first of given sequences, by the training forward.

A line of --in is {"tokens": [...]} or a line that generate wrote. The line comes out with all log-probs under "logprobs".
With --check the log-probs in the line are compared with the computed ones, bit for bit; the exit status is 1 if any differs.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	o.register(f)
	f.StringVar(&o.in, "in", "-", "JSON Lines, - for standard input")
	f.StringVar(&o.out, "out", "-", "JSON Lines, - for standard output")
	f.Float32Var(&o.temperature, "temperature", 1, "logits are divided by it (0: 1, as greedy sampling reports)")
	f.BoolVar(&o.check, "check", false, "compare with the log-probs in the lines instead of writing any")
	return cmd
}

// A scoreRow is a line to be scored.
type scoreRow struct {
	PromptTokens []int32        `json:"prompt_tokens"`
	Tokens       []int32        `json:"tokens"`
	LogProbs     trainer.Floats `json:"logprobs"`

	all map[string]json.RawMessage
}

func (r *scoreRow) sequence() []int32 {
	return append(append([]int32(nil), r.PromptTokens...), r.Tokens...)
}

func (o *scoreOptions) run(ctx context.Context) error {
	m, err := o.open()
	if err != nil {
		return err
	}
	defer m.Close()
	if !(o.temperature >= 0) || math.IsInf(float64(o.temperature), 0) {
		return fmt.Errorf("--temperature is %v, want 0 (as 1) or more", o.temperature)
	}
	if o.temperature == 0 {
		o.temperature = 1
	}
	if err := o.distinct(); err != nil {
		return err
	}
	scorer, err := trainer.NewScorer(m.dev, m.weights, 1024, m.context)
	if err != nil {
		return err
	}
	in, err := openIn(o.in)
	if err != nil {
		return fmt.Errorf("read sequences: %w", err)
	}
	defer in.Close()
	var out *outFile
	if !o.check {
		if out, err = openOut(o.out); err != nil {
			return fmt.Errorf("write scores: %w", err)
		}
	}
	var c comparison
	err = o.score(ctx, m, scorer, in, out, &c)
	if out != nil {
		if e := out.Close(); err == nil && e != nil {
			err = fmt.Errorf("write scores: %w", e)
		}
	}
	if err != nil || !o.check {
		return err
	}
	return c.verdict()
}

// distinct refuses to write over the file that is being read.
func (o *scoreOptions) distinct() error {
	in, errIn := os.Stat(o.in)
	out, errOut := os.Stat(o.out)
	if !o.check && errIn == nil && errOut == nil && in.Mode().IsRegular() && os.SameFile(in, out) {
		return fmt.Errorf("--in and --out are the same file, %s", o.in)
	}
	return nil
}

// scoreBatch is the number of lines scored together.
const scoreBatch = 32

func (o *scoreOptions) score(ctx context.Context, m *openModel, s *trainer.Scorer, in io.Reader, out *outFile, c *comparison) error {
	var rows []*scoreRow
	first, n := 0, 0
	flush := func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		seqs := make([][]int32, len(rows))
		for i, r := range rows {
			seqs[i] = r.sequence()
		}
		got, err := s.LogProbs(seqs, o.temperature)
		if err != nil {
			return fmt.Errorf("lines from %d on: %w", first+1, err)
		}
		for i, r := range rows {
			if o.check {
				err = c.add(first+i, r, got[i])
			} else {
				err = r.write(out, got[i])
			}
			if err != nil {
				return err
			}
		}
		first, rows = n, rows[:0]
		return nil
	}
	err := eachLine(in, func(_ int, line []byte) error {
		r := &scoreRow{}
		if err := errors.Join(json.Unmarshal(line, r), json.Unmarshal(line, &r.all)); err != nil {
			return err
		}
		if err := m.checkSequence(r.sequence()); err != nil {
			return err
		}
		rows = append(rows, r)
		if n++; len(rows) == scoreBatch {
			return flush()
		}
		return nil
	})
	if err == nil && len(rows) > 0 {
		err = flush()
	}
	if err == nil && n == 0 {
		err = errors.New("there are no lines")
	}
	if err != nil {
		return fmt.Errorf("score %s: %w", o.in, err)
	}
	return nil
}

// write puts the row out with its log-probs.
func (r *scoreRow) write(out *outFile, got []float32) error {
	b, err := json.Marshal(trainer.Floats(got))
	if err != nil {
		return err
	}
	r.all["logprobs"] = b
	return out.row(r.all)
}

// A comparison counts bits that differ.
type comparison struct {
	rows, compared, differ int
	worst                  float64
	where                  string
}

// add compares a row's own log-probs, of its sampled tokens or of all but the first, with the computed ones.
func (c *comparison) add(n int, r *scoreRow, got []float32) error {
	sampled := len(r.PromptTokens) > 0 && len(r.LogProbs) == len(r.Tokens)
	if !sampled && len(r.LogProbs) != len(got) {
		return fmt.Errorf("line %d: %d log-probs for %d tokens after %d of a prompt: nothing to compare", n+1, len(r.LogProbs), len(r.Tokens), len(r.PromptTokens))
	}
	c.rows++
	got = got[len(got)-len(r.LogProbs):]
	for i, want := range r.LogProbs {
		c.compared++
		if math.Float32bits(want) == math.Float32bits(got[i]) {
			continue
		}
		c.differ++
		if d := math.Abs(float64(want) - float64(got[i])); !(d <= c.worst) {
			c.worst = d
			c.where = fmt.Sprintf("line %d, log-prob %d: %v in the line, %v computed", n+1, i, want, got[i])
		}
	}
	return nil
}

func (c *comparison) verdict() error {
	if c.differ == 0 {
		fmt.Fprintf(os.Stderr, "%d log-probs of %d lines are equal, bit for bit\n", c.compared, c.rows)
		return nil
	}
	fmt.Fprintf(os.Stderr, "%d of %d log-probs of %d lines differ, by up to %.3g (%s)\n", c.differ, c.compared, c.rows, c.worst, c.where)
	return exitCode(1)
}
