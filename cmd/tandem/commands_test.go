package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"tandem/trainer/recipes"
)

func TestInitModel(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new", "model")
	r := tandem(t, "init-model", "tiny", dir, "--dtype", "float32", "--seed", "3")
	if want := dir + ": 791424 parameters, float32\n"; r.stdout != want {
		t.Errorf("it says %q, want %q", r.stdout, want)
	}
	again := filepath.Join(t.TempDir(), "model")
	tandem(t, "init-model", "tiny", again, "--dtype", "float32", "--seed", "3")
	for _, name := range names(dir) {
		if read(t, filepath.Join(dir, name)) != read(t, filepath.Join(again, name)) && name != "README.md" {
			t.Errorf("the same seed gives another %s", name)
		}
	}
	tandem(t, "init-model", "tiny", again, "--seed", "4") // over what it wrote
	if read(t, filepath.Join(dir, "config.json")) == read(t, filepath.Join(again, "config.json")) {
		t.Error("float32 and bfloat16 have one config")
	}
	full := filepath.Dir(write(t, "thesis.txt", "do not lose me"))
	for _, tt := range []struct{ args, want []string }{
		{[]string{"7b", dir}, []string{`model shape "7b" is not known, want one of 0.6b, 1.7b`, "tiny"}},
		{[]string{"tiny", dir, "--dtype", "int8"}, []string{`dtype "int8": want bf16 or float32`}},
		{[]string{"tiny", full}, []string{"save " + full, "it holds thesis.txt, which saving would remove"}},
		{[]string{"tiny", again, "--tokenizer", "/nonexistent"}, []string{"save " + again, "copy the tokenizer", "/nonexistent"}},
		{[]string{"tiny"}, []string{"2 arg"}},
	} {
		refused(t, 2, append([]string{"init-model"}, tt.args...), tt.want...)
	}
	if !exists(filepath.Join(full, "thesis.txt")) {
		t.Error("a file is lost")
	}
	tandemWith(t, `{"prompt_tokens": [1]}`, "generate", "--model", again, "--max-tokens", "1") // still whole
}

func TestPlan(t *testing.T) {
	t.Parallel()
	set, err := shared.smallSettings()
	if err != nil {
		t.Fatal(err)
	}
	args := append([]string{"plan", "demo"}, set...)
	r := tandem(t, args...)
	for _, want := range []string{"weights", "791424 parameters, bfloat16, one copy", "gradients", "optimizer", "cache pages", "activations", "total", "free"} {
		if !strings.Contains(r.stdout, want) {
			t.Errorf("the plan lacks %q:\n%s", want, r.stdout)
		}
	}
	r = refused(t, 2, append(args, "--set", "algorithm.updates=1", "--set", "rollout.prompts=9000000"), "the run needs", "what fits, each by itself", "--set rollout.batch=")
	fits := regexp.MustCompile(`--set \S+`).FindAllString(r.stderr, -1)
	for _, f := range append(fits, "--set algorithm.updates=1", "--set rollout.prompts=9000000") {
		args = append(args, strings.Fields(f)...)
	}
	tandem(t, args...) // what it proposes does
	refused(t, 2, []string{"plan", "none"}, `recipe "none"`)
	refused(t, 2, []string{"plan", "demo", "--set", "model.shape=32b"}, "the run needs", "GiB")
}

