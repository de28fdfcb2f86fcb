package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"tandem/model"
	"tandem/trainer"
	"tandem/trainer/env"
	"tandem/trainer/run"
)

// baseDir is where a run keeps what its weights need to be a model: config, generation config, tokenizer. With it and a full
// state, nothing of where the model came from is needed.
const baseDir = "base"

// keepBase makes the run's base, where there is none yet, and takes the tokenizer's files from there from now on.
func (s *setup) keepBase(r trainer.Recipe, runDir string) error {
	base := filepath.Join(runDir, baseDir)
	if _, err := os.Stat(base); errors.Is(err, fs.ErrNotExist) {
		c := s.weights.Config
		c.DType = s.weights.Arena.DType.String()
		from := []string{s.tokDir}
		if r.Model.Dir != "" && r.Model.Dir != s.tokDir {
			from = append(from, r.Model.Dir)
		}
		if err := model.SaveText(base, c, from...); err != nil {
			return err
		}
	} else if err != nil {
		return err
	}
	s.tokDir = base
	return nil
}

// standing is the recipe by which a run that has a full state is loaded: its model is in its own directory, but for the
// weights, which the state has.
func standing(r trainer.Recipe, dir *run.Dir) (from trainer.Recipe, stands bool, err error) {
	states, err := dir.States()
	if err != nil || len(states) == 0 {
		return r, false, err
	}
	base := filepath.Join(dir.Path(), baseDir)
	if _, err := os.Stat(filepath.Join(base, "config.json")); errors.Is(err, fs.ErrNotExist) {
		return r, false, nil
	} else if err != nil {
		return r, false, err
	}
	r.Model.Dir, r.Model.Shape, r.Model.Tokenizer = base, "", ""
	return r, true, nil
}

const processesFile = "processes.jsonl"

// A worker is a process that worked on a run.
type worker struct {
	Step       int       `json:"step"` // steps done when it began
	Began      time.Time `json:"began"`
	Version    string    `json:"version"`
	Device     string    `json:"device"`
	Machine    string    `json:"machine"`
	Processors int       `json:"processors"`
	System     string    `json:"system"`
	Data       inputs    `json:"data"`
}

// inputs tells data apart: rows and checksum of each set.
type inputs struct {
	Train          string `json:"train"`
	HeldOut        string `json:"held_out"`
	Demonstrations string `json:"demonstrations"`
	Rollouts       string `json:"rollouts,omitempty"` // imported
	Teacher        string `json:"teacher,omitempty"`  // its weights
}

func fingerprint(problems []env.Problem) string {
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	for _, p := range problems {
		fmt.Fprintf(h, "%d %q %q %q\n", p.ID, p.Text, p.Answer, p.Reply)
	}
	return fmt.Sprintf("%d rows, checksum %08x", len(problems), h.Sum32())
}

// enter notes this process in the run, which must have the data that it began with: files may lie elsewhere now, or have
// changed.
func (l *loop) enter() error {
	task := l.setup.task
	p := worker{
		Step: l.t.Done(), Began: time.Now().UTC(), Version: version(), Device: l.dev.Name(), Machine: cpuModel(), Processors: runtime.NumCPU(),
		System: runtime.GOOS + "/" + runtime.GOARCH,
		Data:   inputs{Train: fingerprint(task.Problems), HeldOut: fingerprint(task.HeldOut), Demonstrations: fingerprint(task.Demonstrations)},
	}
	p.Data.Rollouts, p.Data.Teacher = l.t.Sums()
	var first *worker
	err := l.dir.ReadLines(processesFile, func(line []byte) error {
		var was worker
		err := json.Unmarshal(line, &was)
		if first == nil {
			first = &was
		}
		return err
	})
	if err != nil {
		return err
	}
	if first != nil {
		if err := p.Data.equal(first.Data); err != nil {
			return fmt.Errorf("run directory %s: %w", l.dir.Path(), err)
		}
		for _, s := range []struct{ what, was, is string }{{"by", first.Version, p.Version}, {"on", first.Machine, p.Machine}} {
			if s.was != s.is {
				fmt.Fprintf(os.Stderr, "tandem: note: the run was begun %s %s and goes on %s %s\n", s.what, s.was, s.what, s.is)
			}
		}
	}
	return l.dir.Append(processesFile, p)
}

func (i inputs) equal(was inputs) error {
	var faults []error
	for _, s := range []struct{ what, was, is string }{
		{"problems", was.Train, i.Train}, {"held-out problems", was.HeldOut, i.HeldOut}, {"demonstrations", was.Demonstrations, i.Demonstrations},
		{"imported rollouts", was.Rollouts, i.Rollouts}, {"teacher's weights", was.Teacher, i.Teacher},
	} {
		if s.was != s.is {
			faults = append(faults, fmt.Errorf("the %s are not those that the run began with: %s, now %s", s.what, s.was, s.is))
		}
	}
	return errors.Join(faults...)
}
