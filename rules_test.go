package tandem_test

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// A rule is something that holds for the whole repository. When it is broken, the reason is what the test says.
type rule struct {
	name   string
	reason string
	check  func(*tree) []fault

	// example is a small repository, files as in txtar, that breaks the rule at every line that ends in mark, and nowhere
	// else. It shows that the check can fail.
	example string
}

const mark = "//!"

// A fault is a place where a rule is broken. why is more to the point than the rule's reason, or "".
type fault struct {
	file string
	line int
	what string
	why  string
}

func TestRules(t *testing.T) {
	tr := readTree(t)
	tr.check("amd64")
	tr.check("arm64")
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			seen := map[fault]bool{} // a file may be in the packages of both processors
			for _, f := range r.check(tr) {
				if seen[f] {
					continue
				}
				seen[f] = true
				t.Errorf("%s:%d: %s\n\twhy: %s", f.file, f.line, f.what, cmp.Or(f.why, r.reason))
			}
		})
	}
}

func TestRulesCatch(t *testing.T) {
	for _, r := range rules() {
		t.Run(r.name, func(t *testing.T) {
			tr := exampleTree(t, r.example)
			want, found := map[string]bool{}, map[string]bool{}
			for _, s := range tr.sources {
				for i, line := range strings.Split(string(s.text), "\n") {
					if strings.HasSuffix(line, mark) {
						want[fmt.Sprintf("%s:%d", s.path, i+1)] = true
					}
				}
			}
			if len(want) == 0 {
				t.Fatal("the example breaks nothing")
			}
			for _, f := range r.check(tr) {
				at := fmt.Sprintf("%s:%d", f.file, f.line)
				if !want[at] {
					t.Errorf("%s: reported, and fine: %s", at, f.what)
				}
				found[at] = true
			}
			for at := range want {
				if !found[at] {
					t.Errorf("%s: not reported", at)
				}
			}
		})
	}
}

func rules() []rule {
	return slices.Concat(importRules(), codeRules(), kernelRules(), cudaRules(), textRules())
}

// at is the place of a node.
func (tr *tree) at(n ast.Node) fault { return tr.pos(n.Pos()) }

func (tr *tree) pos(p token.Pos) fault {
	pos := tr.fset.Position(p)
	return fault{file: pos.Filename, line: pos.Line}
}

// says is the fault with its text.
func (f fault) says(format string, args ...any) fault {
	f.what = fmt.Sprintf(format, args...)
	return f
}

func (f fault) because(why string) fault {
	f.why = why
	return f
}