func TestEveryShippedRecipePlansOrSaysWhatIsMissing(t *testing.T) {
	t.Parallel()
	help := tandem(t, "train", "--help").stdout
	for _, name := range recipes.Names() {
		if !strings.Contains(help, name) {
			t.Errorf("help of train does not name %s: %s", name, help)
		}
		r := tandem(t, "plan", name, "--card", "b200", "--gpus", "8")
		for _, want := range []string{"each of 8 B200", "rollout", "what limits is", "weight decay"} {
			if !strings.Contains(r.stdout, want) {
				t.Errorf("the plan of %s lacks %q: %s", name, want, r.stdout)
			}
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	refused(t, 2, []string{"train", "math-8b", "--run", dir}, `model.dir = "models/Qwen3-8B", a Hugging Face directory`, "no such file",
		`data.train = "data/math/`, "hf download Qwen/Qwen3-8B --local-dir models/Qwen3-8B", "--set model.dir=DIR")
	if exists(filepath.Join(dir, "recipe.toml")) {
		t.Error("a run is left")
	}
	refused(t, 2, []string{"plan", "demo", "--card", "h100"}, `card "h100"`, "h100-80g, h100-nvl, h200, b200")
	refused(t, 2, []string{"plan", "demo", "--gpus", "2"}, "there is one CPU device")
	refused(t, 2, []string{"plan", "demo", "--reply-tokens", "1000"}, "exceed model.context")
	r := refused(t, 2, []string{"plan", "math-8b", "--card", "h100-80g", "--host-gib", "64"}, "it needs 91.80 GiB of the host's and that has 64.00 GiB")
	if !strings.Contains(r.stderr, "nothing helps") && !strings.Contains(r.stderr, "what fits") {
		t.Error(r.stderr)
	}
}

func TestDoctorAndVersion(t *testing.T) {
	t.Parallel()
	v := tandem(t, "version")
	if !regexp.MustCompile(`^tandem .+, go1\.\d+.* linux/\w+, (no|\d+) CUDA kernels?.*\n$`).MatchString(v.stdout) {
		t.Errorf("version %q", v.stdout)
	}
	d := tandem(t, "doctor")
	if !strings.HasPrefix(d.stdout, v.stdout) {
		t.Errorf("doctor begins with another version: %s", d.stdout)
	}
	for _, want := range []string{"processors", "memory", "disk here", "huge pages", "give the plain loops' bits", "device "} {
		if !strings.Contains(d.stdout, want) {
			t.Errorf("doctor lacks %q:\n%s", want, d.stdout)
		}
	}
}

func TestHelpNamesEveryCommand(t *testing.T) {
	t.Parallel()
	r := tandem(t, "--help")
	for _, name := range []string{"train", "generate", "score", "chat", "grade", "plan", "doctor", "init-model", "run-code", "version"} {
		if !strings.Contains(r.stdout, "\n  "+name+" ") {
			t.Errorf("help lacks %s:\n%s", name, r.stdout)
		}
	}
	refused(t, 2, []string{"trian"}, "trian")
}

func TestGrade(t *testing.T) {
	t.Parallel()
	r := tandemWith(t, "{\"response\": \"\\\\boxed{2}\", \"label\": \"2\"}\n{\"response\": \"\\\\boxed{3}\", \"label\": \"2\"}\n", "grade", "--in", "-")
	if got := rows[map[string]any](t, r.stdout); len(got) != 2 || !strings.Contains(r.stderr, "2 rows, 0 bad") {
		t.Errorf("graded %v", r)
	}
	r = refusedWith(t, "{\"response\": \"1\"}\n", 1, []string{"grade", "--in", "-"}, "line 1", "1 bad")
	refused(t, 2, []string{"grade"}, "--in FILE")
	refused(t, 2, []string{"grade", "--in", "/nonexistent.jsonl"}, "/nonexistent.jsonl")
}

func TestChat(t *testing.T) {
	t.Parallel()
	chat := func(stdin string, args ...string) string {
		t.Helper()
		return tandemWith(t, stdin, append([]string{"chat", "--model", need(t, shared.tiny), "--max-tokens", "12", "--seed", "5"}, args...)...).stdout
	}
	once := chat("1+1=?\n")
	if once == "" || !strings.HasSuffix(once, "\n") || strings.Contains(once, "> ") {
		t.Errorf("one message gets %q", once)
	}
	if got := chat("\n1+1=?\n/quit\n2+2=?\n"); got != once {
		t.Errorf("what follows /quit, or an empty line, is answered: %q, want %q", got, once)
	}
	if got := chat("1+1=?\n/new\n1+1=?"); got != once+once {
		t.Errorf("after /new it is not as at first: %q, want %q twice", got, once)
	}
	if got := chat("1+1=?\n1+1=?\n"); !strings.HasPrefix(got, once) || got == once+once {
		t.Errorf("a second turn is as the first: %q", got)
	}
	if chat("1+1=?\n", "--system", "+") == once {
		t.Error("a system message changes nothing")
	}
	if got := chat("1+1=?\n", "--max-tokens", "2", "--template", "no-thinking"); !strings.Contains(got, " (cut off)\n") {
		t.Errorf("a reply that was cut off looks like %q", got)
	}
	got := chat("1\n1\n1\n", "--context", "24")
	if !strings.HasSuffix(got, "leave no room for a new one in a context of 24; /new starts again)\n") {
		t.Errorf("beyond the context it says %q", got)
	}
	// A cache of one page, which the new prompt shares its first tokens with.
	if got := chat("1\n/new\n2\n", "--context", "24"); strings.Count(got, "\n") < 2 {
		t.Errorf("a second conversation gets %q", got)
	}
	if got := chat("1+1=?\n", "--stop", once[1:3]); got != once[:strings.Index(once, once[1:3])]+"\n" {
		t.Errorf("%q ended at %q is %q", once, once[1:3], got)
	}
	if got := chat("1+1=?\n1+1=?\n", "--allowed-tokens", "25"); strings.Trim(got, "\n") != "" { // the end token comes first
		t.Errorf("empty replies look like %q", got)
	}
	refused(t, 2, []string{"chat", "--model", need(t, shared.bare)}, "chat: ", "has no tokenizer.json")
	refused(t, 2, []string{"chat", "--model", need(t, shared.tiny), "--template", "none"}, `--template is "none"`)
	refused(t, 2, []string{"chat", "--model", need(t, shared.tiny), "--top-p", "-1"}, "--top-p is -1")
}

func TestRunCode(t *testing.T) {
	t.Parallel()
	refused(t, 2, []string{"run-code", "/nonexistent.py"}, "/nonexistent.py")
	if _, err := os.Stat("/usr/bin/python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	r := tandemWith(t, "print(6*7)", "run-code", "-", "--unsafe-sandbox")
	if got := rows[struct{ Output string }](t, r.stdout); len(got) != 1 || got[0].Output != "42\n" {
		t.Errorf("%s", fmt.Sprint(r))
	}
}
