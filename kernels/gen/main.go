// Command gen writes the assembly of package kernels: dots_amd64.s, chain_amd64.s and map_amd64.s, each with the Go
// declarations of its functions in a file of the same stem. Run it by `go generate ./kernels`; a test of package kernels
// checks that its output is what is committed.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/mmcloughlin/avo/attr"
	"github.com/mmcloughlin/avo/build"
	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/pass"
	"github.com/mmcloughlin/avo/printer"
	"github.com/mmcloughlin/avo/reg"
)

// files is what is generated: x is x_amd64.s and x_amd64.go.
var files = map[string]func(*asm){"dots": dots, "chain": chain, "map": maps}

func main() {
	dir := flag.String("dir", ".", "folder of the generated files")
	flag.Parse()
	for stem, emit := range files {
		if err := write(*dir, stem, emit); err != nil {
			fmt.Fprintf(os.Stderr, "generate %s_amd64.s: %v\n", stem, err)
			os.Exit(1)
		}
	}
}

func write(dir, stem string, emit func(*asm)) error {
	g := &asm{Context: build.NewContext(), consts: map[string]operand.Mem{}}
	emit(g)
	f, err := g.Result()
	if err != nil {
		build.LogError(log.New(os.Stderr, "", 0), err, 10)
		return err
	}
	if err := pass.Compile.Execute(f); err != nil {
		return err
	}
	cfg := printer.Config{Name: "kernels/gen", Argv: []string{"gen"}, Pkg: "kernels"}
	for name, p := range map[string]printer.Printer{"_amd64.s": printer.NewGoAsm(cfg), "_amd64.go": printer.NewStubs(cfg)} {
		out, err := p.Print(f)
		if err != nil {
			return err
		}
		out = bytes.TrimRight(out, "\n")
		if err := os.WriteFile(filepath.Join(dir, stem+name), append(out, '\n'), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// asm is the assembly being written. Vector registers are named by number, as the tiles need nearly all of them; the
// rest is allocated.
type asm struct {
	*build.Context
	consts map[string]operand.Mem
	labels int
}

// u32 is a constant in memory, repeated n times.
func (g *asm) u32(name string, n int, x uint32) operand.Mem {
	name = fmt.Sprintf("%sX%d", name, n)
	if m, ok := g.consts[name]; ok {
		return m
	}
	m := g.StaticGlobal(name)
	g.DataAttributes(attr.RODATA | attr.NOPTR)
	for range n {
		g.AppendDatum(operand.U32(x))
	}
	g.consts[name] = m
	return m
}

func (g *asm) param(name string) reg.Register {
	return g.Load(g.Param(name), g.GP64())
}

func (g *asm) label(stem string) string {
	g.labels++
	return fmt.Sprintf("%s%d", stem, g.labels)
}

// times emits body in a loop that runs n times, n > 0 in a register that is used up.
func (g *asm) times(n reg.Register, stem string, body func()) {
	l := g.label(stem)
	g.Label(l)
	body()
	g.DECQ(n)
	g.JNZ(operand.LabelRef(l))
}

// x, y and z are the vector registers by number.
func x(i int) reg.Register { return reg.Vector.Lookup(reg.Index(i), reg.S128) }
func y(i int) reg.Register { return reg.Vector.Lookup(reg.Index(i), reg.S256) }
func z(i int) reg.Register { return reg.Vector.Lookup(reg.Index(i), reg.S512) }
