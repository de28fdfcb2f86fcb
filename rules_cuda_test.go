package tandem_test

import (
	"fmt"
	"go/ast"
	"go/types"
	"path"
	"regexp"
	"strconv"
	"strings"
)

func cudaRules() []rule {
	return []rule{
		{
			name:   "kernels read what Go writes",
			reason: "a kernel's argument is the Go struct's bytes: the same fields in the same order, of the same sizes and at the same places; and every operation with a CUDA function has kernels, whose names begin with its own",
			check:  twins,
			example: `
-- kernels/a.go --
package kernels

import "unsafe"

type Ptr uint64

type Op struct {
	Name string
	Size uintptr
	CUDA func()
}

func grid() {}

var ops = []Op{
	{Name: "fine", Size: unsafe.Sizeof(fineArgs{}), CUDA: grid},
	{Name: "order", Size: unsafe.Sizeof(orderArgs{}), CUDA: grid},
	{Name: "width", Size: unsafe.Sizeof(widthArgs{}), CUDA: grid},
	{Name: "more", Size: unsafe.Sizeof(moreArgs{}), CUDA: grid},
	{Name: "other", Size: unsafe.Sizeof(fineArgs{}), CUDA: grid},
	{Name: "none", Size: unsafe.Sizeof(fineArgs{}), CUDA: grid}, //!
	{Name: "cpu", Size: unsafe.Sizeof(fineArgs{})},
}

type fineArgs struct {
	Out, X Ptr
	part   partArgs
	N      int64
	Scale  [3]float32
	_      int32
}

type partArgs struct {
	W    Ptr
	T, D int32
}

type orderArgs struct{ Out, X Ptr }

type widthArgs struct{ N, M int64 }

type moreArgs struct {
	Out Ptr
	T   int32
	_   int32
}
-- kernels/part.cuh --
// Not this one: struct PartArgs { int T; };
struct PartArgs {
	const float* w;  // (T, D)
	int T, D;

	DEVICE int size() const {
		return T * D;
	}
};
-- kernels/a.cu --
#include "part.cuh"
struct FineArgs {
	float* out;  // (T, D); as x
	const bf16 *x;
	PartArgs part;
	i64 N;
	float scale[3];
};
KERNEL(fine, FineArgs, a, 256, 1) {}
KERNEL(fine_narrow, FineArgs, a, 256, 1) {}
struct FineBoxedArgs {
	FineArgs a;
	TensorMap x, w;  // (T, D), (D)
};
KERNEL(fine_boxed, FineBoxedArgs, p, 256, 1) {}
struct FineMoreArgs { FineArgs a; TensorMap x; int T; };
KERNEL(fine_more, FineMoreArgs, p, 256, 1) {} //!
struct OrderArgs { bf16* x; bf16* out; };
KERNEL(order, OrderArgs, a, 256, 1) {} //!
struct WidthArgs { i64 N; int M; };
KERNEL(width, WidthArgs, a, 256, 1) {} //!
struct MoreArgs { char* out; int T, D; float eps; };
KERNEL(more, MoreArgs, a, 256, 1) {} //!
struct OtherArgs { char* out; };
KERNEL(other, OtherArgs, a, 256, 1) {} //!
KERNEL(gone, GoneArgs, a, 256, 1) {} //!
KERNEL(cpu, FineArgs, a, 256, 1) {} //!
`,
		},
		{
			name:   "assembly has one home",
			reason: "what ptx.cuh wraps has a meaning on the host beside it, so that the emulator runs the kernel that ships",
			check:  assembly,
			example: `
-- kernels/ptx.cuh --
asm("bar.sync 0;");
-- kernels/a.cu --
// asm is said in ptx.cuh
int assembled;
void f() { asm volatile("bar.sync 0;"); } //!
__asm__("x"); //!
-- kernels/b.cuh --
asm ("x"); //!
`,
		},
	}
}

func cudaSource(s *source) bool {
	return s.dir() == "kernels" && (path.Ext(s.path) == ".cu" || path.Ext(s.path) == ".cuh")
}

func assembly(tr *tree) []fault {
	said := regexp.MustCompile(`\b(asm|__asm__|__asm)\b\s*(volatile\b|\()`)
	var faults []fault
	for _, s := range tr.sources {
		if !cudaSource(s) || path.Base(s.path) == "ptx.cuh" {
			continue
		}
		for i, l := range strings.Split(uncommented(string(s.text)), "\n") {
			if said.MatchString(l) {
				faults = append(faults, fault{file: s.path, line: i + 1, what: "inline assembly"})
			}
		}
	}
	return faults
}

// uncommented is C++ without its // comments, line by line.
func uncommented(text string) string {
	return regexp.MustCompile(`//[^\n]*`).ReplaceAllString(text, "")
}

// A cudaOp is an operation that has a CUDA function.
type cudaOp struct {
	at   fault
	args *types.Named
	used bool
}

