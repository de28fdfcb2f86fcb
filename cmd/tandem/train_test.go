package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/trainer/run"
)

func TestTrainLeavesARunThatOthersRead(t *testing.T) {
	t.Parallel()
	dir := need(t, shared.trained)
	for _, want := range []string{"base", "ckpt", "evaluations.jsonl", "lock", "metrics.jsonl", "model", "processes.jsonl", "recipe.toml", "rollouts.jsonl", "steps", "tensorboard", "tokenizer"} {
		if !slices.Contains(names(dir), want) {
			t.Errorf("the run directory holds %v, want %s in it", names(dir), want)
		}
	}
	ms := rows[struct {
		Step               int
		Stage              string
		Mismatch, GradNorm float64
	}](t, read(t, filepath.Join(dir, "metrics.jsonl")))
	for i, m := range ms {
		stage := "warmup"
		if i >= 12 {
			stage = "grpo"
		}
		if m.Step != i || m.Stage != stage || m.Mismatch != 0 {
			t.Errorf("line %d of the metrics: %+v", i+1, m)
		}
	}
	readme := read(t, filepath.Join(dir, "model", "README.md"))
	for _, want := range []string{"recipe", "demo", "steps", "20", "held-out accuracy"} {
		if !strings.Contains(readme, want) {
			t.Errorf("the model's README lacks %q:\n%s", want, readme)
		}
	}
	// The trained model answers, and its log-probs hold.
	out := filepath.Join(t.TempDir(), "out.jsonl")
	tandemWith(t, `{"prompt": "12+34=?"}`, "generate", "--model", filepath.Join(dir, "model"), "--template", "no-thinking", "--n", "4", "--max-tokens", "8", "--out", out)
	for _, r := range rows[sampleRow](t, read(t, out)) {
		if !strings.HasPrefix(r.Text, `\boxed{`) {
			t.Errorf("member %d: %q", r.Member, r.Text)
		}
	}
	tandem(t, "score", "--model", filepath.Join(dir, "model"), "--in", out, "--check")
}

func TestTrainOutputIsPlainWithoutATerminal(t *testing.T) {
	t.Parallel()
	_, args := small(t, "train.steps=2", "warmup.steps=3", "evaluation.every=1")
	r := tandem(t, args...)
	if strings.ContainsAny(r.stdout+r.stderr, "\r\x1b") || r.complaints() != "" {
		t.Errorf("without a terminal it moves a cursor, or complains: %q, %q", r.stdout, r.stderr)
	}
	for want, n := range map[string]int{
		"\nwarm-up, 3 steps\n": 1, "\nGRPO, 2 steps\n": 1, "\nstep 1/3  loss ": 1, "\nstep 2/2  reward ": 1, "held out, 6 problems, greedy: accuracy": 3,
		"mismatch 0 ": 2, "\nreward by step\n": 1, "held out            before   after": 1, "reply before": 1, "run directory ": 2,
	} {
		if got := strings.Count(r.stdout, want); got != n {
			t.Errorf("%d times %q, want %d times, in\n%s", got, want, n, r.stdout)
		}
	}
}

func TestTrainExpectsARise(t *testing.T) {
	t.Parallel()
	_, args := small(t, "train.steps=2", "warmup.steps=12", "optimizer.lr=1e-9", "evaluation.problems=0")
	refused(t, 2, append(args, "--expect-rise", "0.9"), "the mean reward of the last 2 steps exceeds that of the first by", "expected 0.900")
}

func TestTrainRefusesTwoRunsInOnePlace(t *testing.T) {
	t.Parallel()
	dir, args := small(t)
	other := append(slices.Clone(args), "--set", "seed=2")
	held, err := run.Create(dir, []byte("seed = 1\n"))
	if err != nil {
		t.Fatal(err)
	}
	refused(t, 2, args, dir, "another process is at work there")
	refused(t, 2, append(args, "--resume"), dir, "another process is at work there")
	if err := held.Discard(); err != nil {
		t.Fatal(err)
	}
	refused(t, 2, append(args, "--resume"), dir, "no run to resume", "no such file")
	refused(t, 2, []string{"train", "--run", dir, "--resume", "nonsense"}, `recipe "nonsense"`, "neither a file nor one of [demo")

	p := shared.start(args...)
	until(t, p, "a step", func() bool { return lineCount(dir, "metrics.jsonl") > 0 })
	refused(t, 2, args, dir, "another process is at work there")
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	refused(t, 2, args, dir, "there is a run already; --resume goes on with it")
	refused(t, 2, append(other, "--set", "warmup.optimizer.lr=0.25", "--resume"), "resume "+dir, "the recipe is another one",
		"  seed was 1, is 2\n", "  warmup.optimizer.lr was 0.005, is 0.25\n")
	refused(t, 2, []string{"train", "--resume", "--run", dir, "--set", "train.steps=30"}, "  train.steps was 8, is 30\n")
	refused(t, 2, []string{"train", "--resume", "--run", dir, "--set", "train.stops=30"}, "unknown key train.stops")
	refused(t, 2, []string{"train", "--resume"}, "want a RECIPE, or --resume with --run DIR")
	refused(t, 2, []string{"train"}, "want a RECIPE")
}

