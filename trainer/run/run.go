// Package run is a run directory: the resolved recipe, metrics, rollouts to read, a log of every step, and full states.
//
//	recipe.toml       what decides the run, defaults filled in
//	metrics.jsonl     one object a step
//	rollouts.jsonl    a few replies a step, with their text
//	steps/000012      everything sampled in step 12, so that it can be trained again without sampling
//	ckpt/000020/      the full state after 20 steps
//
// Whatever is read back is written aside, synced and renamed, so that a file is whole or not there.
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
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A Dir is an open run directory, held by one process at a time.
type Dir struct {
	path string
	lock *os.File
}

// Create makes a run directory that does not hold a run yet.
func Create(path string, recipe []byte) (*Dir, error) {
	if _, err := os.Stat(filepath.Join(path, "recipe.toml")); err == nil {
		return nil, fmt.Errorf("run directory %s: there is a run already; --resume goes on with it", path)
	}
	for _, d := range []string{"steps", "ckpt"} {
		if err := os.MkdirAll(filepath.Join(path, d), 0o755); err != nil {
			return nil, fmt.Errorf("make a run directory: %w", err)
		}
	}
	d, err := hold(path)
	if err != nil {
		return nil, err
	}
	if err := d.write("recipe.toml", recipe); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

// Open goes on with a run; recipe is what it was made with.
func Open(path string) (d *Dir, recipe []byte, err error) {
	recipe, err = os.ReadFile(filepath.Join(path, "recipe.toml"))
	if err != nil {
		return nil, nil, fmt.Errorf("run directory %s: no run to resume: %w", path, err)
	}
	d, err = hold(path)
	return d, recipe, err
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
func (d *Dir) Close() error { return d.lock.Close() }

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
	return d.closed(file, f, err)
}

func (d *Dir) closed(file string, f *os.File, err error) error {
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err != nil {
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
	b, err := os.ReadFile(filepath.Join(d.path, stepFile(step)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("run directory: %w", err)
	}
	if len(b) < 4 {
		return false, fmt.Errorf("run directory: %s is cut off: %d bytes", stepFile(step), len(b))
	}
	body, s := b[:len(b)-4], b[len(b)-4:]
	if crc32.ChecksumIEEE(body) != uint32(s[0])|uint32(s[1])<<8|uint32(s[2])<<16|uint32(s[3])<<24 {
		return false, fmt.Errorf("run directory: %s is damaged: its checksum differs", stepFile(step))
	}
	if err := gob.NewDecoder(bytes.NewReader(body)).Decode(v); err != nil {
		return false, fmt.Errorf("run directory: %s: %w", stepFile(step), err)
	}
	return true, nil
}

func stepFile(step int) string { return filepath.Join("steps", fmt.Sprintf("%06d", step)) }

// write replaces a file as a whole.
func (d *Dir) write(file string, b []byte) error {
	path := filepath.Join(d.path, file)
	f, err := os.Create(path + ".part")
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	_, err = f.Write(b)
	if err := d.closed(file, f, err); err != nil {
		os.Remove(path + ".part")
		return err
	}
	if err := os.Rename(path+".part", path); err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	return syncDir(filepath.Dir(path))
}

func syncDir(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	defer f.Close()
	if err := f.Sync(); err != nil {
		return fmt.Errorf("run directory: sync %s: %w", path, err)
	}
	return nil
}

// Checkpoint writes the full state after step steps: fill makes the files in a directory aside, which then takes its
// place. Only the last keep states stay, and no log of a step before the oldest of them is needed.
func (d *Dir) Checkpoint(step, keep int, fill func(dir string) error) error {
	final := filepath.Join(d.path, "ckpt", fmt.Sprintf("%06d", step))
	part := final + ".part"
	if err := os.RemoveAll(part); err != nil {
		return fmt.Errorf("checkpoint after step %d: %w", step, err)
	}
	if err := os.Mkdir(part, 0o755); err != nil {
		return fmt.Errorf("checkpoint after step %d: %w", step, err)
	}
	if err := fill(part); err != nil {
		os.RemoveAll(part)
		return fmt.Errorf("checkpoint after step %d: %w", step, err)
	}
	if err := syncDir(part); err != nil {
		return err
	}
	if err := os.RemoveAll(final); err != nil {
		return fmt.Errorf("checkpoint after step %d: %w", step, err)
	}
	if err := os.Rename(part, final); err != nil {
		return fmt.Errorf("checkpoint after step %d: %w", step, err)
	}
	if err := syncDir(filepath.Dir(final)); err != nil {
		return err
	}
	return d.prune(keep)
}

func (d *Dir) prune(keep int) error {
	all, err := d.Checkpoints()
	if err != nil {
		return err
	}
	for len(all) > keep {
		if err := os.RemoveAll(d.CheckpointPath(all[0])); err != nil {
			return fmt.Errorf("run directory: remove an old checkpoint: %w", err)
		}
		all = all[1:]
	}
	return nil
}

// CheckpointPath is the directory of the full state after step steps.
func (d *Dir) CheckpointPath(step int) string {
	return filepath.Join(d.path, "ckpt", fmt.Sprintf("%06d", step))
}

// Checkpoints are the steps after which there is a full state, ascending.
func (d *Dir) Checkpoints() ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, "ckpt"))
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	var steps []int
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".part") {
			continue
		}
		n, err := strconv.Atoi(e.Name())
		if err != nil {
			return nil, fmt.Errorf("run directory: %s is no checkpoint", filepath.Join(d.path, "ckpt", e.Name()))
		}
		steps = append(steps, n)
	}
	slices.Sort(steps)
	return steps, nil
}

// ReadLines calls f for every line of a .jsonl file.
func (d *Dir) ReadLines(file string, f func(line []byte) error) error {
	b, err := os.Open(filepath.Join(d.path, file))
	if err != nil {
		return fmt.Errorf("run directory: %w", err)
	}
	defer b.Close()
	r := bufio.NewReader(b)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("run directory: read %s: %w", file, err)
		}
		if err := f(line); err != nil {
			return err
		}
	}
}
