package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"tandem/kernels"
	"tandem/kernels/device"
	"tandem/model"
	"tandem/tokenizer"
	"tandem/trainer"
	"tandem/trainer/env"
	"tandem/trainer/recipes"
	"tandem/trainer/reward"
	"tandem/trainer/run"
	"tandem/trainer/tool"
)

// A setup is what a recipe names, loaded.
type setup struct {
	weights *model.Weights
	x       *kernels.Transfer
	tok     *tokenizer.Tokenizer
	tokDir  string
	task    *env.Task
	sandbox *tool.Sandbox // nil where the recipe has no tool
	source  string        // of the weights, for people
	plan    trainer.Plan
}

func openSetup(dev kernels.Device, r trainer.Recipe, dir *run.Dir, tools toolFlags) (*setup, error) {
	s := &setup{source: source(r)}
	r, stands, err := standing(r, dir)
	if err != nil {
		return nil, err
	}
	if missing := missingFiles(r); len(missing) > 0 {
		return nil, missingError(r, missing)
	}
	if s.tok, s.tokDir, err = openTokenizer(r, filepath.Join(dir.Path(), "tokenizer")); err != nil {
		return nil, err
	}
	if s.sandbox, err = tools.open(r.Tools); err == nil {
		err = s.load(dev, r, stands)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

func (s *setup) close() error {
	s.tok.Close()
	if s.sandbox == nil {
		return nil
	}
	return s.sandbox.Close()
}

// openTokenizer loads the recipe's tokenizer; that of the demonstrations is written to a directory first.
func openTokenizer(r trainer.Recipe, demo string) (tok *tokenizer.Tokenizer, dir string, err error) {
	switch dir = r.Model.Tokenizer; dir {
	case "":
		dir = r.Model.Dir
	case "demo", "demo-tools":
		of := dir
		dir = demo
		if err := recipes.WriteTokenizer(of, dir); err != nil {
			return nil, dir, err
		}
	}
	tok, err = tokenizer.Load(dir)
	return tok, dir, err
}

// load makes the task and the weights, which have no values yet where the run's full state has them.
func (s *setup) load(dev kernels.Device, r trainer.Recipe, stands bool) error {
	c, err := readShape(r, s.tok)
	if err != nil {
		return err
	}
	d, err := parseDType(r.Model.DType)
	if err != nil {
		return err
	}
	if err := device.Holds(dev, d); err != nil {
		return err
	}
	if s.plan, err = placeHere(dev, r, c, d); err != nil {
		return err
	}
	if s.task, err = newTask(r, s.tok, s.sandbox); err != nil {
		return err
	}
	if err := sameTokens(r.Teacher.Dir, s.tok, c.Live); err != nil {
		return fmt.Errorf("teacher: %w", err)
	}
	if s.x, err = kernels.NewTransfer(dev); err != nil {
		return err
	}
	if r.Model.Dir != "" && !stands {
		s.weights, err = loadWeights(dev, s.x, c, d, r.Model.Context, r.Model.Dir)
		return err
	}
	if s.weights, err = model.NewWeights(dev, c, d, r.Model.Context); err != nil || stands {
		return err
	}
	return model.Random(s.x, s.weights, r.Seed)
}

// readShape is the config of the recipe's model.
func readShape(r trainer.Recipe, tok *tokenizer.Tokenizer) (c model.Config, err error) {
	if r.Model.Dir != "" {
		c, err = model.ReadConfig(r.Model.Dir)
	} else {
		c, err = model.Shape(r.Model.Shape)
	}
	if err != nil {
		return c, err
	}
	if err := isShape(c, r); err != nil {
		return c, err
	}
	if r.Model.Dir == "" {
		c.Vocab = tok.VocabSize() // new weights need no rows that no token has
		c.EOS = tok.EOS()
	}
	c.Live = min(c.Vocab, tok.VocabSize())
	if r.Model.Context > c.Context() {
		return c, fmt.Errorf("model.context is %d, but the model's positions end at %d", r.Model.Context, c.Context())
	}
	return c, nil
}

// isShape holds a directory to the shape that its recipe was made for.
func isShape(c model.Config, r trainer.Recipe) error {
	if r.Model.Dir == "" || r.Model.Shape == "" {
		return nil
	}
	want, err := model.Shape(r.Model.Shape)
	if err != nil {
		return err
	}
	sizes := func(c model.Config) [7]int {
		return [7]int{c.Hidden, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.MLP, c.Vocab}
	}
	if got, want := sizes(c), sizes(want); got != want {
		return fmt.Errorf("%s has width, layers, heads, key heads, head dim, MLP width and vocabulary %v, but model.shape %q has %v: --set model.shape= takes any",
			r.Model.Dir, got, r.Model.Shape, want)
	}
	return nil
}

// newTask makes the task that the recipe names. Programs run in the sandbox, which may be nil where no episode is played.
func newTask(r trainer.Recipe, tok *tokenizer.Tokenizer, sandbox *tool.Sandbox) (*env.Task, error) {
	g, err := reward.New(r.Data.Grader)
	if err != nil {
		return nil, err
	}
	if r.Data.Reward != "score" {
		g = env.Signed{Grader: g}
	}
	p := env.Prompting{Template: r.Model.Template, System: r.Data.System, Suffix: r.Data.Suffix}
	var e env.Env = env.NewSingle(tok, p, g)
	var tools *env.Tools
	if r.Tools.Name != "" {
		tools = newTools(r, tok, p, g, sandbox)
		e = tools
	}
	var task *env.Task
	switch r.Data.Task {
	case "addition":
		task, err = env.Addition(tok, e)
	case "multiplication":
		task, err = env.Multiplication(tok, tools)
	default:
		return readTask(r, tok, e, g)
	}
	if err == nil {
		err = fitsContext(e, task.Problems[0], nil, r.Model.Context) // all of one length
	}
	return task, err
}

// readTask reads the recipe's files, and holds every row to what the grader and the context can take.
func readTask(r trainer.Recipe, tok *tokenizer.Tokenizer, e env.Env, g reward.Grader) (*env.Task, error) {
	cols := env.Columns{Problem: r.Data.Problem, Answer: r.Data.Answer}
	var problems, heldOut, demonstrations env.Data
	for _, f := range []struct {
		spec string
		cols env.Columns
		to   *env.Data
	}{
		{r.Data.Train, cols, &problems}, {r.Data.HeldOut, cols, &heldOut},
		{r.Warmup.Data, env.Columns{Problem: r.Data.Problem, Reply: "reply"}, &demonstrations},
	} {
		if f.spec == "" {
			continue
		}
		var err error
		if *f.to, err = env.ReadData(f.spec, f.cols); err != nil {
			return nil, err
		}
		if n := f.to.Dropped; n > 0 {
			fmt.Printf("%s: %d rows without an answer are left out, %d remain\n", f.spec, n, len(f.to.Problems))
		}
		for _, p := range f.to.Problems {
			if f.cols.Reply == "" {
				err = g.Check(p.Answer)
			}
			if err == nil {
				err = fitsContext(e, p, tok, r.Model.Context)
			}
			if err != nil {
				return nil, fmt.Errorf("%s: row %d: %w", f.spec, p.ID+1, err)
			}
		}
	}
	warnOfTraps(r, problems)
	return env.FromFiles(tok, e, problems, heldOut, demonstrations)
}

// warnOfTraps says where the recipe's grader would waste the run on this data and template.
func warnOfTraps(r trainer.Recipe, d env.Data) {
	labels := make([]string, len(d.Problems))
	for i, p := range d.Problems {
		labels[i] = p.Answer
	}
	thinking := r.Model.Template == "thinking" || r.Model.Template == "default"
	for _, trap := range reward.Traps(r.Data.Grader, labels, thinking) {
		fmt.Fprintln(os.Stderr, "tandem: note:", trap)
	}
}

// fitsContext refuses a prompt that leaves no room for a reply, or for the demonstration that comes with it.
func fitsContext(e env.Env, p env.Problem, tok *tokenizer.Tokenizer, context int) error {
	ep, err := e.Start(p)
	if err != nil {
		return err
	}
	n := len(ep.Tokens)
	if n >= context {
		return fmt.Errorf("the prompt has %d tokens, which leaves no room for a reply in model.context, %d", n, context)
	}
	if p.Reply == "" {
		return nil
	}
	if reply := len(tok.Encode(p.Reply, tokenizer.ParseSpecial)) + 1; n+reply > context { // and the token that ends it
		return fmt.Errorf("a prompt of %d tokens and a reply of %d exceed model.context, %d", n, reply, context)
	}
	return nil
}

// sameTokens refuses a teacher whose tokens are not the model's first live ones: it would be asked about other text.
func sameTokens(dir string, tok *tokenizer.Tokenizer, live int) error {
	if dir == "" {
		return nil
	}
	theirs, err := loadTokenizer(dir)
	if theirs == nil || err != nil {
		return err
	}
	defer theirs.Close()
	for id := range int32(live) {
		if a, b := tok.TokenBytes(id), theirs.TokenBytes(id); !bytes.Equal(a, b) {
			return fmt.Errorf("token %d is %q in %s, and %q for the model", id, b, dir, a)
		}
	}
	return nil
}

// export writes the trained model.
func (s *setup) export(dir string, facts [][2]string) error {
	return s.weights.Save(s.x, dir, model.Card{From: s.tokDir, Facts: facts})
}
