package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"tandem/durable"
	"tandem/trainer/report/events"
)

// BoardDir is the directory of a run that TensorBoard reads: tensorboard --logdir RUN, or a directory of runs.
const BoardDir = "tensorboard"

// A Board keeps an event file of a run's figures, as the run goes on. Everything in it comes from the run's own files, from
// which it is written anew when a run is resumed: steps that the run takes back are not in it twice.
type Board struct {
	file *os.File
	at   float64 // wall time of the last step, seconds since 1970: a run's beginning and its steps, without what was between them
}

// OpenBoard writes an event file of what a run has done. The file of an earlier process goes when the new one is whole.
func OpenBoard(path string) (*Board, error) {
	r, err := Load(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(path, BoardDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	old, err := filepath.Glob(filepath.Join(glob(dir), "events.out.tfevents.*"))
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	now := time.Now()
	b := &Board{at: float64(now.UnixMilli()) / 1000}
	if len(r.Processes) > 0 {
		b.at = float64(r.Processes[0].Began.UnixMilli()) / 1000
	}
	file := filepath.Join(dir, fmt.Sprintf("events.out.tfevents.%010d.%09d.tandem", now.Unix(), now.Nanosecond()))
	if err := durable.WriteBytes(file, b.history(r)); err != nil {
		return nil, fmt.Errorf("tensorboard: write %s: %w", file, err)
	}
	for _, f := range old {
		if f != file {
			err = errors.Join(err, os.Remove(f))
		}
	}
	if err == nil {
		b.file, err = os.OpenFile(file, os.O_WRONLY|os.O_APPEND, 0)
	}
	if err != nil {
		return nil, fmt.Errorf("tensorboard: %w", err)
	}
	return b, nil
}

// glob is a path whose own letters mean nothing in a pattern.
func glob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// history is a file of all that a run has done, in the order of steps.
func (b *Board) history(r *Run) []byte {
	var out bytes.Buffer
	out.Write(events.Version(b.at))
	out.Write(events.Start(b.at, 0))
	out.Write(events.Text(b.at, 0, "recipe", "    "+strings.ReplaceAll(strings.TrimSuffix(r.Recipe, "\n"), "\n", "\n    ")))
	evaluations := r.Evaluations
	scored := func(until int) {
		for len(evaluations) > 0 && evaluations[0].Step <= until {
			out.Write(b.evaluation(evaluations[0]))
			evaluations = evaluations[1:]
		}
	}
	for _, s := range r.Steps {
		scored(s.Step)
		out.Write(b.step(s))
	}
	if len(evaluations) > 0 {
		scored(evaluations[len(evaluations)-1].Step)
	}
	return out.Bytes()
}

// step is the record of a step, which comes after its work.
func (b *Board) step(s Step) []byte {
	if t := s.Values["seconds"]; t > 0 {
		b.at += t
	}
	var scalars []events.Scalar
	add := func(name, part string, v float64) {
		if v-v == 0 {
			if tag := tag(s.Stage, name); tag != "" {
				scalars = append(scalars, events.Scalar{Tag: tag + part, Value: v})
			}
		}
	}
	for name, v := range s.Values {
		add(name, "", v)
	}
	for name, list := range s.Lists {
		for i, v := range list {
			add(name, fmt.Sprintf("/%d", i), v)
		}
	}
	slices.SortFunc(scalars, func(a, b events.Scalar) int { return strings.Compare(a.Tag, b.Tag) })
	return events.Scalars(b.at, s.Step+1, scalars)
}

// tag has the group before the name. Of the warm-up, which has no rollouts, what is about those is left out.
func tag(stage, name string) string {
	group := Known(name).Group
	if stage == "warmup" {
		if !slices.Contains([]string{"learning", "speed", "time", "memory", "hardware", "other"}, group) {
			return ""
		}
		group = "warmup"
	}
	return group + "/" + strings.ReplaceAll(name, ".", "/")
}

func (b *Board) evaluation(e Evaluation) []byte {
	tag := "held-out-" + how(e.Greedy) + "/"
	return events.Scalars(b.at, e.Step, []events.Scalar{
		{Tag: tag + "accuracy", Value: e.Accuracy}, {Tag: tag + "reward", Value: e.Reward}, {Tag: tag + "length", Value: e.Length}, {Tag: tag + "truncated", Value: e.Truncated},
	})
}

// Step adds a step: the object that is a line of metrics.jsonl.
func (b *Board) Step(metrics any) error {
	line, err := json.Marshal(metrics)
	if err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	s, err := parseStep(line)
	if err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return b.write(b.step(s))
}

// Evaluation adds an evaluation: the object that is a line of evaluations.jsonl.
func (b *Board) Evaluation(evaluation any) error {
	line, err := json.Marshal(evaluation)
	if err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	var e Evaluation
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return b.write(b.evaluation(e))
}

// write adds a record at once, so that who watches the file sees no part of one.
func (b *Board) write(record []byte) error {
	if _, err := b.file.Write(record); err != nil {
		return fmt.Errorf("tensorboard: %w", err)
	}
	return nil
}

// Close ends the file.
func (b *Board) Close() error { return b.file.Close() }
