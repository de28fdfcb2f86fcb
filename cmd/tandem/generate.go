package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"tandem/engine"
	"tandem/kernels"
	"tandem/kernels/device"
	"tandem/model"
	"tandem/tokenizer"
)

type generateOptions struct {
	modelFlags
	prompts, out, template string
	n                      int
	params                 engine.Params
	seed                   uint64
	ignoreEOS              bool
}

func newGenerateCmd() *cobra.Command {
	var o generateOptions
	cmd := &cobra.Command{
		Use:   "generate --model DIR --prompts FILE",
		Short: "Sample replies to prompts, with the log-prob of every token",
		Long: `Sample replies to prompts.

A line of --prompts is a JSON object with one of
  prompt         text; a user's message, or as it is under --template none
  messages       a conversation, and tools, if any
  prompt_tokens  token ids
A line of --out is {"prompt", "member", "prompt_tokens", "tokens", "logprobs", "text", "stop"}, in prompt, then member
order. Log-probs are those of the full distribution at the temperature (greedy: at 1).`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	o.register(f)
	f.StringVar(&o.prompts, "prompts", "-", "JSON Lines, - for standard input")
	f.StringVar(&o.out, "out", "-", "JSON Lines, - for standard output")
	f.StringVar(&o.template, "template", "default", "chat template: none, default or no-thinking")
	f.IntVar(&o.n, "n", 1, "replies to each prompt")
	f.IntVar(&o.params.MaxTokens, "max-tokens", 256, "tokens of a reply at most")
	f.Float32Var(&o.params.Temperature, "temperature", 1, "0 is greedy")
	f.Float32Var(&o.params.TopP, "top-p", 1, "keep the most probable tokens up to this probability")
	f.IntVar(&o.params.TopK, "top-k", 0, "keep this many tokens (0: all)")
	f.Float32Var(&o.params.MinP, "min-p", 0, "keep tokens of at least this share of the most probable one's probability")
	f.Uint64Var(&o.seed, "seed", 0, "of all draws")
	f.BoolVar(&o.ignoreEOS, "ignore-eos", false, "go on to --max-tokens whatever is drawn")
	return cmd
}

func (o *generateOptions) run(ctx context.Context) error {
	if o.n < 1 {
		return fmt.Errorf("--n is %d, want at least 1", o.n)
	}
	if !slices.Contains(templates(), o.template) {
		return fmt.Errorf("--template is %q, want one of %q", o.template, templates())
	}
	if err := checkParams(o.params); err != nil {
		return err
	}
	m, err := o.open()
	if err != nil {
		return err
	}
	defer m.Close()
	prompts, err := o.read(m)
	if err != nil {
		return fmt.Errorf("read %s: %w", o.prompts, err)
	}
	if !o.ignoreEOS {
		o.params.Stop = m.stops()
	}
	e, err := m.engine(prompts, o.n, o.params.MaxTokens)
	if err != nil {
		return err
	}
	defer e.Close()
	out, err := openOut(o.out)
	if err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	err = o.sample(ctx, m, e, prompts, out)
	if e := out.Close(); err == nil && e != nil {
		err = fmt.Errorf("write samples: %w", e)
	}
	return err
}

// read gives the tokens of every prompt.
func (o *generateOptions) read(m *openModel) ([][]int32, error) {
	in, err := openIn(o.prompts)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	var prompts [][]int32
	err = eachLine(in, func(_ int, line []byte) error {
		var r promptRow
		if err := json.Unmarshal(line, &r); err != nil {
			return err
		}
		tokens, err := m.encode(r, o.template)
		if err != nil {
			return err
		}
		if err := m.checkSequence(tokens); err != nil {
			return fmt.Errorf("prompt: %w", err)
		}
		if len(tokens) == m.context {
			return fmt.Errorf("a prompt of %d tokens leaves no room for a reply in a context of %d; --context raises it", len(tokens), m.context)
		}
		prompts = append(prompts, tokens)
		return nil
	})
	if err == nil && len(prompts) == 0 {
		err = errors.New("there are no prompts")
	}
	return prompts, err
}

// encode gives the tokens of a prompt.
func (m *openModel) encode(r promptRow, template string) ([]int32, error) {
	given := 0
	for _, is := range []bool{r.Prompt != nil, r.Messages != nil, r.PromptTokens != nil} {
		if is {
			given++
		}
	}
	if given != 1 {
		return nil, fmt.Errorf("%d of prompt, messages and prompt_tokens are given, want one", given)
	}
	if r.PromptTokens != nil {
		return r.PromptTokens, nil
	}
	if m.tokenizer == nil {
		return nil, errors.New("the model has no tokenizer.json: only prompt_tokens can be used")
	}
	if template == "none" {
		if r.Prompt == nil {
			return nil, errors.New("messages need a template; --template is none")
		}
		return m.tokenizer.Encode(*r.Prompt, tokenizer.ParseSpecial), nil
	}
	o := tokenizer.ChatOptions{Tools: r.Tools, AddGenerationPrompt: true}
	if template == "no-thinking" {
		o.EnableThinking = new(bool)
	}
	if r.Prompt != nil {
		r.Messages = []tokenizer.Message{{Role: "user", Content: *r.Prompt}}
	}
	return m.tokenizer.EncodeChat(r.Messages, o)
}

func templates() []string { return []string{"none", "default", "no-thinking"} }

// stops are the tokens that end a reply: those of the model and those of its tokenizer.
func (m *openModel) stops() []int32 {
	stop := slices.Clone(m.weights.Config.EOS)
	if m.tokenizer != nil {
		stop = append(stop, m.tokenizer.EOS()...)
	}
	slices.Sort(stop)
	return slices.Compact(stop)
}

// batch is the number of sequences decoded together at most.
const batch = 128

// engine makes one for prompts of these lengths: all pages that they need, if the memory is there.
func (m *openModel) engine(prompts [][]int32, n, maxTokens int) (*engine.Engine, error) {
	longest := 0
	for _, p := range prompts {
		longest = max(longest, len(p))
	}
	cfg := engine.Config{Seqs: min(batch, n*len(prompts)), Context: min(m.context, longest+maxTokens)}
	cfg.Rows = max(512, cfg.Seqs)
	each := model.PagesFor(cfg.Context)
	free, err := device.FreeMemory()
	if err != nil {
		return nil, err
	}
	fit := free / 2 / model.PageBytes(m.weights.Config, m.weights.Arena.DType)
	cfg.Pages = max(each, min(cfg.Seqs*each, fit))
	return engine.New(m.dev, m.weights, cfg)
}

// sample writes the replies in order while it keeps the engine busy with later ones.
func (o *generateOptions) sample(ctx context.Context, m *openModel, e *engine.Engine, prompts [][]int32, out *outFile) error {
	total := len(prompts) * o.n
	bar := newProgress(os.Stderr, "generate", 0, total, "replies")
	defer bar.done()
	var open []*engine.Session
	defer func() {
		for _, s := range open {
			s.Close()
		}
	}()
	opened := 0
	for i := range total {
		for ; opened < total && len(open) < 4*batch; opened++ {
			s, err := e.Open(engine.Request{
				Tokens: prompts[opened/o.n], Params: o.params, Seed: kernels.Seed(o.seed, 0, uint32(opened/o.n), uint32(opened%o.n), 0),
			})
			if err != nil {
				return fmt.Errorf("prompt %d: %w", opened/o.n, err)
			}
			open = append(open, s)
		}
		sample, err := open[0].Next(ctx)
		open[0].Close()
		open = open[1:]
		if err != nil {
			return fmt.Errorf("prompt %d: %w", i/o.n, err)
		}
		row := sampleRow{Prompt: i / o.n, Member: i % o.n, PromptTokens: prompts[i/o.n], Tokens: sample.Tokens, LogProbs: sample.LogProbs, Stop: string(sample.Stop)}
		if m.tokenizer != nil {
			row.Text = m.tokenizer.Decode(sample.Tokens, false)
		}
		if err := out.row(row); err != nil {
			return fmt.Errorf("write samples: %w", err)
		}
		bar.set(i + 1)
	}
	return nil
}
