package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTrainOnRolloutsOfAnotherRun writes what the shared run was trained on and trains on it, with a stop in between.
func TestTrainOnRolloutsOfAnotherRun(t *testing.T) {
	t.Parallel()
	from := need(t, shared.trained)
	file := filepath.Join(t.TempDir(), "rollouts.jsonl")
	copied := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(copied, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	r := tandem(t, "train", "--resume", "--run", copied, "--write-rollouts", file)
	if want := fmt.Sprintf("%d rollouts in %s\n", 8*4*6, file); !strings.Contains(r.stdout, want) {
		t.Errorf("it says %q, want %q", r.stdout, want)
	}
	dir, args := small(t)
	args = append(args, "--rollouts", file)
	p := shared.start(args...)
	until(t, p, "a step on rollouts", func() bool { return lineCount(dir, "metrics.jsonl") > 14 })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	moved := filepath.Join(t.TempDir(), "moved.jsonl")
	if err := os.Rename(file, moved); err != nil {
		t.Fatal(err)
	}
	refused(t, 2, []string{"train", "--resume", "--run", dir}, "rollouts: open "+file, "no such file")
	refused(t, 2, []string{"train", "--resume", "--run", dir, "--rollouts", ""}, "rollouts: open "+file)
	refused(t, 2, []string{"train", "--resume", "--run", dir, "--set", "data.rollouts="}, `  data.rollouts was '`+file+`', is ''`)
	text := read(t, moved)
	other := write(t, "other.jsonl", strings.Replace(text, `"reward":0`, `"reward":1`, 1))
	refused(t, 2, []string{"train", "--resume", "--run", dir, "--rollouts", other}, other, "holds other rollouts than when the run began")
	tandem(t, "train", "--resume", "--run", dir, "--rollouts", moved)
	for _, name := range names(from, "model") {
		if name != "README.md" && read(t, filepath.Join(dir, "model", name)) != read(t, filepath.Join(from, "model", name)) {
			t.Errorf("model/%s differs from that of the run that sampled", name)
		}
	}
	for i, m := range rows[struct {
		Mismatch, Importance float64
	}](t, read(t, filepath.Join(dir, "metrics.jsonl"))) {
		if i >= 12 && (m.Mismatch != 0 || m.Importance != 1) {
			t.Errorf("step %d: mismatch %v, importance %v", i, m.Mismatch, m.Importance)
		}
	}
}

func TestTrainRefusesBadRollouts(t *testing.T) {
	t.Parallel()
	good := `{"group":0,"tokens":[1,2,3],"spans":[[1,3]],"logprobs":[-1,-2],"reward":1}`
	for _, tt := range []struct{ name, text, want string }{
		{"a bad line", good + "\n\n" + strings.Replace(good, "[1,2,3]", "[1,2,99]", 1), "line 3: token 2 is 99, want 0 to 27"},
		{"too short", good, "there are 1 steps of rollouts, and train.steps is 8"},
	} {
		dir, args := small(t)
		file := write(t, "rollouts.jsonl", tt.text)
		refused(t, 2, append(args, "--rollouts", file), file, tt.want)
		if left := names(dir); slices.Contains(left, "recipe.toml") {
			t.Errorf("%s: a run is left: %v", tt.name, left)
		}
	}
	_, args := small(t, "rollout.dynamic=true")
	refused(t, 2, append(args, "--rollouts", "x"), "data.rollouts is set with rollout.dynamic")
}

// TestTrainWithATeacher distils the trained model into a fresh one, and refuses one whose tokens are others.
func TestTrainWithATeacher(t *testing.T) {
	t.Parallel()
	teacher := filepath.Join(need(t, shared.trained), "model")
	dir, args := small(t, "teacher.dir="+teacher, "warmup.steps=2", "train.steps=6", "evaluation.problems=0", "rollout.max_tokens=6")
	tandem(t, args...)
	ms := rows[struct {
		TeacherKL float64 `json:"teacher_kl"`
	}](t, read(t, filepath.Join(dir, "metrics.jsonl")))
	if first, last := ms[2].TeacherKL, ms[7].TeacherKL; !(last < first) || first <= 0 {
		t.Errorf("the divergence from the teacher goes from %v to %v", first, last)
	}
	r := tandem(t, "plan", "demo", "--set", "teacher.dir="+teacher)
	if !strings.Contains(r.stdout, "\nteacher ") {
		t.Errorf("no teacher in the plan:\n%s", r.stdout)
	}
	swapped := filepath.Join(t.TempDir(), "swapped")
	if err := os.CopyFS(swapped, os.DirFS(teacher)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(swapped, "tokenizer.json")
	text := strings.NewReplacer(`"1": `, `"2": `, `"2": `, `"1": `).Replace(read(t, file))
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	_, args = small(t, "teacher.dir="+swapped)
	refused(t, 2, args, "teacher: token ", swapped, "for the model")
}
