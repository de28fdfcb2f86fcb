package tandem_test

import (
	"go/ast"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

func kernelRules() []rule {
	return []rule{
		{
			name:   "no unwritten FMA",
			reason: "the compiler may fuse a product and a sum that it meets (on arm64, and on amd64 with GOAMD64=v3), and the bits differ from those of every other device: write float32(x*y) + z, or fma32",
			check:  products,
			example: `
-- kernels/a.go --
package kernels

func f(x, y, z float32, n []float32, i int) float32 {
	a := x*y + z //!
	a = z - (x * y) //!
	a += -x * y //!
	n[i] -= n[0] * n[1] //!
	p := x * y //!
	a = p + z
	q := z
	q *= x //!
	a += q
	a = float32(x*y) + z
	a = x * y / z
	b := fma32(x, y, z) * x
	n[2*i+1] = b
	const c = 2.0*3 + 1
	return a + float32(z*z)
}

func g(x, y float64) float64 {
	return x*x + float64(y*y) //!
}

func fma32(x, y, z float32) float32 { return x }
`,
		},
		{
			name:   "arguments are laid out for every compiler",
			reason: "a kernel reads the bytes of the Go struct through a struct of its own: pointers first, then nested structs, then scalars, nothing hidden between them, a multiple of 8 bytes in all",
			check:  arguments,
			example: `
-- kernels/a.go --
package kernels

import "unsafe"

type Ptr uint64

type Op struct{ Size uintptr }

var ops = []Op{
	Op{Size: unsafe.Sizeof(fineArgs{})},
	Op{Size: unsafe.Sizeof(lateArgs{})},
	Op{Size: unsafe.Sizeof(oddArgs{})},
	Op{Size: unsafe.Sizeof(hollowArgs{})},
	Op{Size: unsafe.Sizeof(shortArgs{})},
	Op{Size: unsafe.Sizeof(outerArgs{})},
}

type outerArgs struct {
	out  Ptr
	part innerArgs
}

type innerArgs struct { //!
	w    Ptr
	n, m int32
	x    Ptr
}

type otherArgs struct {
	n int32
	p Ptr
}

type fineArgs struct {
	out, x Ptr
	part   partArgs
	T, D   int32
	eps    float32
	_      int32
}

type partArgs struct {
	w Ptr
	n int64
}

type lateArgs struct { //!
	T, D int32
	out  Ptr
}

type oddArgs struct { //!
	out Ptr
	T   int32
}

type hollowArgs struct { //!
	out Ptr
	T   int32
	N   int64
}

type shortArgs struct { //!
	T, D, E int32
}
`,
		},
		{
			name:   "operations have tests, kernels have stems",
			reason: "x.go, x.cu and x_test.go are one operation: what it means, what runs, and how it is known to be right",
			check:  stems,
			example: `
-- kernels/add.go --
package kernels

type Op struct{}

var addOp = Op{}
-- kernels/add.cu --
-- kernels/add_test.go --
package kernels
-- kernels/attention.go --
package kernels
-- kernels/attention_test.go --
package kernels
-- kernels/attention_backward.go --
package kernels

var attentionBackwardOp = Op{}
-- kernels/attention_sm90.cu --
-- kernels/gather.go --
package kernels

var gatherOp = Op{} //!
-- kernels/stray.cu --
//!
-- kernels/emu/testdata/fault.cu --
`,
		},
	}
}

// products finds float products that are summed before anything rounds them, at once or by way of a local variable.
func products(tr *tree) []fault {
	var faults []fault
	for _, u := range tr.units {
		if u.dir != "kernels" {
			continue
		}
		for _, f := range u.files {
			if isTest(tr.at(f).file) {
				continue
			}
			for _, d := range f.Decls {
				if d, ok := d.(*ast.FuncDecl); ok && d.Body != nil {
					faults = append(faults, tr.unrounded(u, d.Body)...)
				}
			}
		}
	}
	return faults
}

func (tr *tree) unrounded(u *unit, body *ast.BlockStmt) []fault {
	var faults []fault
	held := map[types.Object]ast.Node{} // local variables and the product that each was given
	summed := func(e ast.Expr) {
		e = bare(e)
		if u.product(e) {
			faults = append(faults, tr.at(e).says("a product is summed without being rounded"))
		}
		if id, ok := e.(*ast.Ident); ok && held[u.info.Uses[id]] != nil {
			faults = append(faults, tr.at(held[u.info.Uses[id]]).says("%s is a product that is summed without being rounded", id.Name))
		}
	}
	visit := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if (n.Op == token.ADD || n.Op == token.SUB) && u.float(n) {
				summed(n.X)
				summed(n.Y)
			}
		case *ast.AssignStmt:
			for i, l := range n.Lhs {
				if len(n.Rhs) != len(n.Lhs) {
					break
				}
				switch id, _ := bare(l).(*ast.Ident); n.Tok {
				case token.ADD_ASSIGN, token.SUB_ASSIGN:
					if u.float(l) {
						summed(l)
						summed(n.Rhs[i])
					}
				case token.MUL_ASSIGN:
					if id != nil && u.float(l) {
						held[u.object(id)] = n
					}
				default:
					if id == nil {
						break
					}
					delete(held, u.object(id))
					if r := bare(n.Rhs[i]); u.product(r) {
						held[u.object(id)] = r
					}
				}
			}
		}
		return true
	}
	ast.Inspect(body, visit)
	n := len(faults)
	ast.Inspect(body, visit) // what a loop takes from its end to its beginning
	for _, f := range slices.Clone(faults[n:]) {
		if !slices.Contains(faults[:n], f) {
			faults = append(faults[:n], f)
			n++
		}
	}
	return faults[:n]
}

