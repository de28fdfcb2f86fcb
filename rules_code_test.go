package tandem_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"strings"
)

func codeRules() []rule {
	return []rule{
		{
			name:   "package variables are constants",
			reason: "state that no signature shows makes two engines in one process, or two runs of a test, depend on each other",
			check:  variables,
			example: `
-- a/a.go --
package a

import (
	"os"
	"sync"
)

type pair struct{ n int }

var (
	count int
	mu    sync.Mutex //!
	table = map[string]int{"a": 1}
	first = pair{1}
	fixed = []int{1, 2}
	ptr   = &first
)

func f() (int, *pair) {
	count = 1 //!
	count++ //!
	table["b"] = 2 //!
	first.n, fixed[0] = 3, 4 //!
	ptr.n = 5 //!
	for count = range 3 { //!
	}
	os.Args = nil //!
	g(&count) //!
	count := fixed[0]
	count++
	var own sync.Mutex
	own.Lock()
	local := first
	local.n = 2
	return count, &first
}

func g(*int) {}
`,
		},
		{
			name:   "no init",
			reason: "what runs before main runs in every program that links the package, whether it is wanted or not, and in an order that nobody reads",
			check:  inits,
			example: `
-- a/a.go --
package a

func init() {} //!

type t struct{}

func (t) init() {}
`,
		},
		{
			name:   "packages say what they are",
			reason: "the package comment is where a reader begins",
			check:  packageComments,
			example: `
-- a/a.go --
package a //!
-- b/b.go --
// Bees.
package b //!
-- c/c.go --
package c
-- c/doc.go --
// Package c is fine.
package c
-- c/c_test.go --
package c_test
-- cmd/d/main.go --
// Command d is fine, too.
package main
`,
		},
		{
			name:   "exported names say what they mean",
			reason: "who embeds the engine or the trainer reads documentation, not bodies: shapes, units, errors, source",
			check:  docs,
			example: `
-- kernels/a.go --
package kernels

func Bare() {} //!

// Fine is fine.
func Fine() {}

// Two and Three are fine together.
func Two() {}
func Three() {}
func Four() {} //!

type Open struct{} //!

func (Open) Bare() {} //!

func (Open) String() string { return "" }

type closed struct{}

func (closed) Bare() {}

const Limit = 1 //!

// Sizes of things.
const (
	Small = 1
	Large = 2
)

var (
	A int // the first
	B int //!
)
-- kernels/a_test.go --
package kernels

func Helper() {}
-- cmd/tandem/main.go --
package main

func Bare() {}
`,
		},
	}
}

// variables finds assignments to package variables, ours and others', and pointers by which they could be assigned. A
// variable of a struct may have its address taken, as operations do; one that is a lock or a counter has no other use.
func variables(tr *tree) []fault {
	var faults []fault
	for _, u := range tr.units {
		for _, f := range u.files {
			ast.Inspect(f, func(n ast.Node) bool {
				for _, e := range assigned(n) {
					if name, global := u.global(e); global {
						faults = append(faults, tr.at(n).says("package variable %s is assigned", name))
					}
				}
				switch n := n.(type) {
				case *ast.UnaryExpr:
					if name, global := u.global(n.X); n.Op == token.AND && global && u.basic(n.X) {
						faults = append(faults, tr.at(n).says("the address of package variable %s is taken", name))
					}
				case *ast.ValueSpec:
					if lock(n.Type) && u.info.Defs[n.Names[0]].Parent() == u.types.Scope() {
						faults = append(faults, tr.at(n).says("package variable %s is a lock or a counter", n.Names[0].Name))
					}
				}
				return true
			})
		}
	}
	return faults
}

// assigned is what a statement assigns to.
func assigned(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	}
	return nil
}

// global says whether x, x.f, x[i], *x and so on is or belongs to a variable of a package, and its name.
func (u *unit) global(e ast.Expr) (name string, ok bool) {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			v, ok := u.info.Uses[x].(*types.Var)
			return x.Name, ok && v.Parent() == u.types.Scope()
		case *ast.SelectorExpr:
			if of, ok := x.X.(*ast.Ident); ok {
				if p, ok := u.info.Uses[of].(*types.PkgName); ok {
					return p.Name() + "." + x.Sel.Name, true
				}
			}
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		default:
			return "", false
		}
	}
}

func (u *unit) basic(e ast.Expr) bool {
	t := u.info.TypeOf(e)
	if t == nil {
		return false
	}
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Kind() != types.Invalid
}

// lock says that a type is one of package sync or atomic.
func lock(t ast.Expr) bool {
	s, ok := t.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := s.X.(*ast.Ident)
	return ok && (of.Name == "sync" || of.Name == "atomic")
}

func inits(tr *tree) []fault {
	var faults []fault
	for _, s := range tr.sources {
		if s.ast == nil {
			continue
		}
		for _, d := range s.ast.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && f.Name.Name == "init" {
				faults = append(faults, tr.at(f).says("func init"))
			}
		}
	}
	return faults
}

func packageComments(tr *tree) []fault {
	var faults []fault
	said := map[string]bool{}
	first := map[string]*source{}
	for _, s := range tr.sources {
		if s.ast == nil || s.test() {
			continue
		}
		if first[s.dir()] == nil {
			first[s.dir()] = s
		}
		begin := "Package " + s.ast.Name.Name + " "
		if s.ast.Name.Name == "main" {
			begin = "Command "
		}
		said[s.dir()] = said[s.dir()] || strings.HasPrefix(s.ast.Doc.Text(), begin)
	}
	for dir, s := range first {
		if !said[dir] {
			faults = append(faults, tr.pos(s.ast.Package).says("package %s has no comment that begins with Package %s or Command", dir, s.ast.Name.Name))
		}
	}
	return faults
}

func docs(tr *tree) []fault {
	var faults []fault
	for _, s := range tr.sources {
		if s.ast == nil || s.test() || s.ast.Name.Name == "main" {
			continue
		}
		bare := func(names ...*ast.Ident) {
			for _, n := range names {
				if n.IsExported() {
					faults = append(faults, tr.at(n).says("%s has no comment", n.Name))
				}
			}
		}
		var last *ast.FuncDecl // and the comment that it has, or shares with those above it
		var shared string
		for _, d := range s.ast.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Doc != nil || last == nil || tr.at(d).line != tr.fset.Position(last.End()).Line+1 {
					shared = d.Doc.Text()
				}
				last = d
				if d.Doc == nil && open(d) && !strings.Contains(shared, d.Name.Name) {
					bare(d.Name)
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					switch spec := spec.(type) {
					case *ast.TypeSpec:
						if d.Doc == nil && spec.Doc == nil && said(spec.Comment) == "" {
							bare(spec.Name)
						}
					case *ast.ValueSpec:
						if d.Doc == nil && spec.Doc == nil && said(spec.Comment) == "" {
							bare(spec.Names...)
						}
					}
				}
			}
		}
	}
	return faults
}

// open says that a function can be called by name from outside, and that its name does not say it all.
func open(f *ast.FuncDecl) bool {
	if f.Recv == nil {
		return true
	}
	t := f.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.IsExported() && f.Name.Name != "String" && f.Name.Name != "Error"
		default:
			return true
		}
	}
}

// said is a comment without the marks of examples.
func said(c *ast.CommentGroup) string {
	return strings.TrimSpace(strings.TrimPrefix(c.Text(), "!"))
}
