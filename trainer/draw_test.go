package trainer

import (
	"context"
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestDynamicSamplingKeepsTheFirstThatDiffer compares what a step keeps, throws away and carries over with all that it drew.
func TestDynamicSamplingKeepsTheFirstThatDiffer(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps = 60
	r.Rollout.Prompts, r.Rollout.Samples, r.Rollout.OverSampling, r.Algorithm.Updates = 4, 3, 6, 1
	r.Rollout.Dynamic = true
	tr := newTestTrainer(t, r, nil)
	steps(t, tr, r.Warmup.Steps)
	for _, carry := range []string{"off", "prompts", "groups"} {
		for _, waves := range []int{1, 2, 5} {
			tr.recipe.Rollout.Waves, tr.recipe.Rollout.Carry = waves, carry
			tr.drawing, tr.carried = drawing{}, nil
			for range 4 {
				checkFill(t, tr, fmt.Sprintf("carry %s, %d waves", carry, waves))
			}
		}
	}
}

// checkFill fills a step, and plays what it drew again: seeds depend on the place in the step alone.
func checkFill(t *testing.T, tr *Trainer, what string) {
	t.Helper()
	log, r := &StepLog{}, tr.recipe.Rollout
	if err := tr.fill(context.Background(), log); err != nil {
		t.Fatal(err)
	}
	at, carried := tr.drawing, len(tr.carried)
	draws, rested := at.next(tr.recipe.Seed, len(tr.task.Problems), len(log.Outcomes))
	all, err := tr.roller.play(context.Background(), tr.problems(draws), r.Samples, tr.sampling(), func(p, g int) uint64 {
		return memberSeed(tr.recipe.Seed, tr.step, p, g, drawReplies)
	}, func(*Rollout) {})
	if err != nil {
		t.Fatal(err)
	}
	var mixed, others, again []int // problems
	for _, g := range all {
		if (Group{Rollouts: g}).mixed() {
			mixed = append(mixed, g[0].Problem)
		} else {
			others = append(others, g[0].Problem)
		}
	}
	var want []int
	for _, g := range tr.carried {
		want = append(want, g.Problem.ID)
	}
	kept := min(r.Prompts-carried, len(mixed))
	want = append(want, mixed[:kept]...)
	surplus, discarded := mixed[kept:], len(draws)-r.Prompts+carried
	want = append(want, others[:min(r.Prompts-len(want), len(others))]...)
	switch r.Carry {
	case "prompts":
		again = surplus
	case "groups":
		discarded -= min(len(surplus), r.Prompts)
	}
	var got, first, next []int
	for _, g := range log.Groups {
		got = append(got, g.Problem.ID)
	}
	for _, p := range log.First {
		first = append(first, tr.task.Problems[p].ID)
	}
	for _, g := range log.Surplus {
		next = append(next, g.Problem.ID)
	}
	if !slices.Equal(got, want) || log.Discarded != discarded || log.Drawn != at.At || log.Rested != rested {
		t.Errorf("%s: kept %v, threw %d away, went to %d past %d; want %v, %d, %d, %d", what, got, log.Discarded, log.Drawn, log.Rested, want, discarded, at.At, rested)
	}
	if r.Carry == "prompts" && !slices.Equal(first[:min(len(again), len(first))], again) {
		t.Errorf("%s: first in the next step are %v, want %v", what, first, again)
	}
	if r.Carry == "groups" && !slices.Equal(next, surplus[:min(len(surplus), r.Prompts)]) {
		t.Errorf("%s: carried over are %v, want the first of %v", what, next, surplus)
	}
	if carried+len(mixed) < r.Prompts && len(draws) < max(r.Prompts, r.OverSampling)*r.Waves {
		t.Errorf("%s: stopped after %d prompts with %d groups that differ", what, len(draws), len(mixed))
	}
	tr.finish(log)
	tr.step++
}

// TestRestsFollowTheCounts draws from eight problems of which one always differs, one never, one until its third time.
func TestRestsFollowTheCounts(t *testing.T) {
	var d drawing
	const N, most = 8, 5
	times := make(map[int][]int) // the passes in which a problem was drawn
	for d.At/N < 40 {
		draws, rested := d.next(9, N, 3)
		log := &StepLog{Drawn: d.At, First: d.First, Rested: rested}
		for _, x := range draws {
			times[x.problem] = append(times[x.problem], x.pass)
			log.Outcomes = append(log.Outcomes, Outcome{Problem: x.problem, Pass: x.pass, Mixed: x.problem != 3 && (x.problem != 5 || len(times[5]) != 3)})
		}
		d = d.after(log, most)
	}
	for p, passes := range times {
		passes = passes[:slices.IndexFunc(append(passes, 99), func(n int) bool { return n >= 30 })]
		var gaps []int
		for i := range passes[1:] {
			gaps = append(gaps, passes[i+1]-passes[i])
		}
		for i, gap := range gaps {
			want := 1
			switch {
			case p == 3:
				want = 1 + min(1<<(i+1)-1, most) // 2, 4, 6, 6, ...
			case p == 5 && i == 2:
				want = 2
			}
			if gap != want {
				t.Errorf("problem %d was drawn in passes %v: gap %d is %d, want %d", p, passes, i, gap, want)
			}
		}
	}
}

// TestAllAtRestGoesOn draws where nothing ever differs: at most rollout.rest passes are gone past for a problem.
func TestAllAtRestGoesOn(t *testing.T) {
	var d drawing
	const N, most = 4, 7
	for step := range 50 {
		before := d.At
		draws, rested := d.next(1, N, 6)
		log := &StepLog{Drawn: d.At, Rested: rested}
		for _, x := range draws {
			log.Outcomes = append(log.Outcomes, Outcome{Problem: x.problem, Pass: x.pass})
		}
		if d = d.after(log, most); len(draws) != 6 || d.At-before != 6+rested || d.At-before > 3*N*(most+1) {
			t.Fatalf("step %d: %d draws from %d to %d past %d", step, len(draws), before, d.At, rested)
		}
	}
}

func TestProblemsComeOncePerPass(t *testing.T) {
	var d drawing
	var ids []int
	for range 8 {
		draws, rested := d.next(5, 8, 5)
		for _, x := range draws {
			ids = append(ids, x.problem)
		}
		if rested != 0 {
			t.Errorf("%d rested", rested)
		}
	}
	orders := make(map[string]bool)
	for pass := range 5 {
		order := ids[8*pass : 8*pass+8]
		if sorted := slices.Sorted(slices.Values(order)); !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5, 6, 7}) {
			t.Errorf("pass %d has problems %v", pass, order)
		}
		orders[fmt.Sprint(order)] = true
	}
	if len(orders) == 1 {
		t.Error("every pass has the same order")
	}
}

