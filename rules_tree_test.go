package tandem_test

import (
	"bytes"
	"errors"
	"go/ast"
	"go/build"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// A tree is the repository as the rules see it. File names are relative to its root, with slashes.
type tree struct {
	fset    *token.FileSet
	sources []*source // every text file, whatever the build constraints
	units   []*unit   // packages with types, once for each processor
}

// A source is a text file; ast is nil unless it is Go.
type source struct {
	path string
	text []byte
	ast  *ast.File
}

// A unit is a package with its types, its tests included.
type unit struct {
	dir   string
	files []*ast.File
	types *types.Package
	info  *types.Info
}

func (s *source) dir() string { return path.Dir(s.path) }
func (s *source) test() bool  { return isTest(s.path) }
func isTest(name string) bool { return strings.HasSuffix(name, "_test.go") }

// under says that a folder is dir or lies in it.
func under(dir, in string) bool { return dir == in || strings.HasPrefix(dir, in+"/") }

// made are the folders of what is built or run here.
func made(name string) bool { return slices.Contains([]string{".git", "bin", "build", "runs"}, name) }

// textual says that a file is written by people, or by a generator that stands in for them.
func textual(name string) bool {
	switch path.Ext(name) {
	case ".go", ".s", ".h", ".c", ".cc", ".cpp", ".cu", ".cuh", ".rs", ".py", ".sh", ".toml", ".md", ".mod", ".jinja":
		return true
	}
	return path.Base(name) == "Makefile" || path.Dir(name) == ".ci"
}

// readTree reads all sources, without types.
func readTree(t *testing.T) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet()}
	err := filepath.WalkDir(".", func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if e.IsDir() {
			if made(name) {
				return fs.SkipDir
			}
			return nil
		}
		if !textual(name) {
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		tr.add(t, name, text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return tr
}

func (tr *tree) add(t *testing.T, name string, text []byte) {
	t.Helper()
	s := &source{path: name, text: text}
	if path.Ext(name) == ".go" {
		var err error
		s.ast, err = parser.ParseFile(tr.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
	}
	tr.sources = append(tr.sources, s)
}

// check adds the types of our own packages, as compiled for a processor. It asks for nothing to be built: what is imported
// has no types, but for math.
func (tr *tree) check(arch string) {
	var units []*unit
	at := map[string]*unit{}
	for _, s := range tr.sources {
		if s.ast == nil || !compiled(s, arch) {
			continue
		}
		key := s.dir() + " " + s.ast.Name.Name // tests outside of the package are a package
		if at[key] == nil {
			at[key] = &unit{dir: s.dir(), info: &types.Info{
				Types: map[ast.Expr]types.TypeAndValue{}, Defs: map[*ast.Ident]types.Object{}, Uses: map[*ast.Ident]types.Object{},
			}}
			units = append(units, at[key])
		}
		at[key].files = append(at[key].files, s.ast)
	}
	cfg := types.Config{Importer: mathOnly{importer.ForCompiler(tr.fset, "source", nil)}, FakeImportC: true, Error: func(error) {}}
	for _, u := range units {
		u.types, _ = cfg.Check(u.dir, tr.fset, u.files, u.info) // errors are what the missing imports leave open
	}
	tr.units = append(tr.units, units...)
}

// compiled says that a file is part of a build for a processor.
func compiled(s *source, arch string) bool {
	c := build.Default
	c.GOOS, c.GOARCH, c.CgoEnabled = "linux", arch, true
	c.OpenFile = func(string) (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(s.text)), nil }
	ok, err := c.MatchFile(s.dir(), path.Base(s.path))
	return ok && err == nil
}

type mathOnly struct{ types.Importer }

func (m mathOnly) Import(name string) (*types.Package, error) {
	switch name {
	case "unsafe":
		return types.Unsafe, nil
	case "math":
		return m.Importer.Import(name)
	}
	return nil, errors.New("not of interest")
}

// exampleTree is a tree from text.
func exampleTree(t *testing.T, archive string) *tree {
	t.Helper()
	tr := &tree{fset: token.NewFileSet()}
	for _, f := range txtar.Parse([]byte(archive)).Files {
		tr.add(t, f.Name, f.Data)
	}
	tr.check("amd64")
	return tr
}
