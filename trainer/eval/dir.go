package eval

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"

	"tandem/durable"
)

// A Dir is the directory of an evaluation.
type Dir struct {
	path     string
	settings Settings
	samples  []Sample
	file     *os.File
}

const (
	settingsFile = "settings.json"
	samplesFile  = "samples.jsonl"
)

// Open makes the directory, or goes on with the evaluation in it, which must have the same settings.
func Open(path string, s Settings) (*Dir, error) {
	if err := s.Check(); err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	d := &Dir{path: path, settings: s}
	was, err := readSettings(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := d.write(settingsFile, indented(s)); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case !reflect.DeepEqual(was, s):
		return nil, fmt.Errorf("evaluation: %s holds one of other settings: %s, asked for %s", path, compact(was), compact(s))
	}
	kept, err := d.read()
	if err != nil {
		return nil, err
	}
	if d.file, err = os.OpenFile(filepath.Join(path, samplesFile), os.O_CREATE|os.O_WRONLY, 0o644); err != nil {
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	// What follows the last whole line was being written when the process ended.
	if err = d.file.Truncate(kept); err == nil {
		_, err = d.file.Seek(kept, 0)
	}
	if err != nil {
		d.file.Close()
		return nil, fmt.Errorf("evaluation: %w", err)
	}
	return d, nil
}

// Read opens a finished evaluation to look at it.
func Read(path string) (*Dir, error) {
	s, err := readSettings(path)
	if err != nil {
		return nil, err
	}
	d := &Dir{path: path, settings: s}
	_, err = d.read()
	return d, err
}

func readSettings(path string) (s Settings, err error) {
	b, err := os.ReadFile(filepath.Join(path, settingsFile))
	if err != nil {
		return s, fmt.Errorf("evaluation: %w", err)
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return s, fmt.Errorf("evaluation: %s: %w", filepath.Join(path, settingsFile), err)
	}
	return s, s.Check()
}

// read takes the whole lines of samples.jsonl and returns where they end.
func (d *Dir) read() (int64, error) {
	f, err := os.Open(filepath.Join(d.path, samplesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("evaluation: %w", err)
	}
	defer f.Close()
	var end int64
	r := bufio.NewReaderSize(f, 1<<20)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil { // the end, with or without a part of a line
			return end, nil
		}
		var s Sample
		if err := json.Unmarshal(line, &s); err != nil || len(s.Scores) != len(d.settings.Budgets) {
			return end, fmt.Errorf("evaluation: %s: sample %d is damaged: %w", f.Name(), len(d.samples)+1, err)
		}
		d.samples = append(d.samples, s)
		end += int64(len(line))
	}
}

// Settings are those of the evaluation.
func (d *Dir) Settings() Settings { return d.settings }

// Samples are those that are there.
func (d *Dir) Samples() []Sample { return d.samples }

func (d *Dir) done() int { return len(d.samples) }

func (d *Dir) add(s Sample) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		return err
	}
	if _, err := d.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write a sample: %w", err)
	}
	d.samples = append(d.samples, s)
	return nil
}

func (d *Dir) sync() error {
	if err := d.file.Sync(); err != nil {
		return fmt.Errorf("evaluation: write %s: %w", d.file.Name(), err)
	}
	return nil
}

// Close ends the writing.
func (d *Dir) Close() error {
	if d.file == nil {
		return nil
	}
	return d.file.Close()
}

// write replaces a file as a whole.
func (d *Dir) write(name string, b []byte) error {
	path := filepath.Join(d.path, name)
	if err := durable.WriteBytes(path, b); err != nil {
		return fmt.Errorf("evaluation: write %s: %w", path, err)
	}
	return nil
}

func indented(v any) []byte {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		panic(fmt.Sprintf("eval: %v", err)) // plain fields, finite numbers
	}
	return append(b, '\n')
}

func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("eval: %v", err))
	}
	return string(b)
}