// TestEarlyStopDrawsTheSameSamples compares the groups that go on, and the beginnings of those that do not, with whole ones.
func TestEarlyStopDrawsTheSameSamples(t *testing.T) {
	r := testRecipe()
	r.Warmup.Steps = 60
	r.Rollout.Samples, r.Rollout.Dynamic = 6, true
	var logs []*StepLog
	for _, early := range []int{0, 2} {
		r.Rollout.EarlyStop, r.Rollout.Waves = early, 1
		tr := newTestTrainer(t, r, nil)
		steps(t, tr, r.Warmup.Steps)
		groups, err := tr.wave(context.Background(), tr.task.Problems, 0)
		if err != nil {
			t.Fatal(err)
		}
		log := &StepLog{Groups: groups}
		if early > 0 {
			if err := tr.fill(context.Background(), log); err != nil {
				t.Fatal(err)
			}
			stopped := 0
			for _, o := range log.Outcomes {
				if o.Samples == early && !o.Mixed {
					stopped++
				} else if o.Samples != r.Rollout.Samples {
					t.Errorf("a group of %d samples", o.Samples)
				}
			}
			if stopped != log.StoppedEarly || stopped == 0 {
				t.Errorf("%d groups were stopped early, %d are counted", stopped, log.StoppedEarly)
			}
			log.Groups = groups
		}
		logs = append(logs, log)
	}
	went := 0
	for p, g := range logs[1].Groups {
		whole := logs[0].Groups[p]
		for i, ro := range g.Rollouts {
			if !slices.Equal(ro.Tokens, whole.Rollouts[i].Tokens) || !slices.Equal(ro.LogProbs, whole.Rollouts[i].LogProbs) {
				t.Errorf("problem %d, sample %d: %v, without an early stop %v", p, i, ro.Tokens, whole.Rollouts[i].Tokens)
			}
		}
		begun := Group{Rollouts: whole.Rollouts[:2]}
		if n := len(g.Rollouts); n != 6 && begun.mixed() || n != 2 && !begun.mixed() {
			t.Errorf("problem %d: %d samples, whose first two differ: %v", p, n, begun.mixed())
		} else if n == 6 {
			went++
		}
	}
	t.Logf("%d of %d groups went on", went, len(logs[1].Groups))
}

