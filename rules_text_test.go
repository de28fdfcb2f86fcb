package tandem_test

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tandem/trainer"
	"tandem/trainer/recipes"
)

// long are files over maxLines, and why.
var long = map[string]string{
	"kernels/chain_amd64.s": "generated",
	"kernels/dots_amd64.s":  "generated",
	"kernels/map_amd64.s":   "generated",

	"kernels/ptx.cuh": "a function for each instruction, and no other file has assembly",

	"trainer/tool/testdata/attempts.py": "a list of escapes, each of which stands alone",
}

const maxLines = 500

func textRules() []rule {
	task, bug := "TO"+"DO", "FIX"+"ME"
	return []rule{
		{
			name:    "files are short",
			reason:  fmt.Sprintf("a file over %d lines is several files; one that is not stands in the list in rules_text_test.go, with the reason", maxLines),
			check:   lengths,
			example: "-- a/a.py --\n" + strings.Repeat("\n", maxLines) + "x = 1 " + mark + "\n-- a/a.md --\n" + strings.Repeat("\n", maxLines+1),
		},
		{
			name:   "nothing is left to do",
			reason: "what is missing is an issue, where it is seen and settled; a note in the code is neither",
			check: func(tr *tree) []fault {
				return tr.lines(regexp.MustCompile(`\b(`+task+`|`+bug+`)\b`), code)
			},
			example: "-- a/a.go --\npackage a\n\n// " + task + ": more " + mark + "\n// " + bug + " " + mark + "\n// todos are fine\n",
		},
		{
			name:   "no word of where this was written",
			reason: "the text must be true on every machine, for every reader",
			check: func(tr *tree) []fault {
				return tr.lines(regexp.MustCompile(`(^|[^\w.$}/-])/(work|opt/venv)/|\b`+"helper"+`-`), func(string) bool { return true })
			},
			example: "-- a/a.md --\nsee /wo" + "rk/main " + mark + "\n/opt" + "/venv/bin/python " + mark + "\nhelp" + "er-3 " + mark + "\n$dir/work/x\na helper\n",
		},
	}
}

// code says that a file is no prose.
func code(name string) bool { return path.Ext(name) != ".md" }

func lengths(tr *tree) []fault {
	var faults []fault
	for _, s := range tr.sources {
		if n := bytes.Count(s.text, []byte("\n")); n > maxLines && long[s.path] == "" && code(s.path) {
			faults = append(faults, fault{file: s.path, line: maxLines + 1, what: fmt.Sprintf("%d lines", n)})
		}
	}
	return faults
}

// lines finds an expression in the files that are of interest.
func (tr *tree) lines(re *regexp.Regexp, of func(string) bool) []fault {
	var faults []fault
	for _, s := range tr.sources {
		if !of(s.path) || !re.Match(s.text) {
			continue
		}
		for i, line := range bytes.Split(s.text, []byte("\n")) {
			if m := re.Find(line); m != nil {
				faults = append(faults, fault{file: s.path, line: i + 1, what: strings.TrimSpace(string(m))})
			}
		}
	}
	return faults
}

func TestLongFilesAreLong(t *testing.T) {
	for _, s := range readTree(t).sources {
		if long[s.path] != "" && bytes.Count(s.text, []byte("\n")) <= maxLines {
			t.Errorf("%s is no longer over %d lines", s.path, maxLines)
		}
	}
}

// A recipe that ships is one that a user trusts to start.
func TestRecipes(t *testing.T) {
	names := recipes.Names()
	if !slices.Contains(names, "demo") {
		t.Errorf("the demo is not among the recipes that ship: %q", names)
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			text, err := recipes.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			r, err := trainer.ParseRecipe(text)
			if err != nil {
				t.Fatal(err)
			}
			if r.Name != name {
				t.Errorf("the recipe calls itself %q", r.Name)
			}
		})
	}
}
