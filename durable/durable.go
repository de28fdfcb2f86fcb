// Package durable puts files and directories in their place as a whole. At any moment, also after a kill or a power cut,
// there is at a path what was there before or what is new, never a part of it; and what a function has put there is on
// the disk when it returns. What is being made lies beside its place, with Aside after its name, and is removed when it
// fails. One process at a time may write to a path; what a killed one has left aside, the next one overwrites.
//
// Errors say what the system said, without the path, which the caller knows and which is no longer the one that matters.
package durable

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Aside is what follows a path in the name of what is to take its place.
const Aside = ".part"

// Write replaces the file at path by what write writes.
func Write(path string, write func(w io.Writer) error) error {
	part := path + Aside
	if err := create(part, write); err != nil {
		os.Remove(part)
		return err
	}
	if err := os.Rename(part, path); err != nil {
		os.Remove(part)
		return reason(err)
	}
	return syncDir(filepath.Dir(path))
}

// WriteBytes replaces the file at path.
func WriteBytes(path string, b []byte) error {
	return Write(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// create makes a file that is on the disk when it returns.
func create(path string, write func(w io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return reason(err)
	}
	w := bufio.NewWriterSize(pathless{f}, 1<<20)
	if err = write(w); err == nil {
		err = w.Flush()
	}
	return Close(f, err)
}

// Close puts a written file on the disk, unless writing it has failed with err, and closes it. It returns the first
// failure.
func Close(f *os.File, err error) error {
	if err == nil {
		err = reason(f.Sync())
	}
	if e := f.Close(); err == nil {
		err = reason(e)
	}
	return err
}

// Dir replaces the directory at path by one that fill fills. What fill makes must be on the disk, as by Write.
func Dir(path string, fill func(dir string) error) error {
	part := path + Aside
	err := os.RemoveAll(part)
	if err == nil {
		err = os.Mkdir(part, 0o777)
	}
	if err != nil {
		return reason(err)
	}
	if err = fill(part); err == nil {
		err = syncDir(part)
	}
	if err == nil {
		err = replace(path, part)
	}
	if e := os.RemoveAll(part); err == nil { // the old one, or on a full disk what would be in the way
		err = reason(e)
	}
	return err
}

// replace puts part in the place of dir, in one step where the file system can.
func replace(dir, part string) error {
	_, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.Rename(part, dir)
	case err == nil:
		err = exchange(part, dir)
	}
	if err != nil {
		return reason(err)
	}
	return syncDir(filepath.Dir(dir))
}

// exchange swaps two directories. File systems that cannot do it at once (NFS, some overlays) get renames.
func exchange(a, b string) error {
	err := unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOSYS) {
		return exchangeByRenames(a, b)
	}
	if err != nil {
		return fmt.Errorf("exchange %s and %s: %w", a, b, err)
	}
	return nil
}

// exchangeByRenames leaves b absent for a moment; if the second rename fails, b is as it was.
func exchangeByRenames(a, b string) error {
	old := a + ".old"
	if err := os.RemoveAll(old); err != nil {
		return err
	}
	if err := os.Rename(b, old); err != nil {
		return err
	}
	if err := os.Rename(a, b); err != nil {
		return errors.Join(err, os.Rename(old, b))
	}
	return os.Rename(old, a)
}

// Remove takes a directory away. It is renamed first: one whose removal was cut short must not look whole.
func Remove(dir string) error {
	part := dir + Aside
	if err := os.RemoveAll(part); err != nil {
		return reason(err)
	}
	if err := os.Rename(dir, part); err != nil {
		return reason(err)
	}
	return reason(os.RemoveAll(part))
}

// syncDir makes new names in a directory survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return reason(err)
	}
	defer d.Close()
	return reason(d.Sync())
}

// pathless leaves out of errors the name that is gone when they are read.
type pathless struct{ f *os.File }

func (p pathless) Write(b []byte) (int, error) {
	n, err := p.f.Write(b)
	return n, reason(err)
}

// reason drops the operation and the path that os errors carry.
func reason(err error) error {
	switch e := err.(type) {
	case *os.PathError:
		return e.Err
	case *os.LinkError:
		return e.Err
	}
	return err
}