func TestDiscardedTokensAreWasted(t *testing.T) {
	equal := Group{Rollouts: []*Rollout{{LogProbs: make([]float32, 5), Reward: 1}, {LogProbs: make([]float32, 5), Reward: 1}}}
	var m Metrics
	m.sampled(&StepLog{Groups: []Group{equal}, Discarded: 2, DiscardedTokens: 30})
	samples, _, err := weigh(GRPO(GRPOConfig{Std: true}), [][]*Rollout{equal.Rollouts}, [][]float32{{1, 1}}, LossSample, 5)
	if err != nil {
		t.Fatal(err)
	}
	m.advantages(samples)
	m.finish()
	if m.Sampled != 40 || m.Wasted != 1 || m.Discarded != 2 || m.Reward != 1 {
		t.Errorf("%+v", m)
	}
}

// TestCarriedTokensCountOnce follows a group from the step that sampled it to the one that is trained on it.
func TestCarriedTokensCountOnce(t *testing.T) {
	group := func(rewards ...float32) Group {
		var g Group
		for _, r := range rewards {
			g.Rollouts = append(g.Rollouts, &Rollout{LogProbs: make([]float32, 5), Reward: r})
		}
		return g
	}
	fresh, surplus := group(0, 1), group(1, 0)
	var m, next Metrics
	m.sampled(&StepLog{Groups: []Group{fresh}, Surplus: []Group{surplus}})
	for _, r := range surplus.Rollouts {
		r.Age++
	}
	next.sampled(&StepLog{Groups: []Group{surplus, fresh}})
	if m.Sampled != 20 || m.Carried != 0 || next.Sampled != 10 || next.Carried != 1 {
		t.Errorf("sampled %d with %d carried, then %d with %d", m.Sampled, m.Carried, next.Sampled, next.Carried)
	}
}

func TestGroupsThatDiffer(t *testing.T) {
	nan := float32(math.NaN())
	for _, tt := range []struct {
		rewards []float32
		want    bool
	}{
		{[]float32{1, 1, 1, 1}, false}, {[]float32{0, 0, 0, 0}, false}, {[]float32{1, 0, 0, 0}, true}, // case d38
		{[]float32{0.1, 0.1, 0.1}, false}, {[]float32{nan, nan}, false}, {[]float32{nan, 1, 1}, false}, {[]float32{1, nan, 1}, false}, {[]float32{nan, 1, 0}, true}, {nil, false},
	} {
		var g Group
		for _, r := range tt.rewards {
			g.Rollouts = append(g.Rollouts, &Rollout{Reward: r})
		}
		if g.mixed() != tt.want {
			t.Errorf("%v differ: %v", tt.rewards, g.mixed())
		}
	}
}
