package tool

import (
	"bufio"
	"cmp"
	"debug/elf"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// libraries are the shared libraries that the interpreter and its compiled modules name.
type libraries struct {
	loader string            // the program interpreter: a path fixed in the executable
	files  map[string]string // name that is asked for: file on the host
}

// Modules that need a display or a terminal; what they would pull in has no use without one.
var skippedModules = []string{"_tkinter", "_curses", "_curses_panel", "readline", "_gdbm", "_dbm"}

// findLibraries follows the names in the dynamic sections of the executable and of every compiled module in dirs. What
// cannot be found is left out: the import of that one module fails, as it does on the host.
func findLibraries(executable string, dirs []string) (libraries, error) {
	l := libraries{files: map[string]string{}}
	search := librarySearchPath()
	queue := []string{executable}
	for _, dir := range dirs {
		modules, err := compiledModules(dir)
		if err != nil {
			return l, err
		}
		queue = append(queue, modules...)
	}
	for len(queue) > 0 {
		file := queue[0]
		queue = queue[1:]
		names, private, loader := needed(file)
		l.loader = cmp.Or(l.loader, loader)
		for _, name := range names {
			if l.files[name] != "" {
				continue
			}
			if found := lookUp(name, append(private, search...)); found != "" {
				l.files[name] = found
				queue = append(queue, found)
			}
		}
	}
	if l.loader != "" {
		delete(l.files, filepath.Base(l.loader))
	}
	return l, nil
}

func compiledModules(dir string) ([]string, error) {
	var list []string
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		base := entry.Name()
		if entry.IsDir() && (base == "site-packages" || base == "dist-packages" || base == "test") && path != dir {
			return fs.SkipDir
		}
		stem, _, _ := strings.Cut(base, ".")
		if strings.Contains(base, ".so") && !slices.Contains(skippedModules, stem) {
			list = append(list, path)
		}
		return nil
	})
	return list, err
}

// needed reads a file's dynamic section: the libraries it names, the directories it wants searched, and its loader.
// A file that is no ELF file needs nothing.
func needed(path string) (names, dirs []string, loader string) {
	f, err := elf.Open(path)
	if err != nil {
		return nil, nil, ""
	}
	defer f.Close()
	names, _ = f.ImportedLibraries()
	for _, tag := range []elf.DynTag{elf.DT_RPATH, elf.DT_RUNPATH} {
		values, _ := f.DynString(tag)
		for _, value := range values {
			for dir := range strings.SplitSeq(value, ":") {
				dir = strings.NewReplacer("$ORIGIN", filepath.Dir(path), "${ORIGIN}", filepath.Dir(path)).Replace(dir)
				dirs = append(dirs, dir)
			}
		}
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP {
			continue
		}
		text := make([]byte, p.Filesz)
		if _, err := p.ReadAt(text, 0); err == nil {
			loader = strings.TrimRight(string(text), "\x00")
		}
	}
	return names, dirs, loader
}

func lookUp(name string, dirs []string) string {
	for _, dir := range dirs {
		path := filepath.Join(dir, name)
		if f, err := elf.Open(path); err == nil {
			f.Close()
			return path
		}
	}
	return ""
}

// librarySearchPath is what the loader searches: the directories of /etc/ld.so.conf, then those built in.
func librarySearchPath() []string {
	dirs := configuredDirs("/etc/ld.so.conf", 0)
	triplets, _ := filepath.Glob("/usr/lib/*-linux-*")
	dirs = append(dirs, triplets...)
	return append(dirs, "/lib64", "/usr/lib64", "/lib", "/usr/lib")
}

func configuredDirs(file string, depth int) []string {
	f, err := os.Open(file)
	if err != nil || depth > 4 {
		return nil
	}
	defer f.Close()
	var dirs []string
	for scanner := bufio.NewScanner(f); scanner.Scan(); {
		line, _, _ := strings.Cut(scanner.Text(), "#")
		line = strings.TrimSpace(line)
		if pattern, ok := strings.CutPrefix(line, "include "); ok {
			included, err := filepath.Glob(strings.TrimSpace(pattern))
			for _, name := range included {
				dirs = append(dirs, configuredDirs(name, depth+1)...)
			}
			if errors.Is(err, filepath.ErrBadPattern) {
				continue
			}
		} else if strings.HasPrefix(line, "/") {
			dirs = append(dirs, line)
		}
	}
	return dirs
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
