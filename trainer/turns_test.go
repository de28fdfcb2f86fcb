package trainer

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/kernels"
	"tandem/model"
	"tandem/trainer/env"
	"tandem/trainer/run"
)

// Tasks of several turns over the tokens 0 to 7, where 8 opens what is told and 9 ends a turn.
const (
	tell = 8
	stop = 9
)

func problems(n int) []env.Problem {
	out := make([]env.Problem, n)
	for i := range out {
		out[i].ID = i
	}
	return out
}

func turnsTask(e env.Env) *env.Task {
	return &env.Task{Env: e, Problems: problems(8), HeldOut: problems(8), Stop: []int32{stop}, Text: func(tokens []int32) string { return fmt.Sprint(tokens) }}
}

func prompt(p env.Problem, tokens ...int32) (*env.Episode, error) {
	return &env.Episode{Problem: p, Tokens: append([]int32{tell}, tokens...)}, nil
}

// A guessing game: a number from 0 to 3 is to be found, and every wrong guess is told to be too low or too high.
type guessing struct{}

func (guessing) Start(p env.Problem) (*env.Episode, error) { return prompt(p, tell) }

func (guessing) Step(_ context.Context, e *env.Episode, r env.Reply) (env.Turn, error) {
	const most = 3
	guess, secret := int(r.Tokens[0]), e.Problem.ID/2
	switch {
	case guess == secret:
		return env.Turn{Done: true, End: env.Answered, Reward: 1 - float32(len(e.Past))/8}, nil
	case len(e.Past)+1 == most:
		return env.Turn{Done: true, End: env.NoAnswer}, nil
	case r.Room < 3:
		return env.Turn{Done: true, End: env.Truncated}, nil
	case guess < secret:
		return env.Turn{Append: []int32{tell, 1}}, nil
	}
	return env.Turn{Append: []int32{tell, 0}}, nil
}

// Self-correction in two turns: the model answers, is asked whether it is sure, and answers again. The second answer counts,
// and correcting one's mind to the worse costs extra.
type correcting struct{}

func (correcting) Start(p env.Problem) (*env.Episode, error) { return prompt(p, int32(p.ID)) }

func (correcting) right(p env.Problem, r env.Reply) bool { return int(r.Tokens[0]) == (p.ID+1)%8 }

func (c correcting) Step(_ context.Context, e *env.Episode, r env.Reply) (env.Turn, error) {
	if len(e.Past) == 0 && r.Room >= 2 {
		return env.Turn{Append: []int32{tell, tell}}, nil
	}
	t := env.Turn{Done: true, End: env.Answered}
	if c.right(e.Problem, r) {
		t.Reward = 1
	} else if len(e.Past) > 0 && c.right(e.Problem, e.Past[0].Reply) {
		t.Reward = -0.5
	}
	return t, nil
}

// calling runs a tool whenever a turn does not begin with the problem's number, three times at most.
type calling struct {
	tool func(ctx context.Context, e *env.Episode, r env.Reply) ([]int32, error)
}

func (calling) Start(p env.Problem) (*env.Episode, error) { return prompt(p, int32(p.ID)) }

func (c calling) Step(ctx context.Context, e *env.Episode, r env.Reply) (env.Turn, error) {
	if int(r.Tokens[0]) == e.Problem.ID {
		return env.Turn{Done: true, End: env.Answered, Reward: 1}, nil
	}
	if len(e.Past) == 3 || r.Room < 6 {
		return env.Turn{Done: true, End: env.TooManyCalls}, nil
	}
	said, err := c.tool(ctx, e, r)
	call := env.Call{Turn: len(e.Past), Tool: "tool", Output: fmt.Sprint(said), Seconds: 0.1, Tokens: len(said)}
	return env.Turn{Append: append([]int32{tell}, said...), Calls: []env.Call{call}}, err
}