func TestTrainRefusesBadRecipes(t *testing.T) {
	t.Parallel()
	recipe := func(text string) string { return write(t, "mine.toml", text) }
	long := write(t, "long.jsonl", "{\"problem\": \"1\", \"answer\": \"1\"}\n{\"problem\": \""+strings.Repeat("1", 60)+"\", \"answer\": \"1\"}\n")
	reply := write(t, "reply.jsonl", "{\"problem\": \"1\", \"reply\": \""+strings.Repeat("2", 60)+"\"}\n")
	answers := write(t, "answers.jsonl", "{\"problem\": \"1\", \"answer\": \"1\"}\n{\"problem\": \"2\", \"answer\": \"\"}\n")
	empty := write(t, "empty.jsonl", "\n")
	other := need(t, shared.bare)
	for _, tt := range []struct {
		name   string
		recipe string // "" is the small one
		set    []string
		want   []string
	}{
		{"unknown key", recipe("seed = 1\n[rollout]\nprompt = 4\n"), nil, []string{"mine.toml", "line 3: unknown key rollout.prompt"}},
		{"unknown table", recipe("[rollouts]\nprompts = 4\n"), nil, []string{"mine.toml", "unknown key rollouts"}},
		{"not TOML", recipe("seed = 1\nmodel =\n"), nil, []string{"mine.toml", "line 2"}},
		{"wrong type", recipe("[train]\nsteps = \"many\"\n"), nil, []string{"mine.toml", "line 2"}},
		{"missing recipe", "/nonexistent.toml", nil, []string{"/nonexistent.toml", "neither a file nor one of [demo", "no such file"}},
		{"setting without a value", "", []string{"train.steps"}, []string{`setting "train.steps"`, "want key=value"}},
		{"setting of an unknown key", "", []string{"train.stepz=3"}, []string{`setting "train.stepz=3"`, "unknown key train.stepz"}},
		{"setting of a table", "", []string{"train=3"}, []string{`setting "train=3"`}},
		{"setting of another type", "", []string{"train.steps=many"}, []string{`setting "train.steps=many"`}},
		{"negative seed", "", []string{"seed=-1"}, []string{`setting "seed=-1"`}},
		{"all faults at once", "", []string{"rollout.prompts=0", "optimizer.lr=nan", "model.dtype=fp8"},
			[]string{"rollout.prompts is 0, want at least 1", "optimizer.lr is NaN, want more than 0", `model.dtype is "fp8", want one of`}},
		{"greedy rollouts", "", []string{"rollout.temperature=0"}, []string{"rollout.temperature is 0", "no distribution to learn from"}},
		{"rows below the context", "", []string{"train.rows=10"}, []string{"train.rows is 10, want at least model.context, 64"}},
		{"unknown shape", "", []string{"model.shape=7b"}, []string{`model shape "7b" is not known, want one of 0.6b`}},
		{"missing model", "", []string{"model.shape=", "model.dir=/nonexistent"}, []string{"/nonexistent", "no such file"}},
		{"model without a tokenizer", "", []string{"model.shape=", "model.tokenizer=", "model.dir=" + other}, []string{other, "tokenizer"}},
		{"unknown grader", "", []string{"data.grader=maths"}, []string{`"maths"`}},
		{"missing data", "", []string{"data.train=/nonexistent.jsonl"}, []string{`data.train = "/nonexistent.jsonl"`, "no such file"}},
		{"missing held-out data", "", []string{"data.held_out=/nonexistent.jsonl"}, []string{`data.held_out = "/nonexistent.jsonl"`, "no such file"}},
		{"empty data", "", []string{"data.train=" + empty}, []string{"read problems from " + empty, "0 rows, none with a problem and an answer"}},
		{"empty demonstrations", "", []string{"warmup.data=" + empty}, []string{"read problems from " + empty, "0 rows"}},
		{"no demonstrations", "", []string{"warmup.data="}, []string{"warmup.steps is set, but the task has no demonstrations"}},
		{"answer that no grader reads", "", []string{"data.train=" + answers}, []string{answers + ": row 2"}},
		{"prompt longer than the context", "", []string{"data.train=" + long}, []string{long + ": row 2", "the prompt has ", "which leaves no room for a reply in model.context, 64"}},
		{"held-out prompt longer than the context", "", []string{"data.held_out=" + long}, []string{long + ": row 2", "no room for a reply"}},
		{"demonstration longer than the context", "", []string{"warmup.data=" + reply}, []string{reply + ": row 1", "a reply of 61 exceed model.context, 64"}},
		{"context beyond the model's", "", []string{"model.context=2000", "train.rows=2000"}, []string{"model.context is 2000, but the model's positions end at 1024"}},
		{"addition beyond the context", "", []string{"data.task=addition", "model.context=16", "train.rows=64"}, []string{"the prompt has ", "in model.context, 16"}},
		{"more than the memory", "", []string{"model.context=1024", "train.rows=1024", "rollout.prompts=4000000", "algorithm.updates=1"},
			[]string{"cache pages", "what fits, each by itself", "--set rollout.batch="}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir, args := small(t, tt.set...)
			if tt.recipe != "" {
				args = []string{"train", tt.recipe, "--run", dir}
			}
			refused(t, 2, args, tt.want...)
			if exists(filepath.Join(dir, "recipe.toml")) {
				t.Error("the run directory is taken by a run that never began")
			}
		})
	}
}