func twins(tr *tree) []fault {
	ops := cudaOps(tr)
	entry := regexp.MustCompile(`(?m)^KERNEL\((\w+), (\w+),`)
	var faults []fault
	for _, s := range tr.sources {
		if !cudaSource(s) || path.Ext(s.path) != ".cu" {
			continue
		}
		text := uncommented(string(s.text))
		for _, m := range entry.FindAllStringSubmatchIndex(text, -1) {
			name, args := text[m[2]:m[3]], text[m[4]:m[5]]
			at := fault{file: s.path, line: 1 + strings.Count(text[:m[0]], "\n")}
			op := ops[longest(ops, name)]
			if op == nil {
				faults = append(faults, at.says("kernel %s belongs to no operation with a CUDA function", name))
				continue
			}
			op.used = true
			if why := tr.differ(s, args, op.args); why != "" {
				faults = append(faults, at.says("kernel %s: %s", name, why))
			}
		}
	}
	for name, op := range ops {
		if !op.used {
			faults = append(faults, op.at.says("operation %s has a CUDA function and no kernel", name))
		}
	}
	return faults
}

// longest is the name of the operation whose kernel this is.
func longest(ops map[string]*cudaOp, kernel string) string {
	for name := kernel; ; {
		if ops[name] != nil {
			return name
		}
		i := strings.LastIndexByte(name, '_')
		if i < 0 {
			return ""
		}
		name = name[:i]
	}
}

func cudaOps(tr *tree) map[string]*cudaOp {
	ops := map[string]*cudaOp{}
	for _, u := range tr.units {
		if u.dir != "kernels" || u.types.Name() != "kernels" {
			continue
		}
		for _, f := range u.files {
			if isTest(tr.at(f).file) {
				continue
			}
			ast.Inspect(f, func(n ast.Node) bool {
				if lit, ok := n.(*ast.CompositeLit); ok {
					u.cudaOp(tr, lit, ops)
				}
				return true
			})
		}
	}
	return ops
}

func (u *unit) cudaOp(tr *tree, lit *ast.CompositeLit, ops map[string]*cudaOp) {
	named, ok := u.info.TypeOf(lit).(*types.Named)
	if !ok || named.Obj().Name() != "Op" {
		return
	}
	op, name, runs := &cudaOp{at: tr.at(lit)}, "", false
	for _, e := range lit.Elts {
		kv, ok := e.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		switch key, _ := kv.Key.(*ast.Ident); key.Name {
		case "Name":
			if b, ok := kv.Value.(*ast.BasicLit); ok {
				name, _ = strconv.Unquote(b.Value)
			}
		case "Size":
			op.args, _ = u.sizeOf(e).(*types.Named)
		case "CUDA":
			runs = true
		}
	}
	if runs && ops[name] == nil {
		ops[name] = op
	}
}

// A word is a field of a struct, with those of the structs in it at their place.
type word struct {
	name     string
	kind     string // pointer, int, uint or float
	at, size int64
}

func (w word) String() string {
	return fmt.Sprintf("%s (%s, %d bytes at %d)", w.name, w.kind, w.size, w.at)
}

// differ says how the struct of a kernel is not that of Go, or "".
func (tr *tree) differ(s *source, name string, args *types.Named) string {
	c := cStructs{tr: tr, file: s}
	name = c.unboxed(name)
	if args == nil || !strings.EqualFold(args.Obj().Name(), name) {
		return fmt.Sprintf("it takes %s, the operation %v", name, args)
	}
	want := filled(goWords(args.Underlying(), 0))
	got, size, err := c.words(name)
	if err != "" {
		return err
	}
	got = filled(got)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Sprintf("%s lacks %v", name, want[i])
		case i >= len(want):
			return fmt.Sprintf("%s has %v, which Go's has not", name, got[i])
		case !sameName(got[i].name, want[i].name) || got[i].kind != want[i].kind || got[i].at != want[i].at || got[i].size != want[i].size:
			return fmt.Sprintf("%s has %v, Go's has %v", name, got[i], want[i])
		}
	}
	if n := types.SizesFor("gc", "amd64").Sizeof(args); n != size {
		return fmt.Sprintf("%s has %d bytes, Go's has %d", name, size, n)
	}
	return ""
}

// unboxed is the struct that a kernel's argument begins with if the tensor maps of its boxes are all that follows.
func (c cStructs) unboxed(name string) string {
	if m := regexp.MustCompile(`^\s*(\w+) a;\s*TensorMap \w+(, \w+)?;\s*$`).FindStringSubmatch(c.text(c.file, name)); m != nil {
		return m[1]
	}
	return name
}

// sameName takes m_exponent for MExponent.
func sameName(c, g string) bool {
	return strings.EqualFold(strings.ReplaceAll(c, "_", ""), strings.ReplaceAll(g, "_", ""))
}

