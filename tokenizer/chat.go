package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ardanlabs/jinja"
)

// ChatOptions are what a template gets beside the messages.
type ChatOptions struct {
	Tools               []json.RawMessage // JSON schemas of functions; their keys stay in order
	AddGenerationPrompt bool              // end with what opens the assistant's turn
	EnableThinking      *bool             // nil: the template's own default
	Extra               map[string]json.RawMessage
	Now                 time.Time // what strftime_now tells; zero is the time of the call
}

// ErrNoTemplate says that a directory has no chat template.
var ErrNoTemplate = errors.New("the model has no chat template")

// Chat renders a conversation by the model's own template, to the text that apply_chat_template of transformers gives.
// A template's raise_exception, a conversation without messages and a template that does not end are errors.
func (t *Tokenizer) Chat(messages []Message, o ChatOptions) (string, error) {
	return t.chat(messages, o, func(text string) string { return text })
}

// EncodeChat returns the tokens of a rendered conversation. The template's control tokens are tokens; what spells one in
// the tools, the options and the messages of all but the assistant stays text, byte for byte the same prompt. (A template
// that looks for such a spelling in a user's text does not find it.)
func (t *Tokenizer) EncodeChat(messages []Message, o ChatOptions) ([]int32, error) {
	text, err := t.chat(messages, o, t.guard)
	if err != nil {
		return nil, err
	}
	return t.encodeGuarded(text), nil
}

func (t *Tokenizer) encodeGuarded(text string) []int32 {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.native == nil {
		panic("tokenizer: EncodeChat after Close")
	}
	return t.encodeParsed(text, unguard)
}

// chat renders with every string that is not the assistant's passed through text.
func (t *Tokenizer) chat(messages []Message, o ChatOptions, text func(string) string) (string, error) {
	if len(messages) == 0 {
		return "", errors.New("render chat: there are no messages")
	}
	tmpl := t.templates["default"]
	if named := t.templates["tool_use"]; named != nil && len(o.Tools) > 0 {
		tmpl = named
	}
	if tmpl == nil {
		return "", fmt.Errorf("render chat: %w", ErrNoTemplate)
	}
	variables, err := t.chatVariables(messages, o, text)
	if err != nil {
		return "", fmt.Errorf("render chat: %w", err)
	}
	now := o.Now
	if now.IsZero() {
		now = time.Now()
	}
	rendered, err := tmpl.render(variables, now)
	if err != nil {
		return "", fmt.Errorf("render chat: %w", err)
	}
	return rendered, nil
}

func (t *Tokenizer) chatVariables(messages []Message, o ChatOptions, text func(string) string) (map[string]jinja.Value, error) {
	variables := map[string]jinja.Value{}
	for name, token := range t.variables {
		variables[name] = jinja.NewString(token)
	}
	turns := make([]jinja.Value, len(messages))
	for i, m := range messages {
		of := text
		if m.Role == "assistant" {
			of = func(text string) string { return text }
		}
		var err error
		if turns[i], err = m.value(of); err != nil {
			return nil, fmt.Errorf("message %d: %w", i+1, err)
		}
	}
	variables["messages"] = jinja.NewList(turns)
	variables["tools"], variables["documents"] = jinja.None(), jinja.None()
	if len(o.Tools) > 0 {
		tools := make([]jinja.Value, len(o.Tools))
		for i, tool := range o.Tools {
			var err error
			if tools[i], err = jsonValue(tool, text); err != nil {
				return nil, fmt.Errorf("tool %d: %w", i+1, err)
			}
		}
		variables["tools"] = jinja.NewList(tools)
	}
	variables["add_generation_prompt"] = jinja.NewBool(o.AddGenerationPrompt)
	if o.EnableThinking != nil {
		variables["enable_thinking"] = jinja.NewBool(*o.EnableThinking)
	}
	for name, data := range o.Extra {
		v, err := jsonValue(data, text)
		if err != nil {
			return nil, fmt.Errorf("option %q: %w", name, err)
		}
		variables[name] = v
	}
	return variables, nil
}

// replyMark stands for what the model wrote when Seam asks the template what follows it.
const replyMark = "\U000ffffd"

// Seam returns the tokens that follow a reply in its conversation: what closes the assistant's turn, the messages that come
// next (tool results or a user's), and, if asked for, what opens the next turn. They are the template's text after the
// reply's own tokens, so that sampled tokens stay as sampled. last is the reply's last token: where it is the one that
// closes a turn it is not repeated; a reply that was cut off, even inside a call, is closed first.
func (t *Tokenizer) Seam(last int32, next []Message, o ChatOptions) ([]int32, error) {
	messages := append([]Message{{Role: "user", Content: "."}, {Role: "assistant", Content: replyMark}}, next...)
	text, err := t.chat(messages, o, t.guard)
	if err != nil {
		return nil, err
	}
	_, after, found := strings.Cut(text, replyMark)
	if !found {
		return nil, errors.New("render chat: the template does not show the assistant's text, so nothing can be put after it")
	}
	ids := t.encodeGuarded(after)
	if len(ids) > 0 && ids[0] == last {
		ids = ids[1:]
	}
	return ids, nil
}