// said is what a tool that is a function of its input says: a few numbers.
func said(e *env.Episode, r env.Reply) []int32 {
	h := fnv.New64a()
	fmt.Fprint(h, e.Problem.ID, len(e.Past), r.Tokens)
	sum := h.Sum64()
	out := make([]int32, 1+sum%4)
	for i := range out {
		out[i] = int32(sum >> (8 * (i + 1)) % 8)
	}
	return out
}

func turnsRecipe() Recipe {
	r := testRecipe()
	r.Model.Context = 200
	r.Warmup.Steps, r.Train.Steps = 0, 4
	r.Train.Rows = 512
	r.Rollout.MaxTokens, r.Rollout.TurnTokens = 12, 3
	r.Checkpoint.Every = 2
	return r
}

func turnsTrainer(t *testing.T, r Recipe, e env.Env, dir *run.Dir) *Trainer {
	t.Helper()
	if err := r.Check(); err != nil {
		t.Fatal(err)
	}
	dev, err := kernels.NewCPU(kernels.CPUConfig{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := model.NewWeights(dev, testConfig(t), kernels.BF16, r.Model.Context)
	if err != nil {
		t.Fatal(err)
	}
	if err := model.Random(transfer(t, dev), w, r.Seed); err != nil {
		t.Fatal(err)
	}
	tr, err := New(dev, w, turnsTask(e), r, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		tr.Close()
		dev.Close()
	})
	return tr
}

// TestTasksOfSeveralTurnsAreLearnt trains on three kinds of task by the same two methods.
func TestTasksOfSeveralTurnsAreLearnt(t *testing.T) {
	for name, e := range map[string]env.Env{
		"guessing game": guessing{}, "self-correction": correcting{},
		"tool": calling{func(_ context.Context, e *env.Episode, r env.Reply) ([]int32, error) { return said(e, r), nil }},
	} {
		t.Run(name, func(t *testing.T) {
			r := turnsRecipe()
			r.Train.Steps, r.Optimizer.LR = 40, 5e-3
			tr := turnsTrainer(t, r, e, nil)
			var rewards []float64
			for range r.Steps() {
				m, err := tr.Step(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if m.Mismatch != 0 {
					t.Fatalf("step %d: the sampler's log-probs differ from the trainer's by %g", m.Step, m.Mismatch)
				}
				rewards = append(rewards, m.Reward)
			}
			n := len(rewards)
			if first, last := mean(rewards[:5]), mean(rewards[n-5:]); !(last > first+0.1) {
				t.Errorf("mean reward of the first five steps %.3f, of the last five %.3f", first, last)
			} else {
				t.Logf("mean reward of the first five steps %.3f, of the last five %.3f", first, last)
			}
		})
	}
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// TestWaitingForToolsChangesNoBit plays the same episodes in an engine with all the pages they need and tools that answer
// at once, and in one that is short of pages, with tools that take their time: sessions that wait for a tool lose their
// pages and are computed again. Everything but the clock and the cache must be the same.
func TestWaitingForToolsChangesNoBit(t *testing.T) {
	rng := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var mu sync.Mutex
	slow := func(ctx context.Context, e *env.Episode, r env.Reply) ([]int32, error) {
		mu.Lock()
		wait := time.Duration(rng.IntN(20)) * time.Millisecond
		mu.Unlock()
		time.Sleep(wait)
		return append(said(e, r), make([]int32, 30)...), nil
	}
	quick := func(_ context.Context, e *env.Episode, r env.Reply) ([]int32, error) {
		return append(said(e, r), make([]int32, 30)...), nil
	}
	sample := func(tool func(context.Context, *env.Episode, env.Reply) ([]int32, error), pages, batch int) ([][]*Rollout, engineCounts) {
		r := turnsRecipe()
		r.Rollout.Pages, r.Rollout.Batch, r.Rollout.Rows = pages, batch, 40
		tr := turnsTrainer(t, r, calling{tool}, nil)
		got, err := tr.roller.play(t.Context(), problems(8), 4, tr.sampling(), func(p, g int) uint64 { return memberSeed(7, 0, p, g, drawReplies) }, func(*Rollout) {})
		if err != nil {
			t.Fatal(err)
		}
		st := tr.roller.engine.Stats()
		for _, group := range got {
			for _, ro := range group {
				ro.Cached = 0
			}
		}
		m, err := tr.Step(t.Context())
		if err != nil || m.Mismatch != 0 || m.Calls == 0 {
			t.Errorf("%d pages: %d calls, mismatch %g, %v", pages, m.Calls, m.Mismatch, err)
		}
		if trained := m.Sampled - m.WastedTokens; m.Trained != trained {
			t.Errorf("%d tokens trained of %d that were sampled and not wasted", m.Trained, trained)
		}
		return got, engineCounts{st.Rows, st.Cached}
	}
	want, easy := sample(quick, 0, 0)
	got, tight := sample(slow, 5, 3)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if tight.rows <= easy.rows {
		t.Errorf("short of pages the engine computed %d rows, with enough %d: nobody lost pages", tight.rows, easy.rows)
	}
}

type engineCounts struct{ rows, cached int }

// TestResumedStepAsksNoToolAgain stops steps in the middle of tool calls. The tool never says the same twice, so that the
// step can only be the one it began as if what was said is kept.
func TestResumedStepAsksNoToolAgain(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	var mu sync.Mutex
	answered := map[string]int{} // what the tool has said, by how often
	calls := 0
	stopAt, cancel := 0, context.CancelFunc(nil)
	tool := func(ctx context.Context, e *env.Episode, r env.Reply) ([]int32, error) {
		mu.Lock()
		defer mu.Unlock()
		if calls++; calls >= stopAt {
			cancel() // in the middle of a call
			return nil, fmt.Errorf("tool: %w", context.Canceled)
		}
		out := make([]int32, 12)
		for i := range out {
			out[i] = int32(rng.IntN(8))
		}
		answered[fmt.Sprint(out)]++
		return out, nil
	}
	r := turnsRecipe()
	path := filepath.Join(t.TempDir(), "run")
	dir, err := run.Create(path, r.TOML())
	if err != nil {
		t.Fatal(err)
	}
	var ms []Metrics
	for lives := 0; len(ms) < r.Steps(); lives++ {
		if lives > 200 {
			t.Fatal("the run does not come to its end")
		}
		stopAt = calls + 40 + rng.IntN(150)
		var ctx context.Context
		ctx, cancel = context.WithCancel(t.Context())
		tr := turnsTrainer(t, r, calling{tool}, dir)
		if err := tr.Resume(); err != nil {
			t.Fatal(err)
		}
		ms = ms[:tr.Done()]
		for len(ms) < r.Steps() {
			m, err := tr.Step(ctx)
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				break
			}
			ms = append(ms, m)
		}
		cancel()
	}
	used := 0
	for step, m := range ms {
		var log StepLog
		if ok, err := dir.ReadStep(step, &log); !ok || err != nil {
			t.Fatal(ok, err)
		}
		if m.Mismatch != 0 {
			t.Errorf("step %d: the sampler's log-probs differ from the trainer's by %g", step, m.Mismatch)
		}
		for _, g := range log.Groups {
			for _, ro := range g.Rollouts {
				for _, c := range ro.Calls {
					used++
					if answered[c.Output] != 1 {
						t.Errorf("step %d, problem %d: the tool said %s %d times", step, ro.Problem, c.Output, answered[c.Output])
					}
					delete(answered, c.Output)
				}
			}
		}
	}
	if len(answered) > 0 {
		t.Errorf("%d of %d answers of the tool are in no log: it was asked again", len(answered), used+len(answered))
	}
	if left, _ := filepath.Glob(filepath.Join(path, "*.journal")); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}

// TestStoppedStepEndsWithTheSameBits compares a run that was stopped inside steps with one that never was, the tool being a
// function of what it is asked.
func TestStoppedStepEndsWithTheSameBits(t *testing.T) {
	r := turnsRecipe()
	tool := func(_ context.Context, e *env.Episode, r env.Reply) ([]int32, error) { return said(e, r), nil }
	whole := turnsTrainer(t, r, calling{tool}, nil)
	want := steps(t, whole, r.Steps())
	state := weightsOf(t, whole)
	for _, stops := range [][]int{{1}, {30, 100}, {200, 20, 300}} {
		dir, err := run.Create(filepath.Join(t.TempDir(), "run"), r.TOML())
		if err != nil {
			t.Fatal(err)
		}
		var tr *Trainer
		var got []Metrics
		for i := range len(stops) + 1 {
			ctx, cancel := context.WithCancel(t.Context())
			var mu sync.Mutex
			n := 0
			tr = turnsTrainer(t, r, calling{func(ctx context.Context, e *env.Episode, r env.Reply) ([]int32, error) {
				mu.Lock()
				defer mu.Unlock()
				if n++; i < len(stops) && n >= stops[i] {
					cancel()
					return nil, ctx.Err()
				}
				return tool(ctx, e, r)
			}}, dir)
			if err := tr.Resume(); err != nil {
				t.Fatal(err)
			}
			got = got[:tr.Done()]
			for len(got) < r.Steps() {
				m, err := tr.Step(ctx)
				if err != nil {
					break
				}
				got = append(got, timeless(m))
			}
			cancel()
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(Metrics{}, sums{})); diff != "" {
			t.Errorf("stopped after %v calls: %s", stops, diff)
		}
		sameState(t, weightsOf(t, tr), state, fmt.Sprintf("stopped after %v calls", stops))
	}
}

// TestToolDownKeepsTheStep has the tool fail for good: the step is not done, nothing is scored, and what was sampled is kept.
func TestToolDownKeepsTheStep(t *testing.T) {
	r := turnsRecipe()
	dir, err := run.Create(filepath.Join(t.TempDir(), "run"), r.TOML())
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	n := 0
	tr := turnsTrainer(t, r, calling{func(_ context.Context, e *env.Episode, r env.Reply) ([]int32, error) {
		mu.Lock()
		defer mu.Unlock()
		if n++; n > 60 {
			return nil, fmt.Errorf("%w: no server", env.ErrToolDown)
		}
		return said(e, r), nil
	}}, dir)
	if _, err := tr.Step(t.Context()); !errors.Is(err, env.ErrToolDown) || tr.Done() != 0 {
		t.Fatalf("%d steps done, %v", tr.Done(), err)
	}
	if err := tr.Save(); err != nil {
		t.Fatal(err)
	}
	j, err := openJournal(dir, 0)
	if err != nil {
		t.Fatal(err)
	}
	kept := 0
	for _, turns := range j.had {
		for _, turn := range turns {
			kept += len(turn.Turn.Calls)
		}
	}
	if kept < 30 || kept > 60 {
		t.Errorf("%d of 60 calls are kept", kept)
	}
}

func TestConversation(t *testing.T) {
	tr := turnsTrainer(t, turnsRecipe(), calling{func(_ context.Context, e *env.Episode, r env.Reply) ([]int32, error) { return said(e, r), nil }}, nil)
	groups, err := tr.roller.play(t.Context(), problems(8), 4, tr.sampling(), func(p, g int) uint64 { return memberSeed(1, 0, p, g, drawReplies) }, func(*Rollout) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range slices.Concat(groups...) {
		all := conversation(r, tr.task.Text)
		if len(r.Calls) == 0 {
			if all != nil {
				t.Errorf("a reply of one turn reads %+v", all)
			}
			continue
		}
		for i, s := range all {
			if i%2 == 0 && (s.Who != "model" || s.Text != fmt.Sprint(r.Tokens[r.Spans[i/2][0]:r.Spans[i/2][1]])) || i%2 == 1 && (s.Who != "tool" || s.Text != r.Calls[i/2].Output) {
				t.Errorf("entry %d of %+v is %+v", i, r, s)
			}
		}
		if len(all) != len(r.Spans)+len(r.Calls) {
			t.Errorf("%d entries of %d turns and %d calls", len(all), len(r.Spans), len(r.Calls))
		}
	}
}
