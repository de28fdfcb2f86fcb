package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"tandem/engine"
	"tandem/tokenizer"
)

type chatOptions struct {
	modelFlags
	samplingFlags
	system, template string
	seed             uint64
	stops            *tokenizer.StopStrings
}

func newChatCmd() *cobra.Command {
	o := chatOptions{samplingFlags: samplingFlags{params: engine.Params{MaxTokens: 1024, Temperature: 0.7, TopP: 0.8, TopK: 20}}}
	cmd := &cobra.Command{
		Use:   "chat --model DIR",
		Short: "Talk with a model; a line is a message, /new starts again, /quit ends",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), os.Stdin, os.Stdout) },
	}
	f := cmd.Flags()
	o.modelFlags.register(f)
	o.samplingFlags.register(f)
	f.StringVar(&o.system, "system", "", "system message")
	f.StringVar(&o.template, "template", "default", "default or no-thinking")
	f.Uint64Var(&o.seed, "seed", 0, "of all draws")
	return cmd
}

func (o *chatOptions) run(ctx context.Context, in io.Reader, out io.Writer) error {
	m, err := o.open()
	if err != nil {
		return err
	}
	defer m.Close()
	if m.tokenizer == nil {
		return fmt.Errorf("chat: %s has no tokenizer.json", o.dir)
	}
	if o.template != "default" && o.template != "no-thinking" {
		return fmt.Errorf("chat: --template is %q, want default or no-thinking", o.template)
	}
	if err := o.check(); err != nil {
		return err
	}
	if o.stops, err = o.samplingFlags.stops(m); err != nil {
		return err
	}
	o.params.Stop = m.stops()
	e, err := m.engine([][]int32{make([]int32, m.context)}, 1, o.params)
	if err != nil {
		return err
	}
	defer e.Close()
	c := &conversation{o: o, m: m, e: e, out: out}
	defer c.end()
	lines := readLines(in)
	for {
		c.prompt(in)
		var l line
		select {
		case <-ctx.Done():
			return exitCode(interrupted)
		case l = <-lines:
		}
		if l.end {
			return l.err
		}
		switch text := strings.TrimSpace(l.text); text {
		case "":
		case "/quit":
			return nil
		case "/new":
			c.end()
		default:
			if err := c.say(ctx, text); ctx.Err() != nil {
				return exitCode(interrupted)
			} else if err != nil {
				return err
			}
		}
	}
}

// A line is one that was typed, or the end of the input.
type line struct {
	text string
	end  bool
	err  error
}

// readLines reads ahead by one line. Reading cannot be cancelled, so that its goroutine ends with the input or the program.
func readLines(in io.Reader) <-chan line {
	out := make(chan line)
	go func() {
		s := bufio.NewScanner(in)
		s.Buffer(nil, 1<<20)
		for s.Scan() {
			out <- line{text: s.Text()}
		}
		out <- line{end: true, err: s.Err()}
	}()
	return out
}

// A conversation keeps its session, and so its pages, between turns.
type conversation struct {
	o       *chatOptions
	m       *openModel
	e       *engine.Engine
	out     io.Writer
	session *engine.Session
	stream  *tokenizer.StopStream // of the reply
	last    int32                 // the reply's last token
}

// prompt invites a person to type.
func (c *conversation) prompt(in io.Reader) {
	if f, ok := in.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		fmt.Fprint(c.out, "> ")
	}
}

func (c *conversation) end() {
	if c.session != nil {
		c.session.Close()
		c.session = nil
	}
}

func (c *conversation) say(ctx context.Context, text string) error {
	opts := tokenizer.ChatOptions{AddGenerationPrompt: true}
	if c.o.template == "no-thinking" {
		opts.EnableThinking = new(bool)
	}
	user := tokenizer.Message{Role: "user", Content: text}
	err := c.open(user, opts)
	if err != nil {
		fmt.Fprintf(c.out, "(%v; /new starts again)\n", err)
		return nil
	}
	sample, err := c.session.Next(ctx)
	if err != nil {
		return err
	}
	c.last = sample.Tokens[len(sample.Tokens)-1]
	fmt.Fprint(c.out, c.stream.Flush())
	if sample.Stop == engine.StopLength {
		fmt.Fprint(c.out, " (cut off)")
	}
	fmt.Fprintln(c.out)
	return nil
}

// open begins a turn: with the whole template first, later with what follows the reply's own tokens.
func (c *conversation) open(user tokenizer.Message, opts tokenizer.ChatOptions) error {
	c.stream = c.o.stops.NewStream()
	if c.session != nil {
		tokens, err := c.m.tokenizer.Seam(c.last, []tokenizer.Message{user}, opts)
		if err != nil {
			return err
		}
		return c.session.Append(tokens, c.o.params.MaxTokens)
	}
	messages := []tokenizer.Message{user}
	if c.o.system != "" {
		messages = append([]tokenizer.Message{{Role: "system", Content: c.o.system}}, user)
	}
	tokens, err := c.m.tokenizer.EncodeChat(messages, opts)
	if err != nil {
		return err
	}
	if len(tokens) >= c.m.context {
		return fmt.Errorf("a message of %d tokens leaves no room for a reply in a context of %d", len(tokens), c.m.context)
	}
	c.session, err = c.e.Open(engine.Request{Tokens: tokens, Params: c.o.params, Seed: c.o.seed, Until: c.show})
	return err
}

// show prints what the last token of a reply adds to it. It is called after each.
func (c *conversation) show(turn []int32) (stop bool) {
	text, stop := c.stream.Push(turn[len(turn)-1])
	fmt.Fprint(c.out, text)
	return stop
}
