package safetensors

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"
)

// A File is an open, checked, memory-mapped file.
type File struct {
	Path     string
	Tensors  []Tensor          // in file order
	Metadata map[string]string // never nil
	mapping  []byte
}

// Open maps the file at path and checks it whole. It reads the header only; the tensors are paged in when
// they are used.
func Open(path string) (*File, error) {
	mapping, err := mmap(path)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	f := &File{Path: path, mapping: mapping}
	err = Guard(func() (err error) {
		f.Tensors, f.Metadata, err = parse(mapping)
		return err
	})
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	return f, nil
}

// Close ends the mapping. No Tensor of the file may be used afterwards.
func (f *File) Close() error {
	if f.mapping == nil {
		return nil
	}
	m := f.mapping
	f.mapping, f.Tensors = nil, nil
	return syscall.Munmap(m)
}

// Guard runs read, which reads tensors of open files, and turns a fault of the mapping into an error: the
// size was checked at Open, but another process may cut the file off later, or the disk may fail.
func Guard(read func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case interface {
			error
			Addr() uintptr // what the runtime adds when a fault of memory became a panic
		}:
			err = fmt.Errorf("the file was cut off while it was being read, or the disk failed: %w", p)
		default:
			panic(p)
		}
	}()
	return read()
}

// mmap maps a regular file for reading. The size is that of the opened file, not of the name.
func mmap(path string) ([]byte, error) {
	// Named pipes would block in open, so look first.
	if st, err := os.Stat(path); err != nil {
		return nil, reason(err)
	} else if !st.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", filepath.Base(path))
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, reason(err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, reason(err)
	}
	size := st.Size()
	if size < lenBytes { // an empty mapping is an error of its own; this is the sentence parse would give
		return nil, fmt.Errorf("the file has %d bytes, and the header length alone takes %d", size, lenBytes)
	}
	if int64(int(size)) != size {
		return nil, fmt.Errorf("the file has %d bytes, more than can be mapped", size)
	}
	return syscall.Mmap(int(f.Fd()), 0, int(size), syscall.PROT_READ, syscall.MAP_SHARED)
}

// reason drops the operation and path that os errors repeat: callers have said them.
func reason(err error) error {
	if e, ok := err.(*os.PathError); ok {
		return e.Err
	}
	return err
}
