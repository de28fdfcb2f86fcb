package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tandem/trainer"
	"tandem/trainer/run"
)

// smallSteps are those of the small recipe: 12 of warm-up, 8 on rollouts.
const smallSteps = 20

// smallRecipe gives the arguments that train the demo's recipe, shrunk: its model learns within seconds to answer 1 or 2,
// whatever the question, so that rewards and gradients are not 0.
func (b *bench) smallRecipe(run string) ([]string, error) {
	set, err := b.smallSettings()
	return append([]string{"train", "demo", "--run", run, "--workers", "2"}, set...), err
}

// writeSmall writes the recipe's data, once, and gives its settings.
func (b *bench) writeSmall() ([]string, error) {
	for name, row := range map[string]string{
		"problems.jsonl":       "{\"problem\": \"%d+%d=?\", \"answer\": \"%d\"}\n",
		"demonstrations.jsonl": "{\"problem\": \"%d+%d=?\", \"reply\": \"\\\\boxed{%d}\"}\n",
	} {
		var text strings.Builder
		for i := range 40 {
			fmt.Fprintf(&text, row, 10+37*i%90, 10+53*i%90, 1+i%2)
		}
		if err := os.WriteFile(filepath.Join(b.dir, name), []byte(text.String()), 0o644); err != nil {
			return nil, err
		}
	}
	problems := filepath.Join(b.dir, "problems.jsonl")
	return settings(
		"data.task=file", "data.train="+problems, "data.held_out="+problems+"@[:6]",
		"warmup.data="+filepath.Join(b.dir, "demonstrations.jsonl"), "warmup.steps=12", "warmup.samples=6",
		"warmup.optimizer.lr=5e-3", "warmup.optimizer.schedule=constant",
		"rollout.prompts=4", "rollout.samples=6", "rollout.max_tokens=8", "rollout.rows=64", "algorithm.updates=2",
		"optimizer.lr=1e-3", "train.steps=8", "train.rows=128",
		"evaluation.problems=6", "evaluation.every=3", "checkpoint.every=3",
	), nil
}

func settings(kv ...string) []string {
	var args []string
	for _, s := range kv {
		args = append(args, "--set", s)
	}
	return args
}

// small gives the arguments for a run in a fresh directory.
func small(t *testing.T, more ...string) (dir string, args []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "run")
	args, err := shared.smallRecipe(dir)
	if err != nil {
		t.Fatal(err)
	}
	return dir, append(args, settings(more...)...)
}

// lines counts those of a file of a run; none where it is not there.
func lineCount(dir, file string) int {
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		return 0
	}
	return strings.Count(string(b), "\n")
}

// names are those of the entries of a directory of a run.
func names(dir ...string) []string {
	entries, err := os.ReadDir(filepath.Join(dir...))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

// sameRun holds everything that a run leaves to what another left, byte for byte: model, state, logs, replies,
// evaluations, and metrics but for the clock and what the engine of a process did.
func sameRun(t *testing.T, got, want string) {
	t.Helper()
	files := []string{"recipe.toml", "rollouts.jsonl", "evaluations.jsonl"}
	if g, w := bestState(t, got), bestState(t, want); g != w {
		t.Errorf("the best state is that after step %d, want %d", g, w)
	}
	last := fmt.Sprintf("%06d", smallSteps)
	for _, dir := range []string{"model", "base", filepath.Join("ckpt", last), filepath.Join("ckpt", fmt.Sprintf("%06d", bestState(t, want)))} {
		list := names(want, dir)
		if g := names(got, dir); !slices.Equal(g, list) {
			t.Errorf("%s holds %v, want %v", dir, g, list)
		}
		for _, name := range list {
			files = append(files, filepath.Join(dir, name))
		}
	}
	for _, name := range files {
		g, err := os.ReadFile(filepath.Join(got, name))
		if err != nil {
			t.Error(err)
		} else if w := read(t, filepath.Join(want, name)); string(g) != w {
			t.Errorf("%s differs, first at byte %d of %d", name, firstDifference(string(g), w), len(w))
		}
	}
	if diff := cmp.Diff(replies(t, want), replies(t, got)); diff != "" {
		t.Errorf("step logs: %s", diff)
	}
	g, w := metrics(t, got), metrics(t, want)
	if len(g) != len(w) {
		t.Errorf("metrics of %d steps, want %d", len(g), len(w))
	}
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("metrics of step %d:\n%s\nwant\n%s", i, g[i], w[i])
		}
	}
}

// replies are those of all steps on rollouts, but for what the engine had cached, which depends on when they met in it, and for the
// clock of their calls.
func replies(t *testing.T, dir string) map[int]trainer.StepLog {
	t.Helper()
	d, _, err := run.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	all := make(map[int]trainer.StepLog)
	for step := range smallSteps {
		var log trainer.StepLog
		if logged, err := d.ReadStep(step, &log); err != nil {
			t.Error(err)
		} else if logged {
			all[step] = log
		}
		for _, g := range log.Groups {
			for _, r := range g.Rollouts {
				r.Cached = 0
				for i := range r.Calls {
					r.Calls[i].Seconds = 0
				}
			}
		}
	}
	return all
}

func firstDifference(a, b string) int {
	i := 0
	for i < min(len(a), len(b)) && a[i] == b[i] {
		i++
	}
	return i
}

// metrics are the steps' figures that the run decides: not those of the clock, of the machine and its workers, or of what
// the engine of a process did.
func metrics(t *testing.T, dir string) []string {
	t.Helper()
	var out []string
	for i, m := range rows[map[string]any](t, read(t, filepath.Join(dir, "metrics.jsonl"))) {
		for _, key := range []string{"seconds", "replayed", "cached", "preempted", "peak_pages", "engine_rows", "engine_idle", "memory", "memory_planned", "memory_resident"} {
			delete(m, key)
		}
		for f := range reflect.TypeFor[trainer.Hardware]().Fields() {
			key, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			delete(m, key)
		}
		maps.DeleteFunc(m, func(key string, _ any) bool {
			return strings.HasSuffix(key, "_seconds") || strings.HasSuffix(key, "_per_second")
		})
		if m["step"] != float64(i) {
			t.Errorf("%s: line %d is of step %v", dir, i+1, m["step"])
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, string(b))
	}
	return out
}

// lastCheckpoint is the step of the last full state, -1 if there is none.
func lastCheckpoint(dir string) int {
	last := -1
	for _, name := range names(dir, "ckpt") {
		if n, err := strconv.Atoi(name); err == nil {
			last = max(last, n)
		}
	}
	return last
}
