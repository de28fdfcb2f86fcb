package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func journal(t *testing.T, d *Dir, step int) (*Journal, []string) {
	t.Helper()
	var had []string
	j, err := d.OpenJournal(step, func(record []byte) error {
		had = append(had, string(record))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return j, had
}

func add(t *testing.T, j *Journal, records ...string) {
	t.Helper()
	for _, r := range records {
		if err := j.Append([]byte(r)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestJournal cuts a journal anywhere and spoils any of its bytes: what was whole before that is there, and more can follow.
func TestJournal(t *testing.T) {
	d := create(t)
	path := filepath.Join(d.Path(), journalFile)
	j, had := journal(t, d, 3)
	if len(had) > 0 {
		t.Errorf("a new journal holds %q", had)
	}
	all := []string{"one", "", "three and more"}
	add(t, j, all...)
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ends := []int{16, 27, 35, len(whole)} // of the head and the records
	for cut := range len(whole) + 1 {
		for _, spoil := range []bool{false, true} {
			b, want := slices.Clone(whole[:cut]), 0
			if spoil {
				if b = slices.Clone(whole); cut == len(whole) {
					continue
				}
				b[cut] ^= 0x10
			}
			for n, end := range ends[1:] {
				if cut >= end {
					want = n + 1
				}
			}
			if err := os.WriteFile(path, b, 0o644); err != nil {
				t.Fatal(err)
			}
			j, had := journal(t, d, 3)
			if !slices.Equal(had, all[:want]) {
				t.Fatalf("cut at %d, spoilt %v: %q, want %q", cut, spoil, had, all[:want])
			}
			add(t, j, "next")
			if j, had = journal(t, d, 3); !slices.Equal(had, append(slices.Clone(all[:want]), "next")) {
				t.Fatalf("cut at %d, spoilt %v, and gone on with: %q", cut, spoil, had)
			}
			j.Close()
		}
	}
	j, had = journal(t, d, 4)
	if len(had) > 0 {
		t.Errorf("the journal of step 3 gave %q to step 4", had)
	}
	add(t, j, "x")
	_, err = d.OpenJournal(4, func([]byte) error { return errors.New("no turn") })
	wantError(t, err, "no turn", "remove it, and the step is sampled again")
	for range 2 {
		if err := d.RemoveJournal(); err != nil {
			t.Fatal(err)
		}
	}
	if j, had = journal(t, d, 4); len(had) > 0 {
		t.Errorf("a removed journal holds %q", had)
	}
	j.Close()
	d.Discard()
	_, err = Create(d.Path(), nil)
	wantError(t, err, "turns.journal was left by a run")
}