// filled leaves out what only fills up a struct, which C does by itself.
func filled(words []word) []word {
	for n := len(words); n > 0 && (words[n-1].name == "_" || words[n-1].name == "pad"); n = len(words) {
		words = words[:n-1]
	}
	return words
}

func goWords(t types.Type, at int64) []word {
	sizes := types.SizesFor("gc", "amd64")
	var words []word
	s, ok := t.Underlying().(*types.Struct)
	if !ok {
		return nil
	}
	fields := make([]*types.Var, s.NumFields())
	for i := range fields {
		fields[i] = s.Field(i)
	}
	for i, off := range sizes.Offsetsof(fields) {
		t, n := fields[i].Type(), int64(1)
		if a, ok := t.Underlying().(*types.Array); ok {
			t, n = a.Elem(), a.Len()
		}
		for k := range n {
			here := at + off + k*sizes.Sizeof(t)
			if _, ok := t.Underlying().(*types.Struct); ok {
				words = append(words, goWords(t, here)...)
				continue
			}
			words = append(words, word{fields[i].Name(), goKind(t), here, sizes.Sizeof(t)})
		}
	}
	return words
}

func goKind(t types.Type) string {
	if n, ok := t.(*types.Named); ok && n.Obj().Name() == "Ptr" {
		return "pointer"
	}
	b, ok := t.Underlying().(*types.Basic)
	switch {
	case !ok:
		return "other"
	case b.Info()&types.IsFloat != 0:
		return "float"
	case b.Info()&types.IsUnsigned != 0:
		return "uint"
	}
	return "int"
}

// cStructs reads structs of a file and of what it includes.
type cStructs struct {
	tr   *tree
	file *source
}

// text is the body of a struct, looked for in the file first.
func (c cStructs) text(s *source, name string) string {
	text := uncommented(string(s.text))
	if m := regexp.MustCompile(`struct ` + name + `\s*\{([^}]*)\}`).FindStringSubmatch(text); m != nil {
		fields, _, _ := strings.Cut(m[1], "DEVICE") // what it can do comes after what it has
		return fields
	}
	for _, m := range regexp.MustCompile(`#include "([^"]*)"`).FindAllStringSubmatch(text, -1) {
		for _, o := range c.tr.sources {
			if o.path == path.Join(s.dir(), m[1]) {
				if t := c.text(o, name); t != "" {
					return t
				}
			}
		}
	}
	return ""
}

func (c cStructs) words(name string) (words []word, size int64, err string) {
	body := c.text(c.file, name)
	if body == "" {
		return nil, 0, "there is no struct " + name
	}
	declaration := regexp.MustCompile(`^(?:const\s+)?(\w+)\s*(.*)$`)
	declarator := regexp.MustCompile(`^(\*?)\s*(?:const\s+)?(\w+)(?:\[(\d+)\])?$`)
	align := int64(1)
	for _, d := range strings.Split(body, ";") {
		m := declaration.FindStringSubmatch(strings.Join(strings.Fields(d), " "))
		if m == nil {
			if strings.TrimSpace(d) != "" {
				return nil, 0, fmt.Sprintf("%s: %q is no declaration that this test can read", name, d)
			}
			continue
		}
		for _, v := range strings.Split(m[2], ",") {
			p := declarator.FindStringSubmatch(strings.TrimSpace(v))
			if p == nil {
				return nil, 0, fmt.Sprintf("%s: %q is no declaration that this test can read", name, d)
			}
			part, n, a, err := c.word(m[1], p[1] == "*", p[2])
			if err != "" {
				return nil, 0, name + ": " + err
			}
			count, _ := strconv.Atoi(p[3])
			size, align = (size+a-1)/a*a, max(align, a)
			for range max(count, 1) {
				for _, w := range part {
					w.at += size
					words = append(words, w)
				}
				size += n
			}
		}
	}
	return words, (size + align - 1) / align * align, ""
}

// word is a field by its type: itself, or what is in it.
func (c cStructs) word(t string, pointer bool, name string) (words []word, size, align int64, err string) {
	if pointer {
		return []word{{name, "pointer", 0, 8}}, 8, 8, ""
	}
	for _, k := range []struct {
		kind  string
		size  int64
		types string
	}{
		{"int", 4, "int i32"}, {"int", 8, "i64"}, {"uint", 4, "u32 unsigned"}, {"uint", 8, "u64"},
		{"uint", 1, "u8"}, {"uint", 2, "u16 bf16"}, {"float", 4, "float"}, {"float", 8, "double"},
	} {
		for _, s := range strings.Fields(k.types) {
			if s == t {
				return []word{{name, k.kind, 0, k.size}}, k.size, k.size, ""
			}
		}
	}
	words, size, err = c.words(t)
	align = 1
	for _, w := range words {
		align = max(align, w.size)
	}
	return words, size, align, err
}
