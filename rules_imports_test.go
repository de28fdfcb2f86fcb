package tandem_test

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
	"strings"
)

const module = "tandem"

// layers says which of our packages each may import outside of tests, and why no others.
var layers = map[string]struct {
	may []string
	why string
}{
	".":                        {nil, "the root holds rules, no code"},
	"durable":                  {nil, "it puts bytes on a disk, whatever they mean: below everything that writes a file which is read back"},
	"kernels":                  {nil, "kernels imports nothing of ours: an operation knows no model"},
	"kernels/cuda":             {[]string{"kernels", "kernels/cuda/telemetry"}, "a device knows operations and its card, not what they are for"},
	"kernels/cuda/telemetry":   {[]string{"kernels"}, "it reads what a card tells, in the form that kernels gives it, whoever computes on it"},
	"kernels/device":           {[]string{"kernels", "kernels/cuda", "kernels/cuda/telemetry"}, "it opens a device and does nothing else"},
	"kernels/gen":              {nil, "it writes assembly before anything of ours can be built"},
	"kernels/emu":              {nil, "it steers a library that it opens"},
	"kernels/kerneltest":       {[]string{"kernels", "kernels/cuda", "kernels/emu"}, "what tests every operation knows no model"},
	"model/safetensors":        {[]string{"durable"}, "it knows names, dtypes and shapes, no model"},
	"model":                    {[]string{"durable", "kernels", "model/safetensors"}, "a model does not know that it is being sampled or trained"},
	"tokenizer":                {nil, "text and tokens have nothing to do with what computes on them"},
	"engine":                   {[]string{"kernels", "model"}, "the engine speaks tokens, never text, and does not know what they are sampled for"},
	"trainer/reward/algebra":   {nil, "a grader is a pure function and stands alone"},
	"trainer/reward/answer":    {[]string{"trainer/reward/algebra"}, "a grader is a pure function and stands alone"},
	"trainer/reward":           {[]string{"trainer/reward/algebra", "trainer/reward/answer"}, "a grader is a pure function and stands alone"},
	"trainer/reward/gradefile": {[]string{"trainer/reward"}, "files are graded without a model"},
	"trainer/tool":             {nil, "a sandbox runs programs, whoever wrote them"},
	"trainer/env":              {[]string{"tokenizer", "trainer/reward", "trainer/tool"}, "a task knows text and rewards, not how a model is sampled or trained"},
	"trainer/recipes":          {nil, "recipes are files; who reads them is above"},
	"trainer/run":              {[]string{"durable"}, "a run directory keeps what it is given; what that means is the trainer's"},
	"trainer/eval":             {[]string{"durable", "engine", "kernels", "trainer", "trainer/env", "trainer/page", "trainer/reward"}, "an evaluation samples and grades; it opens no device and trains nothing"},
	"trainer/page":             {nil, "a page shows what it is given"},
	"trainer/report/events":    {nil, "a file format knows no run"},
	"trainer/report":           {[]string{"durable", "trainer/page", "trainer/report/events", "trainer/run"}, "a report reads what is in a run directory, by name, and knows no code that made it"},
	"trainer":                  {[]string{"durable", "engine", "kernels", "model", "model/safetensors", "trainer/env", "trainer/recipes", "trainer/run"}, "the trainer names no vendor and no text: devices and tasks are given to it"},
}

// guarded are packages that the table above lets nobody import without a reason of their own.
var guarded = map[string]string{
	"kernels/device":     "only cmd, bench and tests choose a device: everything else is given one",
	"kernels/cuda":       "only kernels/device, and what tests every device, knows which devices there are",
	"kernels/emu":        "no binary links the emulator: it is for tests",
	"kernels/kerneltest": "what helps tests is for tests",
}

// top says that a folder is of programs, which may import everything that is not for tests alone.
func top(dir string) bool { return under(dir, "cmd") || under(dir, "bench") }

func importRules() []rule {
	return []rule{{
		name:   "imports point down",
		reason: "a package that knows only what is below it can be read, tested and replaced alone",
		check:  imports,
		example: `
-- kernels/add.go --
package kernels

import _ "tandem/model" //!
-- engine/engine.go --
package engine

import (
	_ "fmt"
	_ "tandem/kernels"
	_ "tandem/kernels/device" //!
	_ "tandem/tokenizer" //!
)
-- engine/engine_test.go --
package engine

import (
	_ "tandem/kernels/device"
	_ "tandem/trainer"
)
-- trainer/env/env.go --
package env

import _ "tandem/engine" //!
-- cmd/tandem/main.go --
package main

import (
	_ "tandem/kernels/device"
	_ "tandem/kernels/kerneltest" //!
	_ "tandem/kernels/emu" //!
)
-- stray/stray.go --
package stray //!
`,
	}}
}

func imports(tr *tree) []fault {
	var faults []fault
	for _, s := range tr.sources {
		if s.ast == nil || s.test() {
			continue
		}
		from, known := layers[s.dir()]
		if !known && !top(s.dir()) {
			faults = append(faults, tr.at(s.ast).says("package %s is in no layer", s.dir()).because("the table in rules_imports_test.go says for every package what it may import, and why"))
			continue
		}
		for _, spec := range s.ast.Imports {
			to, ours := imported(spec)
			if !ours || slices.Contains(from.may, to) || top(s.dir()) && !strings.HasPrefix(to, "kernels/emu") && to != "kernels/kerneltest" {
				continue
			}
			why := from.why
			if special, ok := guarded[to]; ok {
				why = special
			}
			faults = append(faults, tr.at(spec).says("%s imports %s", s.dir(), path.Join(module, to)).because(why))
		}
	}
	return faults
}

// imported is which of our packages an import names.
func imported(spec *ast.ImportSpec) (dir string, ours bool) {
	name, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return "", false
	}
	if name == module {
		return ".", true
	}
	return strings.CutPrefix(name, module+"/")
}
