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
	"sync"

	"tandem/engine"
	"tandem/kernels"
	"tandem/trainer"
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
	System      string   `json:"system,omitempty"` // a message before every problem
	Suffix      string   `json:"suffix,omitempty"` // text after every problem
	Tools       *Tools   `json:"tools,omitempty"`  // that the model may call
}

// Tools say which tool the model may call, and what that may take. A budget counts what the tool says, too.
type Tools struct {
	Name    string  `json:"name"`
	Turns   int     `json:"turns"`
	Calls   int     `json:"calls"`
	Output  int     `json:"output"`  // tokens of what one call is answered
	Seconds float64 `json:"seconds"` // of one call
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
	Set    string   `json:"set"`
	ID     int      `json:"id"` // of the problem
	Member int      `json:"member"`
	Answer string   `json:"answer"` // gold
	Text   string   `json:"text"`
	Tokens []int32  `json:"tokens"`
	Stop   string   `json:"stop"`
	Spans  [][2]int `json:"spans,omitempty"` // of Tokens, those of each turn of the model; one turn has all of them
	Calls  int      `json:"calls,omitempty"` // of tools
	Failed int      `json:"failed_calls,omitempty"`
	Scores []Score  `json:"scores"` // by budget
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
	Env    env.Env // asks the problems, and answers the calls of tools
	Text   func([]int32) string
	Stop   []int32
	Grader reward.Grader

	// Calls says that a turn of this text calls a tool, so that an answer beside the call is not final. Nil is never.
	Calls func(text string) bool
}

// Run samples what the directory does not hold yet. progress, which may be nil, hears how many samples are there.
func (s *Sampler) Run(ctx context.Context, d *Dir, sets []Set, progress func(done, total int)) error {
	cfg := d.Settings()
	jobs := s.jobs(cfg, sets)
	done := d.done()
	total := len(jobs)
	ctx, cancel := context.WithCancel(ctx)
	var playing sync.WaitGroup
	defer playing.Wait()
	defer cancel()
	player := trainer.NewPlayer(s.Engine, s.Env)
	var open []chan played
	for i := done; i < total; i++ {
		for next := i + len(open); next < total && len(open) < ahead; next++ {
			e, err := s.open(player, cfg, jobs[next])
			if err != nil {
				return fmt.Errorf("evaluate %s, problem %d: %w", jobs[next].set, jobs[next].problem.ID, err)
			}
			over := make(chan played, 1)
			open = append(open, over)
			playing.Go(func() {
				r, err := e.Play(ctx)
				over <- played{r, err}
			})
		}
		got := <-open[0]
		open = open[1:]
		err := got.err
		if err == nil {
			err = d.add(s.sample(cfg, jobs[i], got.rollout))
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

// played is an episode that is over.
type played struct {
	rollout *trainer.Rollout
	err     error
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

func (s *Sampler) open(p *trainer.Player, cfg Settings, j job) (*trainer.Episode, error) {
	n := cfg.Largest()
	return p.Open(j.problem, trainer.Sampling{
		Params: engine.Params{MaxTokens: n, Temperature: cfg.Temperature, Stop: s.Stop}, Total: n, After: n,
	}, j.seed)
}

func (s *Sampler) sample(cfg Settings, j job, got *trainer.Rollout) Sample {
	prompt := got.Spans[0][0]
	out := Sample{
		Set: j.set, ID: j.problem.ID, Member: j.member, Answer: j.problem.Answer,
		Text: s.Text(got.Tokens[prompt:]), Tokens: got.Tokens[prompt:], Stop: got.Stop, Calls: len(got.Calls),
	}
	for _, c := range got.Calls {
		if c.Failure != "" {
			out.Failed++
		}
	}
	spans := make([][2]int, len(got.Spans))
	for i, at := range got.Spans {
		spans[i] = [2]int{at[0] - prompt, at[1] - prompt}
	}
	for _, b := range cfg.Budgets {
		out.Scores = append(out.Scores, s.score(out.Tokens, spans, got.Truncated(), b, j.problem.Answer))
	}
	if len(spans) > 1 {
		out.Spans = spans
	}
	return out
}

// score is what the first tokens of a sample are worth, cut off unless it had stopped: the text of the turn that they end in.
// Where they end in what a tool said, or in a turn with a call, there is no answer.
func (s *Sampler) score(tokens []int32, spans [][2]int, truncated bool, budget int, answer string) Score {
	n := min(len(tokens), budget)
	text := ""
	for _, at := range spans {
		if at[0] < n {
			text = s.Text(tokens[at[0]:min(at[1], n)])
			if n > at[1] || s.Calls != nil && s.Calls(text) {
				text = ""
			}
		}
	}
	res := s.Grader.Grade(text, answer)
	return Score{
		Right: res.Score > 0, Given: res.Given, Reason: res.Reason,
		Tokens: n, Truncated: n < len(tokens) || truncated,
	}
}
