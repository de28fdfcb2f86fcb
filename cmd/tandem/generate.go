package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"tandem/engine"
	"tandem/kernels"
	"tandem/kernels/device"
	"tandem/model"
	"tandem/tokenizer"
)

type generateOptions struct {
	modelFlags
	samplingFlags
	prompts, out, template string
	n                      int
	seed                   uint64
	ignoreEOS              bool
	timeout                time.Duration
}

func newGenerateCmd() *cobra.Command {
	o := generateOptions{samplingFlags: samplingFlags{params: engine.Params{MaxTokens: 256, Temperature: 1, TopP: 1}}}
	cmd := &cobra.Command{
		Use:   "generate --model DIR --prompts FILE",
		Short: "Sample replies to prompts, with the log-prob of every token",
		Long: `Sample replies to prompts.

A line of --prompts is a JSON object with one of
  prompt         text; a user's message, or as it is under --template none
  messages       a conversation, and tools, if any
  prompt_tokens  token ids
A line of --out is {"prompt", "member", "prompt_tokens", "tokens", "logprobs", "text", "stop"}, in prompt, then member
order. Log-probs are those of the full distribution at the temperature (greedy: at 1), before bias, penalties and filters.
--top-logprobs adds "top": for each token the most probable ones in its place, {"tokens", "logprobs"}. "stop" is stop (a
stop token, the last one), stop_string, length, or deadline.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	f := cmd.Flags()
	o.modelFlags.register(f)
	o.samplingFlags.register(f)
	f.StringVar(&o.prompts, "prompts", "-", "JSON Lines, - for standard input")
	f.StringVar(&o.out, "out", "-", "JSON Lines, - for standard output")
	f.StringVar(&o.template, "template", "default", "chat template: none, default or no-thinking")
	f.IntVar(&o.n, "n", 1, "replies to each prompt")
	f.IntVar(&o.params.Top, "top-logprobs", 0, "list this many of the most probable tokens beside each")
	f.DurationVar(&o.timeout, "timeout", 0, "end a reply this long after it was asked for, with what there is (0: never)")
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
	if err := o.check(); err != nil {
		return err
	}
	if o.timeout < 0 {
		return fmt.Errorf("--timeout is %v, want 0 (never) or more", o.timeout)
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
	stops, err := o.stops(m)
	if err != nil {
		return err
	}
	e, err := m.engine(prompts, o.n, o.params)
	if err != nil {
		return err
	}
	defer e.Close()
	out, err := openOut(o.out)
	if err != nil {
		return fmt.Errorf("write samples: %w", err)
	}
	err = o.sample(ctx, m, e, stops, prompts, out)
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
func (m *openModel) engine(prompts [][]int32, n int, p engine.Params) (*engine.Engine, error) {
	longest := 0
	for _, p := range prompts {
		longest = max(longest, len(p))
	}
	cfg := engine.Config{Seqs: min(batch, n*len(prompts)), Context: min(m.context, longest+p.MaxTokens)}
	cfg.Rows = max(512, cfg.Seqs)
	each := model.PagesFor(cfg.Context)
	free, err := device.Free(m.dev)
	if err != nil {
		return nil, err
	}
	fit := free / 2 / model.PageBytes(m.weights.Config, m.weights.Arena.DType)
	cfg.Pages = max(each, min(cfg.Seqs*each, fit))
	return engine.New(m.dev, m.weights, cfg.For(p))
}

// sample writes the replies in order while it keeps the engine busy with later ones.
func (o *generateOptions) sample(ctx context.Context, m *openModel, e *engine.Engine, stops *tokenizer.StopStrings, prompts [][]int32, out *outFile) error {
	total := len(prompts) * o.n
	bar := newProgress(os.Stderr, "generate", 0, total, "replies")
	defer bar.done()
	var open []*engine.Session
	defer func() {
		for _, s := range open {
			s.Close()
		}
	}()
	asked := 0
	for i := range total {
		for ; asked < len(prompts) && len(open) < 4*batch; asked++ {
			group, err := e.OpenGroup(o.requests(asked, prompts[asked], stops))
			if err != nil {
				return fmt.Errorf("prompt %d: %w", asked, err)
			}
			open = append(open, group...)
		}
		sample, err := open[0].Next(ctx)
		open[0].Close()
		open = open[1:]
		if err != nil {
			return fmt.Errorf("prompt %d: %w", i/o.n, err)
		}
		row := newSampleRow(sample, stops)
		row.Prompt, row.Member, row.PromptTokens = i/o.n, i%o.n, prompts[i/o.n]
		if err := out.row(row); err != nil {
			return fmt.Errorf("write samples: %w", err)
		}
		bar.set(i + 1)
	}
	return nil
}

// requests are those of all members of a prompt.
func (o *generateOptions) requests(prompt int, tokens []int32, stops *tokenizer.StopStrings) []engine.Request {
	group := make([]engine.Request, o.n)
	for member := range group {
		r := engine.Request{Tokens: tokens, Params: o.params, Seed: kernels.Seed(o.seed, 0, uint32(prompt), uint32(member), 0)}
		if len(o.stop) > 0 {
			r.Until = stops.Until()
		}
		if o.timeout > 0 {
			r.Deadline = time.Now().Add(o.timeout)
		}
		group[member] = r
	}
	return group
}

// newSampleRow is what there is to say of a sample itself.
func newSampleRow(s engine.Sample, stops *tokenizer.StopStrings) sampleRow {
	row := sampleRow{Tokens: s.Tokens, LogProbs: s.LogProbs, Stop: string(s.Stop)}
	if row.Tokens == nil {
		row.Tokens = []int32{} // a deadline may come before the first
	}
	if s.Stop == engine.StopUntil {
		row.Stop = "stop_string"
	}
	if stops != nil {
		row.Text, _ = stops.Cut(s.Tokens)
	}
	for _, list := range s.Top {
		var t topRow
		for _, l := range list {
			t.Tokens, t.LogProbs = append(t.Tokens, l.Token), append(t.LogProbs, l.LogProb)
		}
		row.Top = append(row.Top, t)
	}
	return row
}
