// Package eval measures a model on problems with known answers: several samples of each, at one or more token budgets,
// with intervals. One run at the largest budget gives the scores at all of them: a sample at a smaller budget is its
// first tokens.
//
// A directory holds an evaluation: settings.json, samples.jsonl (every sample, in the order they were asked for),
// summary.json, summary.md and report.html. It can be gone on with after any interruption.
package eval

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"tandem/engine"
	"tandem/kernels"
	"tandem/trainer/env"
	"tandem/trainer/reward"
)

// Settings decide an evaluation; two of the same settings and weights give the same bits.
type Settings struct {
	Model       string   `json:"model"`
	Sets        []string `json:"sets"` // name=file
	Samples     int      `json:"samples"`
	Budgets     []int    `json:"budgets"` // tokens of a reply, ascending
	Template    string   `json:"template"`
	Grader      string   `json:"grader"`
	Temperature float32  `json:"temperature"`
	Seed        uint64   `json:"seed"`
	DType       string   `json:"dtype"`
}

// Check says what is wrong with the settings.
func (s Settings) Check() error {
	switch {
	case len(s.Sets) == 0:
		return errors.New("there is no data set")
	case s.Samples < 1:
		return fmt.Errorf("%d samples of a problem, want at least 1", s.Samples)
	case len(s.Budgets) == 0 || s.Budgets[0] < 1 || !slices.IsSorted(s.Budgets) || len(slices.Compact(slices.Clone(s.Budgets))) < len(s.Budgets):
		return fmt.Errorf("budgets %v, want positive numbers of tokens, ascending", s.Budgets)
	case !(s.Temperature >= 0):
		return fmt.Errorf("temperature %v, want 0 or more", s.Temperature)
	case s.Temperature == 0 && s.Samples > 1:
		return fmt.Errorf("%d samples at temperature 0 would be the same one", s.Samples)
	}
	return nil
}

// Largest is the largest budget.
func (s Settings) Largest() int { return s.Budgets[len(s.Budgets)-1] }

// A Set is problems under a name.
type Set struct {
	Name     string
	Problems []env.Problem
}

// A Sample is one reply and what it was worth at every budget.
type Sample struct {
	Set    string  `json:"set"`
	ID     int     `json:"id"` // of the problem
	Member int     `json:"member"`
	Answer string  `json:"answer"` // gold
	Text   string  `json:"text"`
	Tokens []int32 `json:"tokens"`
	Stop   string  `json:"stop"`
	Scores []Score `json:"scores"` // by budget
}

// A Score is what a sample was worth at one budget.
type Score struct {
	Right     bool   `json:"right"`
	Given     string `json:"given"`  // the answer, in the grader's normal form; "" is none
	Reason    string `json:"reason"` // why it is not right
	Tokens    int    `json:"tokens"`
	Truncated bool   `json:"truncated"`
}

// A Sampler turns problems into tokens, and tokens into replies and text.
type Sampler struct {
	Engine *engine.Engine
	Prompt func(env.Problem) ([]int32, error)
	Text   func([]int32) string
	Stop   []int32
	Grader reward.Grader
}

// Run samples what the directory does not hold yet. progress, which may be nil, hears how many samples are there.
func (s *Sampler) Run(ctx context.Context, d *Dir, sets []Set, progress func(done, total int)) error {
	cfg := d.Settings()
	jobs := s.jobs(cfg, sets)
	done := d.done()
	total := len(jobs)
	var open []*engine.Session
	defer func() {
		for _, session := range open {
			session.Close()
		}
	}()
	for i := done; i < total; i++ {
		for next := i + len(open); next < total && len(open) < ahead; next++ {
			session, err := s.open(cfg, jobs[next])
			if err != nil {
				return fmt.Errorf("evaluate %s, problem %d: %w", jobs[next].set, jobs[next].problem.ID, err)
			}
			open = append(open, session)
		}
		got, err := open[0].Next(ctx)
		open[0].Close()
		open = open[1:]
		if err == nil {
			err = d.add(s.sample(cfg, jobs[i], got))
		}
		if err != nil {
			return fmt.Errorf("evaluate %s, problem %d: %w", jobs[i].set, jobs[i].problem.ID, err)
		}
		if progress != nil {
			progress(i+1, total)
		}
	}
	return d.sync()
}

// ahead is the number of samples in the making; the engine decodes as many of them together as it can.
const ahead = 512

type job struct {
	set     string
	problem env.Problem
	member  int
	seed    uint64
}

// jobs lists the samples in the order in which they are written. The seed of each depends on its place alone, so that a
// smaller evaluation draws the same.
func (s *Sampler) jobs(cfg Settings, sets []Set) []job {
	var jobs []job
	for i, set := range sets {
		for _, p := range set.Problems {
			for m := range cfg.Samples {
				jobs = append(jobs, job{set.Name, p, m, kernels.Seed(cfg.Seed, uint32(i), uint32(p.ID), uint32(m), 0)})
			}
		}
	}
	return jobs
}

func (s *Sampler) open(cfg Settings, j job) (*engine.Session, error) {
	prompt, err := s.Prompt(j.problem)
	if err != nil {
		return nil, err
	}
	return s.Engine.Open(engine.Request{Tokens: prompt, Seed: j.seed, Params: engine.Params{
		MaxTokens: cfg.Largest(), Temperature: cfg.Temperature, Stop: s.Stop,
	}})
}

func (s *Sampler) sample(cfg Settings, j job, got engine.Sample) Sample {
	out := Sample{
		Set: j.set, ID: j.problem.ID, Member: j.member, Answer: j.problem.Answer,
		Text: s.Text(got.Tokens), Tokens: got.Tokens, Stop: string(got.Stop),
	}
	for _, b := range cfg.Budgets {
		out.Scores = append(out.Scores, s.score(got, b, j.problem.Answer))
	}
	return out
}

// score is what a run at this budget would have given: the first tokens of the sample, cut off unless it had stopped.
func (s *Sampler) score(got engine.Sample, budget int, answer string) Score {
	n := min(len(got.Tokens), budget)
	res := s.Grader.Grade(s.Text(got.Tokens[:n]), answer)
	return Score{
		Right: res.Score > 0, Given: res.Given, Reason: res.Reason,
		Tokens: n, Truncated: n < len(got.Tokens) || got.Stop == engine.StopLength,
	}
}
