package durable

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

func put(t *testing.T, path, text string) {
	t.Helper()
	if err := WriteBytes(path, []byte(text)); err != nil {
		t.Fatal(err)
	}
}

func holds(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("%s holds %q, %v; want %q", path, got, err, want)
	}
}

// alone says that a directory has nothing but the named entries.
func alone(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func TestWriteReplaces(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f [1]")
	if err := os.WriteFile(path+Aside, []byte("left by a process that was killed, and longer than what is new"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"first", "", "a longer second one"} {
		put(t, path, text)
		holds(t, path, text)
		alone(t, dir, "f [1]")
	}
}

func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	put(t, path, "before")
	bad := errors.New("bad")
	err := Write(path, func(w io.Writer) error {
		_, err := w.Write(make([]byte, 3<<20))
		return errors.Join(err, bad)
	})
	if !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
	holds(t, path, "before")
	alone(t, dir, "f")
	if err := WriteBytes(filepath.Join(dir, "none", "f"), nil); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), Aside) {
		t.Errorf("in a directory that is not there: %v", err)
	}
	if err := os.Mkdir(filepath.Join(dir, "taken"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteBytes(filepath.Join(dir, "taken"), nil); err == nil || strings.Contains(err.Error(), Aside) {
		t.Errorf("over a directory: %v", err)
	}
	alone(t, dir, "f", "taken")
}

func TestDirReplaces(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "d")
	if err := os.MkdirAll(filepath.Join(dir+Aside, "left"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one", "two"} {
		err := Dir(dir, func(at string) error { return WriteBytes(filepath.Join(at, name), []byte(name)) })
		if err != nil {
			t.Fatal(err)
		}
		alone(t, parent, "d")
		alone(t, dir, name)
	}
	bad := errors.New("bad")
	err := Dir(dir, func(at string) error { return errors.Join(WriteBytes(filepath.Join(at, "half"), nil), bad) })
	if !errors.Is(err, bad) {
		t.Errorf("error %v", err)
	}
	alone(t, parent, "d")
	alone(t, dir, "two")
	if err := Remove(dir); err != nil {
		t.Fatal(err)
	}
	alone(t, parent)
}

// TestExchangeByRenames is for file systems that cannot exchange.
func TestExchangeByRenames(t *testing.T) {
	parent := t.TempDir()
	a, b := filepath.Join(parent, "a"), filepath.Join(parent, "b")
	for _, dir := range []string{a, b} {
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, "is"), dir)
	}
	if err := exchangeByRenames(a, b); err != nil {
		t.Fatal(err)
	}
	holds(t, filepath.Join(a, "is"), b)
	holds(t, filepath.Join(b, "is"), a)
	alone(t, parent, "a", "b")
}

// TestFullDisk writes to a file system of its own until it is full.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := unix.Mount("tandem-test", disk, "tmpfs", 0, "size=3m"); err != nil {
		t.Skipf("a small file system cannot be mounted here: %v", err)
	}
	defer func() {
		if err := unix.Unmount(disk, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	}()
	file, dir := filepath.Join(disk, "f"), filepath.Join(disk, "d")
	big := strings.Repeat("x", 1<<20)
	put(t, file, big)
	fill := func(n int) error {
		return Dir(dir, func(at string) error { return WriteBytes(filepath.Join(at, "f"), make([]byte, n)) })
	}
	if err := fill(1 << 10); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"file": WriteBytes(file, make([]byte, 4<<20)), "directory": fill(4 << 20)} {
		if !errors.Is(err, unix.ENOSPC) || err.Error() != unix.ENOSPC.Error() {
			t.Errorf("%s: %v", what, err)
		}
	}
	holds(t, file, big)
	alone(t, disk, "d", "f")
	holds(t, filepath.Join(dir, "f"), string(make([]byte, 1<<10)))
	put(t, file, "there is room again")
	if err := unix.Mount("tandem-test", disk, "tmpfs", unix.MS_REMOUNT|unix.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"file": WriteBytes(file, nil), "directory": fill(1), "removal": Remove(dir)} {
		if !errors.Is(err, unix.EROFS) {
			t.Errorf("%s on a read-only disk: %v", what, err)
		}
	}
	holds(t, file, "there is room again")
}
