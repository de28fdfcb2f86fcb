package main

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowPython is a virtual environment with a package that makes print take its time, so that a process can be killed while
// the programs of its rollouts run.
func slowPython(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "python")
	if out, err := exec.Command("python3", "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
		t.Skipf("no virtual environment of Python: %v: %s", err, out)
	}
	site, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	if err != nil || len(site) != 1 {
		t.Fatal(site, err)
	}
	module := "import builtins, time\nquick = builtins.print\ndef print(*a, **k):\n    time.sleep(0.15)\n    quick(*a, **k)\nbuiltins.print = print\n"
	if err := os.WriteFile(filepath.Join(site[0], "slowprint.py"), []byte(module), 0o644); err != nil {
		t.Fatal(err)
	}
	python := filepath.Join(dir, "bin", "python")
	if r := shared.startWith("print(1)", "run-code", "--python", python, "-").wait(); r.code != 0 {
		t.Skipf("no sandbox on this machine: %v", r)
	}
	return python
}

// toolRun gives the arguments of a run of smallSteps whose model learns within seconds to box 1 or 2, or to have 12 printed.
func toolRun(t *testing.T, dir, python string) []string {
	t.Helper()
	var problems, demonstrations strings.Builder
	for i := range 30 {
		fmt.Fprintf(&problems, "{\"problem\": \"%d*%d=?\", \"answer\": \"%d\"}\n", 32+i, 99-i, 1+i%2)
		reply := fmt.Sprintf(`\\boxed{%d}`, 1+i%2)
		if i%3 > 0 {
			reply = `<tool_call>\n{\"name\": \"code_interpreter\", \"arguments\": {\"code\": \"print(12)\"}}\n</tool_call>`
		}
		fmt.Fprintf(&demonstrations, "{\"problem\": \"%d*%d=?\", \"reply\": \"%s\"}\n", 32+i, 99-i, reply)
	}
	data := write(t, "problems.jsonl", problems.String())
	args := []string{"train", "demo-tools", "--run", dir, "--workers", "2", "--python", python}
	return append(args, settings(
		"data.task=file", "data.train="+data, "data.held_out="+data+"@[:4]", "warmup.data="+write(t, "demonstrations.jsonl", demonstrations.String()),
		"warmup.steps=16", "warmup.samples=24", "warmup.optimizer.lr=6e-3", "warmup.optimizer.schedule=constant", "tools.packages=slowprint",
		"rollout.prompts=4", "rollout.samples=4", "train.steps=4", "train.rows=512", "evaluation.problems=4", "checkpoint.every=16",
	)...)
}

// inCalls waits until a step is being sampled and some turn of it is recorded: its calls are running.
func inCalls(t *testing.T, p *process, dir string) {
	t.Helper()
	journal := filepath.Join(dir, "turns.journal")
	size := func() int64 {
		if st, err := os.Stat(journal); err == nil {
			return st.Size()
		}
		return 0
	}
	was := size()
	until(t, p, "turns of a step", func() bool { return size() > max(was, 16) })
	time.Sleep(time.Duration(rand.Int64N(int64(60 * time.Millisecond))))
}

// TestKilledInToolCalls kills runs while programs run in the sandbox, and takes the sandbox away from one. All of them end
// as one that went on undisturbed.
func TestKilledInToolCalls(t *testing.T) {
	t.Parallel()
	python := slowPython(t)
	want := filepath.Join(t.TempDir(), "run")
	args := toolRun(t, want, python)
	p := shared.start(args...)
	inCalls(t, p, want)
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	p.wait()
	killed, down := filepath.Join(t.TempDir(), "killed"), filepath.Join(t.TempDir(), "down")
	for _, dir := range []string{killed, down} {
		if err := os.CopyFS(dir, os.DirFS(want)); err != nil {
			t.Fatal(err)
		}
	}
	resume := func(dir string) []string {
		return []string{"train", "--resume", "--run", dir, "--workers", "2", "--python", python}
	}
	r := tandem(t, resume(want)...)
	if !strings.Contains(r.stdout, "called") {
		t.Errorf("a run with a tool says nothing of it: %s", r.stdout)
	}
	calls := 0
	for _, log := range replies(t, want) {
		for _, g := range log.Groups {
			for _, ro := range g.Rollouts {
				calls += len(ro.Calls)
			}
		}
	}
	if calls < 10 {
		t.Errorf("the run made %d calls: the test says little", calls)
	}

	for range 2 {
		p := shared.start(resume(killed)...)
		inCalls(t, p, killed)
		_ = p.cmd.Process.Kill() // it may end just now
		p.wait()
	}
	tandem(t, resume(killed)...)
	sameRun(t, killed, want)

	p = shared.start(resume(down)...)
	inCalls(t, p, down)
	if !killChild(t, p.cmd.Process.Pid) {
		t.Fatal("the sandbox has no process")
	}
	if r := p.wait(); r.code == 0 || !strings.Contains(r.stdout, "go on with: tandem train --resume") || !strings.Contains(r.stderr, "a tool is down") {
		t.Errorf("without its sandbox the run ended so: %v", r)
	}
	tandem(t, resume(down)...)
	sameRun(t, down, want)
}

// killChild kills a process that pid has started.
func killChild(t *testing.T, pid int) bool {
	t.Helper()
	killed := false
	err := fs.WalkDir(os.DirFS("/proc"), ".", func(path string, _ fs.DirEntry, _ error) error {
		child, number := strconv.Atoi(path)
		if path != "." && number != nil {
			return fs.SkipDir
		}
		stat, err := os.ReadFile(filepath.Join("/proc", path, "stat"))
		if path == "." || err != nil {
			return nil
		}
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 1 && fields[1] == strconv.Itoa(pid) {
			killed = syscall.Kill(child, syscall.SIGKILL) == nil || killed
		}
		return fs.SkipDir
	})
	if err != nil {
		t.Fatal(err)
	}
	return killed
}
