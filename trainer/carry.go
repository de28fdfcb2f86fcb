package trainer

import (
	"bytes"
	"encoding/gob"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"tandem/durable"
)

const carriedFile = "carried.gob"

// finish is what remains of a step for the next one.
func (t *Trainer) finish(log *StepLog) {
	if t.imported != nil {
		return // nothing was drawn
	}
	t.drawing = t.drawing.after(log, t.recipe.rests())
	t.carried = log.Surplus
	for _, g := range t.carried {
		for _, r := range g.Rollouts {
			r.Age++
		}
	}
}

// writeCarried adds the groups that the next step begins with to a full state.
func (t *Trainer) writeCarried(dir string) error {
	if len(t.carried) == 0 {
		return nil
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(t.carried); err != nil {
		return fmt.Errorf("%s: %w", carriedFile, err)
	}
	return durable.WriteBytes(filepath.Join(dir, carriedFile), b.Bytes())
}

func (t *Trainer) readCarried(dir string) error {
	t.carried = nil
	b, err := os.ReadFile(filepath.Join(dir, carriedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := gob.NewDecoder(bytes.NewReader(b)).Decode(&t.carried); err != nil {
		return fmt.Errorf("%s: %w", carriedFile, err)
	}
	return nil
}
