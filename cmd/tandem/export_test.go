package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"tandem/trainer"
)

// sameFiles holds the files of a directory to those of another.
func sameFiles(t *testing.T, got, want string, but ...string) {
	t.Helper()
	if g, w := names(got), names(want); !slices.Equal(g, w) {
		t.Errorf("%s holds %v, want %v", got, g, w)
	}
	for _, name := range names(want) {
		if g, w := read(t, filepath.Join(got, name)), read(t, filepath.Join(want, name)); g != w && !slices.Contains(but, name) {
			t.Errorf("%s of %s differs, first at byte %d of %d", name, got, firstDifference(g, w), len(w))
		}
	}
}

// bestState is the rule in other words.
func bestState(t *testing.T, dir string) int {
	t.Helper()
	best, reward := -1, 0.0
	for _, ev := range rows[trainer.Evaluation](t, read(t, filepath.Join(dir, "evaluations.jsonl"))) {
		if !ev.Greedy && ev.Step > 12 && (best < 0 || ev.Reward > reward) {
			best, reward = ev.Step, ev.Reward
		}
	}
	return best
}

func TestExport(t *testing.T) {
	t.Parallel()
	dir := need(t, shared.trained)
	best := bestState(t, dir)
	states := names(dir, "ckpt")
	want := []string{"000018", "000020"}
	if name := fmt.Sprintf("%06d", best); !slices.Contains(want, name) {
		want = append([]string{name}, want...)
	}
	if !slices.Equal(states, want) {
		t.Errorf("states %v, want the last two and the best, %v", states, want)
	}
	out := t.TempDir()
	last := filepath.Join(out, "deep", "last")
	tandem(t, "export", dir, last)
	sameFiles(t, last, filepath.Join(dir, "model"), "README.md")
	// It is a model like any other, also over one that is there.
	for _, tt := range []struct {
		name string
		args []string
		step int
	}{{"18", []string{"--step", "18"}, 18}, {"best", []string{"--best"}, best}} {
		to := filepath.Join(out, tt.name)
		for range 2 {
			if r := tandem(t, append([]string{"export", dir, to}, tt.args...)...); !strings.Contains(r.stdout, fmt.Sprintf("the model after %d of 20 steps", tt.step)) {
				t.Errorf("%s: %v", tt.name, r)
			}
		}
		if readme := read(t, filepath.Join(to, "README.md")); !strings.Contains(readme, fmt.Sprintf("| steps | %d of 20 |", tt.step)) {
			t.Errorf("%s: README says %s", tt.name, readme)
		}
		sampled := filepath.Join(out, tt.name+".jsonl")
		tandemWith(t, prompts, "generate", "--model", to, "--n", "2", "--max-tokens", "8", "--out", sampled)
		tandem(t, "score", "--model", to, "--in", sampled, "--check")
	}
	refused(t, 2, []string{"export", dir, last, "--step", "7"}, "no full state after step 7; there are those after", "18, 20")
	refused(t, 2, []string{"export", dir, last, "--step", "18", "--best"}, "[best step]")
	refused(t, 2, []string{"export", filepath.Join(dir, "model"), last}, "there is no run")
	refused(t, 2, []string{"export", dir, filepath.Dir(last)}, "it holds last, which saving would remove")
	broken := damaged(t)
	if err := os.Truncate(filepath.Join(broken, "ckpt", "000018", "state.safetensors"), 99); err != nil {
		t.Fatal(err)
	}
	refused(t, 2, []string{"export", broken, last, "--step", "18"}, "state.safetensors is cut off: 99 of")
	sameFiles(t, last, filepath.Join(dir, "model"), "README.md")
	if err := os.RemoveAll(filepath.Join(broken, "ckpt")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(broken, "ckpt"), 0o755); err != nil {
		t.Fatal(err)
	}
	refused(t, 2, []string{"export", broken, last}, "there is no full state yet")
}

