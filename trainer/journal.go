package trainer

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"sync"

	"tandem/trainer/run"
)

// A journal keeps the turns of the step being sampled, so that a process that goes on with it neither samples them again
// nor asks a tool again, whose answer might be another one. Episodes are told apart by their seed.
type journal struct {
	mu   sync.Mutex
	file *run.Journal
	had  map[uint64][]turn // what was there at the start
}

// A logged turn.
type logged struct {
	Seed uint64
	Turn turn
}

// openJournal reads what is there of a step, and adds to it.
func openJournal(d *run.Dir, step int) (*journal, error) {
	j := &journal{had: make(map[uint64][]turn)}
	var err error
	j.file, err = d.OpenJournal(step, func(record []byte) error {
		var l logged
		err := gob.NewDecoder(bytes.NewReader(record)).Decode(&l)
		j.had[l.Seed] = append(j.had[l.Seed], l.Turn)
		return err
	})
	return j, err
}

// past are the turns of an episode that were there at the start.
func (j *journal) past(seed uint64) []turn {
	if j == nil {
		return nil
	}
	return j.had[seed]
}

func (j *journal) add(seed uint64, t turn) error {
	if j == nil {
		return nil
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(logged{seed, t}); err != nil {
		return fmt.Errorf("journal: %w", err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.file.Append(b.Bytes())
}
