package run

import (
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

	"tandem/durable"
)

// Checkpoint writes the full state after step steps: fill makes the files in a directory aside, which then takes its
// place. A state that is there already stays as it is: the run decides every bit of it, and to replace it would leave, for
// a moment, none.
func (d *Dir) Checkpoint(step int, fill func(dir string) error) error {
	final := d.CheckpointPath(step)
	if _, err := os.Stat(final); err == nil {
		return nil
	}
	err := durable.Dir(final, func(part string) error {
		if err := fill(part); err != nil {
			return err
		}
		return writeSums(part)
	})
	if err != nil {
		return fmt.Errorf("checkpoint after step %d: %w", step, err)
	}
	return nil
}

// Keep leaves the last states and that of step best, if there is one, and nothing half written or half removed.
func (d *Dir) Keep(last, best int) error {
	all, err := d.States()
	if err != nil {
		return err
	}
	for len(all) > last {
		if all[0] != best {
			if err := durable.Remove(d.CheckpointPath(all[0])); err != nil {
				return fmt.Errorf("run directory: remove an old checkpoint: %w", err)
			}
		}
		all = all[1:]
	}
	parts, err := d.list("ckpt", durable.Aside)
	for _, part := range parts {
		err = errors.Join(err, os.RemoveAll(part))
	}
	if err != nil {
		return fmt.Errorf("run directory: remove an old checkpoint: %w", err)
	}
	return nil
}

// CheckpointPath is the directory of the full state after step steps.
func (d *Dir) CheckpointPath(step int) string {
	return filepath.Join(d.path, "ckpt", fmt.Sprintf("%06d", step))
}

// Checkpoints are the steps after which there is a full state, ascending. The files of the last are held to their
// checksums.
func (d *Dir) Checkpoints() ([]int, error) {
	all, err := d.States()
	if err != nil || len(all) == 0 {
		return all, err
	}
	if err := d.Whole(all[len(all)-1]); err != nil {
		from := "the start"
		if len(all) > 1 {
			from = fmt.Sprintf("the state after step %d", all[len(all)-2])
		}
		return nil, fmt.Errorf("%w; remove it to go on from %s", err, from)
	}
	return all, nil
}

// Whole holds the files of a state to their checksums.
func (d *Dir) Whole(step int) error {
	if err := checkSums(d.CheckpointPath(step)); err != nil {
		return fmt.Errorf("checkpoint %s: %w", d.CheckpointPath(step), err)
	}
	return nil
}

// States are the steps after which there is a full state, ascending. Nothing is read of them.
func (d *Dir) States() ([]int, error) {
	entries, err := os.ReadDir(filepath.Join(d.path, "ckpt"))
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	var steps []int
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), durable.Aside) {
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

// A fileSum is what a file of a state must be.
type fileSum struct {
	Bytes int64  `json:"bytes"`
	CRC   uint32 `json:"crc32c"`
}

const sumsFile = "checksums.json"

func writeSums(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	sums := make(map[string]fileSum)
	for _, e := range entries {
		if sums[e.Name()], err = sum(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	b, err := json.Marshal(sums)
	if err != nil {
		return err
	}
	return durable.WriteBytes(filepath.Join(dir, sumsFile), b)
}

func checkSums(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, sumsFile))
	if err != nil {
		return reason(sumsFile, err)
	}
	var want map[string]fileSum
	if err := json.Unmarshal(b, &want); err != nil {
		return fmt.Errorf("%s is damaged: %w", sumsFile, err)
	}
	for name, w := range want {
		got, err := sum(filepath.Join(dir, name))
		switch {
		case err != nil:
			return reason(name, err)
		case got.Bytes < w.Bytes:
			return fmt.Errorf("%s is cut off: %d of %d bytes are there", name, got.Bytes, w.Bytes)
		case got != w:
			return fmt.Errorf("%s is damaged: its checksum differs", name)
		}
	}
	return nil
}

func reason(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing", name)
	}
	return err
}

func sum(path string) (fileSum, error) {
	f, err := os.Open(path)
	if err != nil {
		return fileSum{}, err
	}
	defer f.Close()
	h := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.CopyBuffer(onlyWriter{h}, f, make([]byte, 1<<20))
	return fileSum{n, h.Sum32()}, err
}

// onlyWriter keeps io.CopyBuffer to its buffer.
type onlyWriter struct{ io.Writer }
