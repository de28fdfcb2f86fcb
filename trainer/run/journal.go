package run

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
)

// journalFile holds what was done of a step that is not logged yet. It is the one file that is read back and not written
// as a whole: records are added to it one by one, and what a kill cut off at its end is left out. It is not synced: what a
// power cut takes is done again, and nothing depends on it yet.
const journalFile = "turns.journal"

// A Journal takes records of the step in progress.
type Journal struct{ f *os.File }

// OpenJournal goes on with the journal of a step after giving its records to read, or begins one: that of another step is
// of no use.
func (d *Dir) OpenJournal(step int, read func(record []byte) error) (*Journal, error) {
	path := filepath.Join(d.path, journalFile)
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	head := binary.LittleEndian.AppendUint64(nil, uint64(step))
	kept := 0
	if first, n := nextRecord(b); n > 0 && string(first) == string(head) {
		for kept = n; ; kept += n {
			record, size := nextRecord(b[kept:])
			if n = size; n == 0 {
				break
			}
			if err := read(record); err != nil {
				return nil, fmt.Errorf("run directory: read %s: %w; remove it, and the step is sampled again", path, err)
			}
		}
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return nil, fmt.Errorf("run directory: %w", err)
	}
	j := &Journal{f}
	if err = f.Truncate(int64(kept)); err == nil {
		_, err = f.Seek(int64(kept), 0)
	}
	if err == nil && kept == 0 {
		err = j.Append(head)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("run directory: %s: %w", path, err)
	}
	return j, nil
}

// nextRecord is the first record of b, and how many bytes it takes: 0 where there is none, or not all of it, or other
// bytes than were written.
func nextRecord(b []byte) ([]byte, int) {
	if len(b) < 8 {
		return nil, 0
	}
	n, sum := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
	if uint64(len(b)) < 8+uint64(n) {
		return nil, 0
	}
	record := b[8 : 8+n]
	if crc32.ChecksumIEEE(record) != sum {
		return nil, 0
	}
	return record, 8 + int(n)
}

// Append adds a record, in one write.
func (j *Journal) Append(record []byte) error {
	b := make([]byte, 0, 8+len(record))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(record)))
	b = binary.LittleEndian.AppendUint32(b, crc32.ChecksumIEEE(record))
	if _, err := j.f.Write(append(b, record...)); err != nil {
		return fmt.Errorf("run directory: write %s: %w", journalFile, err)
	}
	return nil
}

// Close ends the writing. The records stay for whoever goes on with the step.
func (j *Journal) Close() error { return j.f.Close() }

// RemoveJournal takes away the journal of a step that is logged.
func (d *Dir) RemoveJournal() error {
	if err := os.Remove(filepath.Join(d.path, journalFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("run directory: %w", err)
	}
	return nil
}
