// Package run is a run directory: the resolved recipe, metrics, rollouts to read, a log of every step, and full states.
//
//	recipe.toml       what decides the run, defaults filled in
//	metrics.jsonl     one object a step
//	processes.jsonl   one object a process that worked on the run
//	tensorboard/      an event file of metrics and evaluations
//	base/             what the weights need to be a model: config and tokenizer
//	rollouts.jsonl    a few replies a step, with their text
//	steps/000012      everything sampled in step 12, so that it can be trained again without sampling
//	turns.journal     the turns sampled of the step in progress
//	ckpt/000020/      the full state after 20 steps, with the checksums of its files
//
// Whatever is read back is written aside, synced and renamed, so that a file is whole or not there; and it is held to a
// checksum, so that a disk that gave back other bytes than it got stops the run instead of bending it.
package run

import (
	"bufio"
	"bytes"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"tandem/durable"
)

// A Dir is an open run directory, held by one process at a time, or one to be read only, which any number may look at
// while another works on it.
type Dir struct {
	path string
	lock *os.File // nil: only read
}

// Create makes a run directory in a place where there is no run yet, nor what a run leaves.
func Create(path string, recipe []byte) (*Dir, error) {
	for _, d := range []string{"steps", "ckpt"} {
		if err := os.MkdirAll(filepath.Join(path, d), 0o755); err != nil {
			return nil, fmt.Errorf("make a run directory: %w", err)
		}
	}
	d, err := hold(path)
	if err != nil {
		return nil, err
	}
	if err := d.vacant(); err != nil {
		d.Close()
		return nil, fmt.Errorf("run directory %s: %w", path, err)
	}
	if err := d.write(recipeFile, recipe); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

const recipeFile = "recipe.toml"

// vacant says what of a run is there.
func (d *Dir) vacant() error {
	if _, err := os.Stat(filepath.Join(d.path, recipeFile)); err == nil {
		return errors.New("there is a run already; --resume goes on with it")
	}
	for _, in := range []struct{ dir, suffix string }{{"steps", ""}, {"ckpt", ""}, {".", ".jsonl"}, {".", ".journal"}} {
		left, err := d.list(in.dir, in.suffix)
		if err != nil {
			return err
		}
		if len(left) > 0 {
			return fmt.Errorf("%s was left by a run whose %s is gone; choose another directory, or empty this one", left[0], recipeFile)
		}
	}
	return nil
}

// list gives the paths of what lies in a directory of the run and ends in suffix.
func (d *Dir) list(dir, suffix string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, dir))
	if err != nil {
		return nil, err
	}
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			paths = append(paths, filepath.Join(d.path, dir, e.Name()))
		}
	}
	return paths, nil
}

// Discard gives a directory up in which no step was done, as if there had been no Create, so that another recipe can be
// tried there.
func (d *Dir) Discard() error {
	err := os.Remove(filepath.Join(d.path, recipeFile))
	if e := d.Close(); err == nil {
		err = e
	}
	return err
}

// Open goes on with a run; recipe is what it was made with.
func Open(path string) (d *Dir, recipe []byte, err error) {
	recipe, err = os.ReadFile(filepath.Join(path, recipeFile))
	if err != nil {
		return nil, nil, fmt.Errorf("run directory %s: no run to resume: %w", path, err)
	}
	d, err = hold(path)
	return d, recipe, err
}

// Read opens a run to look at it; recipe is what it was made with. Nothing may be written.
func Read(path string) (d *Dir, recipe []byte, err error) {
	recipe, err = os.ReadFile(filepath.Join(path, recipeFile))
	if err != nil {
		return nil, nil, fmt.Errorf("run directory %s: there is no run: %w", path, err)
	}
	return &Dir{path: path}, recipe, nil
}

// hold takes the directory for this process; the kernel gives it back however the process ends.
func hold(path string) (*Dir, error) {
	f, err := os.OpenFile(filepath.Join(path, "lock"), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("run directory %s: %w", path, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, fmt.Errorf("run directory %s: another process is at work there", path)
	}
	return &Dir{path, f}, nil
}

// Close gives the directory up.
func (d *Dir) Close() error {
	if d.lock == nil {
		return nil
	}
	return d.lock.Close()
}

// Path is where the directory is.
func (d *Dir) Path() string { return d.path }

// Append adds one object as a line to a .jsonl file and syncs it.
func (d *Dir) Append(file string, v any) error {
	line, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("run directory: %s: %w", file, err)
	}
	f, err := os.OpenFile(filepath.Join(d.path, file), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	if err := durable.Close(f, err); err != nil {
		return fmt.Errorf("run directory: write %s: %w", file, err)
	}
	return nil
}

// Rewind drops the lines of a .jsonl file whose "step" is step or later, and a last line that was cut off: a resumed run
// writes them again.
func (d *Dir) Rewind(file string, step int) error {
	b, err := os.ReadFile(filepath.Join(d.path, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	var kept bytes.Buffer
	for line := range bytes.Lines(b) {
		var at struct {
			Step *int `json:"step"`
		}
		if json.Unmarshal(line, &at) == nil && bytes.HasSuffix(line, []byte("\n")) && at.Step != nil && *at.Step < step {
			kept.Write(line)
		}
	}
	return d.write(file, kept.Bytes())
}

// WriteStep logs a step.
func (d *Dir) WriteStep(step int, v any) error {
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(v); err != nil {
		return fmt.Errorf("run directory: log of step %d: %w", step, err)
	}
	sum := crc32.ChecksumIEEE(b.Bytes())
	return d.write(stepFile(step), append(b.Bytes(), byte(sum), byte(sum>>8), byte(sum>>16), byte(sum>>24)))
}

// ReadStep reads the log of a step into v; ok is false where there is none.
func (d *Dir) ReadStep(step int, v any) (ok bool, err error) {
	b, err := os.ReadFile(d.stepPath(step))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("run directory: %w", err)
	}
	if len(b) < 4 {
		return false, fmt.Errorf("run directory: %s is cut off: %d bytes; %s", d.stepPath(step), len(b), again)
	}
	body, s := b[:len(b)-4], b[len(b)-4:]
	if crc32.ChecksumIEEE(body) != uint32(s[0])|uint32(s[1])<<8|uint32(s[2])<<16|uint32(s[3])<<24 {
		return false, fmt.Errorf("run directory: %s is damaged: its checksum differs; %s", d.stepPath(step), again)
	}
	if err := gob.NewDecoder(bytes.NewReader(body)).Decode(v); err != nil {
		return false, fmt.Errorf("run directory: %s: %w", d.stepPath(step), err)
	}
	return true, nil
}

// again says what helps where the log of a step cannot be read.
const again = "remove it, and the step is sampled again"

func (d *Dir) stepPath(step int) string { return filepath.Join(d.path, stepFile(step)) }

func stepFile(step int) string { return filepath.Join("steps", fmt.Sprintf("%06d", step)) }

// write replaces a file as a whole.
func (d *Dir) write(file string, b []byte) error {
	if err := durable.WriteBytes(filepath.Join(d.path, file), b); err != nil {
		return fmt.Errorf("run directory: write %s: %w", filepath.Join(d.path, file), err)
	}
	return nil
}

// ReadLines calls f for every whole line of a .jsonl file; one that is not there has none.
func (d *Dir) ReadLines(file string, f func(line []byte) error) error {
	b, err := os.Open(filepath.Join(d.path, file))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	defer b.Close()
	r := bufio.NewReader(b)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err == nil {
			err = f(line)
		}
		if err != nil {
			return fmt.Errorf("run directory: read %s: line %d: %w", file, n, err)
		}
	}
}