func TestTrainStopsAtGradientsThatAreNoNumbers(t *testing.T) {
	t.Parallel()
	dir, args := small(t, "warmup.steps=60", "warmup.optimizer.lr=0.99", "warmup.optimizer.clip_norm=off", "warmup.optimizer.max_skips=3",
		"warmup.optimizer.beta2=0", "warmup.optimizer.eps=1e-38")
	r := refused(t, 2, args, "the gradient's norm is NaN in 3 steps in a row")
	done := lineCount(dir, "metrics.jsonl")
	ms := rows[struct {
		Skipped  int
		GradNorm *float64 `json:"grad_norm"`
	}](t, read(t, filepath.Join(dir, "metrics.jsonl")))
	if last := ms[done-1]; last.Skipped != 2 || last.GradNorm != nil {
		t.Errorf("the last metrics are %+v, want two skipped and no norm; %v", last, r)
	}
}

func TestTrainOneSequenceAtATime(t *testing.T) {
	t.Parallel()
	_, args := small(t, "warmup.steps=1", "train.steps=2", "rollout.batch=1")
	tandem(t, args...)
}

// damaged is a copy of a run that stands before its end, with one state.
func damaged(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "run")
	if err := os.CopyFS(dir, os.DirFS(need(t, shared.trained))); err != nil {
		t.Fatal(err)
	}
	for _, state := range names(dir, "ckpt") {
		if state == "000018" {
			continue
		}
		if err := os.RemoveAll(filepath.Join(dir, "ckpt", state)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestResumeFindsDamage(t *testing.T) {
	t.Parallel()
	flip := func(path string) error {
		b, err := os.ReadFile(path)
		if err == nil {
			b[len(b)/2] ^= 16
			err = os.WriteFile(path, b, 0o644)
		}
		return err
	}
	half := func(path string) error {
		st, err := os.Stat(path)
		if err == nil {
			err = os.Truncate(path, st.Size()/2)
		}
		return err
	}
	const tensors, state = "ckpt/000018/state.safetensors", "ckpt/000018/state.json"
	for _, tt := range []struct {
		name, file string
		damage     func(path string) error
		want       string
	}{
		{"state flipped", tensors, flip, "state.safetensors is damaged: its checksum differs; remove it to go on from the start"},
		{"state cut off", tensors, half, "state.safetensors is cut off"},
		{"state gone", tensors, os.Remove, "state.safetensors is missing"},
		{"counters flipped", state, flip, "state.json is damaged"},
		{"log flipped", "steps/000018", flip, "steps/000018 is damaged: its checksum differs; remove it, and the step is sampled again"},
		{"log cut off", "steps/000019", half, "steps/000019 is damaged"},
		{"log empty", "steps/000019", func(path string) error { return os.Truncate(path, 0) }, "steps/000019 is cut off"},
		{"recipe cut off", "recipe.toml", half, "recipe"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := damaged(t)
			if err := tt.damage(filepath.Join(dir, tt.file)); err != nil {
				t.Fatal(err)
			}
			refused(t, 2, []string{"train", "--resume", "--run", dir}, dir, tt.want)
		})
	}
	// What the messages advise helps, and lines cut off by a full disk or a kill do no harm.
	dir := damaged(t)
	for _, name := range []string{"ckpt/000018", "steps/000013"} {
		if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"metrics.jsonl", "rollouts.jsonl", "evaluations.jsonl"} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(read(t, path)+`{"step": 0, "pro`), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	r := tandem(t, "train", "--resume", "--run", dir)
	if !strings.Contains(r.stdout, "resuming after step 0 of 20") || !strings.Contains(r.stdout, "(replies from the log)") {
		t.Errorf("resumed from the start: %v", r)
	}
	sameRun(t, dir, need(t, shared.trained))
}