// TestBestGoesByRolloutsWithoutHeldOutProblems trains without evaluation.
func TestBestGoesByRolloutsWithoutHeldOutProblems(t *testing.T) {
	t.Parallel()
	dir, args := small(t, "evaluation.problems=0", "checkpoint.keep=1")
	tandem(t, args...)
	var rewards []float64
	for _, m := range rows[trainer.Metrics](t, read(t, filepath.Join(dir, "metrics.jsonl"))) {
		if m.Stage == "grpo" {
			rewards = append(rewards, m.Reward)
		}
	}
	best, top := 0, -1.0
	for _, step := range []int{15, 18, 20} {
		if r := mean(rewards[max(0, step-12-3) : step-12]); r > top {
			best, top = step, r
		}
	}
	r := tandem(t, "export", dir, filepath.Join(t.TempDir(), "best"), "--best")
	if want := fmt.Sprintf("after %d of 20 steps, the best by the reward of the steps before it, %.3f", best, top); !strings.Contains(r.stdout, want) {
		t.Errorf("%v, want %q", r, want)
	}
	for _, name := range names(dir, "ckpt") {
		if step, err := strconv.Atoi(name); err != nil || step != best && step != 20 {
			t.Errorf("state %s is kept; the best is %d, the last 20", name, best)
		}
	}
}

// TestMovedRunsGoOn moves a run and takes away what it was begun with.
func TestMovedRunsGoOn(t *testing.T) {
	t.Parallel()
	home, away := t.TempDir(), t.TempDir()
	from := filepath.Join(home, "model")
	if err := os.CopyFS(from, os.DirFS(need(t, shared.tiny))); err != nil {
		t.Fatal(err)
	}
	problems := filepath.Join(home, "problems.jsonl")
	dir, args := small(t, "model.shape=", "model.tokenizer=", "model.dir="+from, "data.train="+problems, "warmup.steps=1", "train.steps=4", "checkpoint.every=2", "evaluation.problems=0")
	text := read(t, filepath.Join(shared.dir, "problems.jsonl"))
	if err := os.WriteFile(problems, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	tandem(t, args...)
	moved := filepath.Join(away, "other name")
	if err := os.Rename(dir, moved); err != nil {
		t.Fatal(err)
	}
	want := filepath.Join(away, "want")
	for from, to := range map[string]string{"model": want, "ckpt/000005": filepath.Join(away, "000005")} {
		if err := os.Rename(filepath.Join(moved, from), to); err != nil {
			t.Fatal(err)
		}
	}
	for _, gone := range []string{from, problems} {
		if err := os.RemoveAll(gone); err != nil {
			t.Fatal(err)
		}
	}
	resume := []string{"train", "--resume", "--run", moved}
	refused(t, 2, resume, problems, "no such file")
	elsewhere := filepath.Join(away, "problems.jsonl")
	if err := os.WriteFile(elsewhere, []byte(strings.Replace(text, `"answer": "1"`, `"answer": "2"`, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
	resume = append(resume, "--set", "data.train="+elsewhere)
	refused(t, 2, resume, moved, "the problems are not those that the run began with: 40 rows, checksum ")
	if err := os.WriteFile(elsewhere, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, 2, append(slices.Clone(resume), "--set", "optimizer.lr=2e-3"), "the recipe is another one", "optimizer.lr was 0.001, is 0.002")
	if r := tandem(t, resume...); !strings.Contains(r.stdout, "resuming after step 4 of 5") {
		t.Errorf("%v", r)
	}
	sameFiles(t, filepath.Join(moved, "model"), want)
	sameFiles(t, filepath.Join(moved, "ckpt", "000005"), filepath.Join(away, "000005"))
	if r := tandem(t, resume...); !strings.Contains(r.stdout, "all 5 steps of the run are done") {
		t.Errorf("resumed when all is done: %v", r)
	}
	// Without a full state the weights that it began with are needed.
	for _, state := range names(moved, "ckpt") {
		if err := os.RemoveAll(filepath.Join(moved, "ckpt", state)); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, 2, append(resume, "--set", "model.dir="+need(t, shared.tiny)), "without a full state the run needs the weights that it began with")
}
