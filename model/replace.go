package model

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// replace puts partial in dir's place, in one step where the file system can, and removes what was there.
func replace(dir, partial string) error {
	_, err := os.Lstat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		err = os.Rename(partial, dir)
	case err == nil:
		err = exchange(partial, dir)
	}
	if err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(dir)); err != nil {
		return err
	}
	return os.RemoveAll(partial) // after an exchange, the old directory
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

// syncDir makes new names in a directory survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
