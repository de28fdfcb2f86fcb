package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"tandem/durable"
)

// A moment is when a run is killed: so long after something was seen in its directory.
type moment struct {
	name  string
	most  time.Duration // the largest delay
	seen  func(dir string, before watch) bool
	after time.Duration
}

// A watch is what a run directory held when the process began.
type watch struct{ metrics, evaluations, steps, checkpoint int }

func look(dir string) watch {
	return watch{lineCount(dir, "metrics.jsonl"), lineCount(dir, "evaluations.jsonl"), len(names(dir, "steps")), lastCheckpoint(dir)}
}

func partial(dir string) bool {
	return slices.ContainsFunc(names(dir), func(name string) bool { return strings.HasSuffix(name, durable.Aside) })
}

func moments() []moment {
	return []moment{
		{"start", 300 * time.Millisecond, func(string, watch) bool { return true }, 0},
		{"step", 100 * time.Millisecond, func(dir string, b watch) bool { return lineCount(dir, "metrics.jsonl") > b.metrics+1 }, 0},
		{"update after a rollout", 30 * time.Millisecond, func(dir string, b watch) bool { return len(names(dir, "steps")) > b.steps }, 0},
		{"rollout", 30 * time.Millisecond, func(dir string, b watch) bool {
			return len(names(dir, "steps")) > 0 && lineCount(dir, "metrics.jsonl") > b.metrics
		}, 0},
		{"writing a checkpoint", 20 * time.Millisecond, func(dir string, _ watch) bool { return partial(filepath.Join(dir, "ckpt")) }, 0},
		{"after a checkpoint", 10 * time.Millisecond, func(dir string, b watch) bool { return lastCheckpoint(dir) > b.checkpoint }, 0},
		{"evaluation", 20 * time.Millisecond, func(dir string, b watch) bool { return lineCount(dir, "evaluations.jsonl") > b.evaluations }, 0},
		{"saving the model", 10 * time.Millisecond, func(dir string, _ watch) bool { return partial(dir) }, 0},
	}
}

// TestKilledRunsEndWithTheSameBits kills real processes at random moments and resumes them; every run that comes to its
// end equals the one that was never stopped.
func TestKilledRunsEndWithTheSameBits(t *testing.T) {
	t.Parallel()
	kills := 10
	if os.Getenv("TANDEM_LONG") != "" {
		kills = 200
	}
	want := need(t, shared.trained)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	all := moments()
	order := rng.Perm(len(all))
	left := kills
	for n := 0; left > 0 || n == 0; n++ {
		dir, args := small(t)
		for life := 0; ; life++ {
			m := all[order[(kills-left)%len(order)]]
			m.after = time.Duration(rng.Int64N(int64(m.most)))
			begun := args
			if exists(filepath.Join(dir, "recipe.toml")) { // or it was killed before it began
				begun = append(slices.Clone(args), "--resume")
			}
			if killed, r := kill(dir, begun, m, left > 0); killed {
				t.Logf("run %d: killed after %d steps, checkpoint %d: %s + %v", n, lineCount(dir, "metrics.jsonl"), lastCheckpoint(dir), m.name, m.after)
				left--
				continue
			} else if r.code != 0 {
				t.Fatalf("run %d, process %d: %v", n, life, r)
			}
			break
		}
		sameRun(t, dir, want)
		if t.Failed() {
			return
		}
	}
}

// kill runs a process until the moment; killed is false if it came to its end before, or was to live.
func kill(dir string, args []string, m moment, mortal bool) (killed bool, r result) {
	before := look(dir)
	p := shared.start(args...)
	if !mortal {
		return false, p.wait()
	}
	for p.running() && !m.seen(dir, before) {
		time.Sleep(200 * time.Microsecond)
	}
	time.Sleep(m.after)
	if p.running() {
		_ = p.cmd.Process.Kill() // it may end just now
	}
	r = p.wait()
	return r.code == -1, r
}

// TestInterruptedRunsEndWithTheSameBits stops runs by Ctrl-C, in the warm-up, in an evaluation and in the steps on rollouts.
func TestInterruptedRunsEndWithTheSameBits(t *testing.T) {
	t.Parallel()
	dir, args := small(t)
	for _, at := range []int{0, 4, 12, 13, 17} {
		p := shared.start(args...)
		until(t, p, fmt.Sprintf("step %d", at), func() bool {
			return exists(filepath.Join(dir, "recipe.toml")) && lineCount(dir, "metrics.jsonl") >= at
		})
		if at == 0 {
			until(t, p, "its first words", func() bool { return exists(filepath.Join(dir, "tokenizer", "tokenizer_config.json")) })
		}
		time.Sleep(time.Duration(rand.Int64N(int64(30 * time.Millisecond))))
		if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		r := p.wait()
		done := lineCount(dir, "metrics.jsonl")
		want := fmt.Sprintf("stopped after step %d of %d; go on with: tandem train --resume --run %s", done, smallSteps, dir)
		if r.code != 130 || !strings.Contains(r.stdout, want) || r.complaints() != "" {
			t.Fatalf("interrupted after step %d: %v, want %q", done, r, want)
		}
		if last := lastCheckpoint(dir); last != done {
			t.Errorf("interrupted after step %d with a state of step %d", done, last)
		}
		args = []string{"train", "--resume", "--run", dir, "--workers", "1"}
	}
	r := tandem(t, args...)
	if !strings.Contains(r.stdout, "resuming after step") {
		t.Errorf("resumed: %v", r)
	}
	sameRun(t, dir, need(t, shared.trained))
	r = tandem(t, args...)
	if want := fmt.Sprintf("all %d steps of the run are done", smallSteps); !strings.Contains(r.stdout, want) || strings.Contains(r.stdout, "resuming") {
		t.Errorf("resumed when all is done: %v, want %q", r, want)
	}
	sameRun(t, dir, need(t, shared.trained))
}

func TestInterruptedGenerate(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out.jsonl")
	p := shared.startWith(prompts, "generate", "--model", need(t, shared.tiny), "--n", "5000", "--max-tokens", "500", "--ignore-eos", "--out", out)
	until(t, p, "the first rows", func() bool { return exists(out) })
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if r := p.wait(); r.code != 130 || r.complaints() != "tandem: interrupted\n" {
		t.Errorf("interrupted: %v", r)
	}
}
