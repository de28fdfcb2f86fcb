package run

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func create(t *testing.T) *Dir {
	t.Helper()
	d, err := Create(filepath.Join(t.TempDir(), "run [1]"), []byte("seed = 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}

// fill writes a state of one file.
func fill(text string) func(dir string) error {
	return func(dir string) error { return os.WriteFile(filepath.Join(dir, "state"), []byte(text), 0o644) }
}

func checkpoint(t *testing.T, d *Dir, step, keep int, text string) {
	t.Helper()
	if err := errors.Join(d.Checkpoint(step, fill(text)), d.Keep(keep, -1)); err != nil {
		t.Fatal(err)
	}
}

func wantError(t *testing.T, err error, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want it to say %q", err, text)
		}
	}
}

func TestCreateTakesAnEmptyPlaceOnly(t *testing.T) {
	d := create(t)
	_, err := Create(d.Path(), nil)
	wantError(t, err, d.Path(), "another process is at work there")
	_, _, err = Open(d.Path())
	wantError(t, err, "another process is at work there")
	d.Close()
	_, err = Create(d.Path(), nil)
	wantError(t, err, d.Path(), "there is a run already; --resume goes on with it")

	d, recipe, err := Open(d.Path())
	if err != nil || string(recipe) != "seed = 1\n" {
		t.Fatalf("recipe %q, error %v", recipe, err)
	}
	if err := d.WriteStep(0, 1); err != nil {
		t.Fatal(err)
	}
	d.Close()
	if err := os.Remove(filepath.Join(d.Path(), "recipe.toml")); err != nil {
		t.Fatal(err)
	}
	_, err = Create(d.Path(), nil)
	wantError(t, err, filepath.Join("steps", "000000"), "recipe.toml is gone")
	_, _, err = Open(d.Path())
	wantError(t, err, d.Path(), "no run to resume", "recipe.toml")
}

func TestDiscardLeavesThePlaceFree(t *testing.T) {
	d := create(t)
	if err := d.Discard(); err != nil {
		t.Fatal(err)
	}
	again, err := Create(d.Path(), nil)
	if err != nil {
		t.Fatal(err)
	}
	again.Close()
}

func TestRewindDropsLaterAndCutLines(t *testing.T) {
	d := create(t)
	for step := range 4 {
		for range 2 {
			if err := d.Append("m.jsonl", map[string]int{"step": step}); err != nil {
				t.Fatal(err)
			}
		}
	}
	f, err := os.OpenFile(filepath.Join(d.Path(), "m.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"step": 1`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if err := errors.Join(d.Rewind("m.jsonl", 2), d.Rewind("none.jsonl", 2)); err != nil {
		t.Fatal(err)
	}
	var lines []string
	if err := d.ReadLines("m.jsonl", func(line []byte) error { lines = append(lines, string(line)); return nil }); err != nil {
		t.Fatal(err)
	}
	if want := []string{"{\"step\":0}\n", "{\"step\":0}\n", "{\"step\":1}\n", "{\"step\":1}\n"}; !slices.Equal(lines, want) {
		t.Errorf("lines %q, want %q", lines, want)
	}
	err = d.ReadLines("m.jsonl", func([]byte) error { return errors.New("bad") })
	wantError(t, err, "m.jsonl", "line 1", "bad")
}

func TestReadStepFindsDamage(t *testing.T) {
	d := create(t)
	want := []float32{1, 2, 3}
	if err := d.WriteStep(7, want); err != nil {
		t.Fatal(err)
	}
	var got []float32
	if ok, err := d.ReadStep(7, &got); !ok || err != nil || !slices.Equal(got, want) {
		t.Fatalf("step 7: %v, %v, %v", got, ok, err)
	}
	if ok, err := d.ReadStep(8, &got); ok || err != nil {
		t.Errorf("step 8, which was not logged: %v, %v", ok, err)
	}
	path := filepath.Join(d.Path(), "steps", "000007")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range len(whole) {
		if err := os.WriteFile(path, whole[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := d.ReadStep(7, &got)
		wantError(t, err, path, "remove it, and the step is sampled again")
	}
	for bit := range 8 * len(whole) {
		b := slices.Clone(whole)
		b[bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		_, err := d.ReadStep(7, &got)
		wantError(t, err, path, "its checksum differs")
	}
}

func TestCheckpointsKeepTheLast(t *testing.T) {
	d := create(t)
	left := filepath.Join(d.Path(), "ckpt", "000001.part") // by a process that was killed
	if err := os.MkdirAll(filepath.Join(left, "half"), 0o755); err != nil {
		t.Fatal(err)
	}
	for step := 1; step <= 4; step++ {
		checkpoint(t, d, step, 2, "state")
	}
	steps, err := d.Checkpoints()
	if err != nil || !slices.Equal(steps, []int{3, 4}) {
		t.Errorf("checkpoints after steps %v, error %v, want 3 and 4", steps, err)
	}
	entries, err := os.ReadDir(filepath.Dir(left))
	if err != nil || len(entries) != 2 {
		t.Errorf("ckpt holds %v, %v, want two states and nothing else", entries, err)
	}
	// The same state again does not go through a moment without it.
	err = d.Checkpoint(4, func(string) error { t.Error("a state that is there was written again"); return nil })
	if err != nil {
		t.Fatal(err)
	}
}

func TestKeepLeavesTheBest(t *testing.T) {
	d := create(t)
	for step := 1; step <= 6; step++ {
		if err := d.Checkpoint(step, fill("state")); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		last, best int
		want       []int
	}{{4, 2, []int{2, 3, 4, 5, 6}}, {2, 2, []int{2, 5, 6}}, {2, 6, []int{5, 6}}, {1, 99, []int{6}}, {1, -1, []int{6}}} {
		if err := d.Keep(tt.last, tt.best); err != nil {
			t.Fatal(err)
		}
		if got, err := d.States(); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("the last %d and %d: %v, %v; want %v", tt.last, tt.best, got, err, tt.want)
		}
	}
}

func TestReadersNeedNoLock(t *testing.T) {
	d := create(t)
	for range 2 {
		r, recipe, err := Read(d.Path())
		if err != nil || string(recipe) != "seed = 1\n" {
			t.Fatalf("%q, %v", recipe, err)
		}
		defer r.Close()
	}
	_, _, err := Read(filepath.Join(d.Path(), "steps"))
	wantError(t, err, "there is no run", "recipe.toml")
}

func TestCheckpointsFindDamage(t *testing.T) {
	for _, tt := range []struct {
		name   string
		damage func(path string) error // of the file of the state
		want   string
	}{
		{"whole", func(string) error { return nil }, ""},
		{"cut off", func(path string) error { return os.Truncate(path, 3) }, "state is cut off: 3 of 5 bytes"},
		{"bit flipped", func(path string) error { return os.WriteFile(path, []byte("stade"), 0o644) }, "state is damaged: its checksum differs"},
		{"longer", func(path string) error { return os.WriteFile(path, []byte("states"), 0o644) }, "state is damaged"},
		{"gone", os.Remove, "state is missing"},
		{"no checksums", func(path string) error { return os.Remove(filepath.Join(filepath.Dir(path), sumsFile)) }, "checksums.json is missing"},
		{"checksums cut off", func(path string) error { return os.Truncate(filepath.Join(filepath.Dir(path), sumsFile), 5) }, "checksums.json is damaged"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := create(t)
			checkpoint(t, d, 5, 2, "first")
			checkpoint(t, d, 10, 2, "state")
			if err := tt.damage(filepath.Join(d.CheckpointPath(10), "state")); err != nil {
				t.Fatal(err)
			}
			_, err := d.Checkpoints()
			if tt.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			wantError(t, err, d.CheckpointPath(10), tt.want, "remove it to go on from the state after step 5")
		})
	}
}

func TestCheckpointThatFailsLeavesNothing(t *testing.T) {
	d := create(t)
	checkpoint(t, d, 1, 1, "state")
	err := d.Checkpoint(2, func(dir string) error { return errors.Join(fill("half")(dir), errors.New("the disk is full")) })
	wantError(t, err, "checkpoint after step 2", "the disk is full")
	entries, err := os.ReadDir(filepath.Join(d.Path(), "ckpt"))
	if err != nil || len(entries) != 1 || entries[0].Name() != "000001" {
		t.Errorf("ckpt holds %v, %v, want the state after step 1", entries, err)
	}
}
