package tandem_test

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
)

// Who passes on the binary owes others their notices. What is in it is in LICENSES.md, in its version, since licences
// change with versions, and nothing else is.
func TestLicences(t *testing.T) {
	listed := licences(t)
	check := func(name string, actual map[string]bool, sections ...string) {
		want := map[string]bool{}
		for _, s := range sections {
			if len(listed[s]) == 0 {
				t.Fatalf("LICENSES.md has no table under %q", s)
			}
			for part := range listed[s] {
				want[part] = true
			}
		}
		for part := range actual {
			if !want[part] {
				t.Errorf("%s: %s is missing in LICENSES.md; look at its licence and add it under %q", name, part, sections[0])
			}
		}
		for part := range want {
			if !actual[part] && !strings.HasSuffix(part, "of the compiler") {
				t.Errorf("%s: %s is in LICENSES.md under %q, and is not used any more", name, part, sections)
			}
		}
	}
	binary := modules(t, "./cmd/tandem")
	rest := modules(t, "-test", "./...", "tool")
	for part := range binary {
		delete(rest, part)
	}
	check("cmd/tandem", binary, "In the binary: Go")
	check("tests and tools", rest, "For tests and for writing code")
	check("tokenizer/native/Cargo.lock", crates(t), "In the binary: Rust, inside the tokenizer library",
		"While the tokenizer library is built", "Named by Cargo.lock, not used")
}

// licences are the "name version" in the tables of LICENSES.md, by section.
func licences(t *testing.T) map[string]map[string]bool {
	t.Helper()
	text, err := os.ReadFile("LICENSES.md")
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string]map[string]bool{}
	section := ""
	for _, line := range strings.Split(string(text), "\n") {
		if title, ok := strings.CutPrefix(line, "## "); ok {
			section = title
			listed[section] = map[string]bool{}
		}
		cells := strings.Split(line, "|")
		if len(cells) < 4 || strings.HasPrefix(line, "|---") || strings.HasPrefix(line, "| module") || strings.HasPrefix(line, "| crate") {
			continue
		}
		listed[section][strings.TrimSpace(cells[1])+" "+strings.TrimSpace(cells[2])] = true
		if strings.TrimSpace(cells[3]) == "" && len(cells) > 4 {
			t.Errorf("LICENSES.md: %s has no licence", strings.TrimSpace(cells[1]))
		}
	}
	return listed
}

// modules are those whose packages are built into what go list names, other than ours.
func modules(t *testing.T, args ...string) map[string]bool {
	t.Helper()
	args = append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}"}, args...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		t.Fatalf("go %v: %v", args, err)
	}
	found := map[string]bool{}
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); line != "" {
			found[line] = true
		}
	}
	return found
}

func crates(t *testing.T) map[string]bool {
	t.Helper()
	lock, err := os.ReadFile("tokenizer/native/Cargo.lock")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range regexp.MustCompile(`name = "(.*)"\nversion = "(.*)"`).FindAllSubmatch(lock, -1) {
		found[fmt.Sprintf("%s %s", m[1], m[2])] = true
	}
	return found
}