func (u *unit) object(id *ast.Ident) types.Object {
	if o := u.info.Defs[id]; o != nil {
		return o
	}
	return u.info.Uses[id]
}

// bare is an expression without parentheses and signs, which a fused instruction takes along.
func bare(e ast.Expr) ast.Expr {
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.UnaryExpr:
			if x.Op != token.SUB && x.Op != token.ADD {
				return e
			}
			e = x.X
		default:
			return e
		}
	}
}

// product says that an expression is a float product computed at run time; -x * y parses as one.
func (u *unit) product(e ast.Expr) bool {
	b, ok := e.(*ast.BinaryExpr)
	return ok && b.Op == token.MUL && u.float(e)
}

func (u *unit) float(e ast.Expr) bool {
	tv := u.info.Types[e]
	if id, ok := e.(*ast.Ident); ok && tv.Type == nil {
		if o := u.object(id); o != nil {
			tv.Type = o.Type()
		}
	}
	if tv.Type == nil || tv.Value != nil {
		return false
	}
	b, ok := tv.Type.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsFloat != 0
}

// arguments finds the structs that operations take.
func arguments(tr *tree) []fault {
	var faults []fault
	for _, u := range tr.units {
		if u.dir != "kernels" || u.types.Name() != "kernels" {
			continue
		}
		for _, f := range u.files {
			ast.Inspect(f, func(n ast.Node) bool {
				if op, ok := n.(*ast.CompositeLit); ok && opType(op) {
					for _, e := range op.Elts {
						faults = append(faults, tr.layout(u.sizeOf(e))...)
					}
				}
				return true
			})
		}
	}
	return faults
}

// sizeOf is the struct of "Size: unsafe.Sizeof(xArgs{})".
func (u *unit) sizeOf(e ast.Expr) types.Type {
	kv, ok := e.(*ast.KeyValueExpr)
	if !ok {
		return nil
	}
	call, ok := kv.Value.(*ast.CallExpr)
	if !ok || len(call.Args) != 1 {
		return nil
	}
	return u.info.TypeOf(call.Args[0])
}

func (tr *tree) layout(t types.Type) []fault {
	named, ok := t.(*types.Named)
	if !ok {
		return nil
	}
	s, ok := named.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	var faults []fault
	name, place := named.Obj().Name(), tr.pos(named.Obj().Pos())
	sizes := types.SizesFor("gc", "amd64")
	last, filled := pointer, int64(0)
	for f := range s.Fields() {
		k := kindOf(f.Type())
		if k < last {
			faults = append(faults, place.says("%s: %s stands before %s", name, last, f.Name()))
		}
		if k == nested {
			faults = append(faults, tr.layout(f.Type())...)
		}
		last = max(last, k)
		filled += sizes.Sizeof(f.Type())
	}
	switch n := sizes.Sizeof(named); {
	case n != filled:
		faults = append(faults, place.says("%s: %d of its %d bytes are no field's", name, n-filled, n))
	case n%8 != 0:
		faults = append(faults, place.says("%s: %d bytes", name, n))
	}
	return faults
}

// opType says that a literal is an Op.
func opType(c *ast.CompositeLit) bool {
	id, ok := c.Type.(*ast.Ident)
	return ok && id.Name == "Op"
}

// kind of an argument, in their order.
type kind int

const (
	pointer kind = iota
	nested
	scalar
)

func (k kind) String() string { return [...]string{"a pointer", "a struct", "a scalar"}[k] }

func kindOf(t types.Type) kind {
	if n, ok := t.(*types.Named); ok && n.Obj().Name() == "Ptr" {
		return pointer
	}
	if s, ok := t.Underlying().(*types.Struct); ok && s.NumFields() > 0 && kindOf(s.Field(0).Type()) == pointer {
		return nested
	}
	return scalar
}

func stems(tr *tree) []fault {
	var faults []fault
	have := map[string]bool{}
	for _, s := range tr.sources {
		have[s.path] = true
	}
	for _, s := range tr.sources {
		if path.Ext(s.path) == ".cu" && s.dir() != "kernels/emu/testdata" {
			if stem := stemOf(s.path); !have[stem+".go"] || !have[stem+"_test.go"] {
				faults = append(faults, fault{file: s.path, line: 1, what: "there is no " + stem + ".go with its test"})
			}
		}
		if s.ast == nil || s.dir() != "kernels" || s.test() {
			continue
		}
		if op := operation(s.ast); op != nil && !have[stemOf(s.path)+"_test.go"] && !have[strings.TrimSuffix(s.path, ".go")+"_test.go"] {
			faults = append(faults, tr.at(op).says("an operation without %s_test.go", stemOf(s.path)))
		}
	}
	return faults
}

// stemOf is a path without its ending and what says how it differs from the stem: a machine, or the direction.
func stemOf(name string) string {
	name = strings.TrimSuffix(name, path.Ext(name))
	dir, base := path.Split(name)
	base, _, _ = strings.Cut(base, "_")
	return dir + base
}

// operation is a declared Op.
func operation(f *ast.File) ast.Node {
	for _, d := range f.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			for _, v := range spec.(*ast.ValueSpec).Values {
				if c, ok := v.(*ast.CompositeLit); ok && opType(c) {
					return v
				}
			}
		}
	}
	return nil
}
