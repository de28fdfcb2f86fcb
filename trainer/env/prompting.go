package env

import (
	"encoding/json"
	"errors"
	"fmt"

	"tandem/tokenizer"
)

// Prompting says how a problem becomes a prompt.
type Prompting struct {
	Template string            // default, thinking, no-thinking, or none: the text as it is
	System   string            // a message before every problem; "" is none
	Suffix   string            // text after every problem
	Tools    []json.RawMessage // JSON schemas of the functions on offer
}

// start is an episode that has said the problem.
func (p Prompting) start(tok *tokenizer.Tokenizer, of Problem) (*Episode, error) {
	tokens, err := p.tokens(tok, of.Text)
	if err != nil {
		return nil, fmt.Errorf("prompt: %w", err)
	}
	if len(tokens) == 0 {
		return nil, errors.New("prompt: it has no tokens")
	}
	return &Episode{Problem: of, Tokens: tokens}, nil
}

func (p Prompting) tokens(tok *tokenizer.Tokenizer, text string) ([]int32, error) {
	text += p.Suffix
	if p.Template == "none" {
		return tok.Encode(text, tokenizer.SpecialAsText), nil
	}
	var messages []tokenizer.Message
	if p.System != "" {
		messages = append(messages, tokenizer.Message{Role: "system", Content: p.System})
	}
	messages = append(messages, tokenizer.Message{Role: "user", Content: text})
	return tok.EncodeChat(messages, p.options())
}

// options of the template; every prompt ends with what opens a turn of the model.
func (p Prompting) options() tokenizer.ChatOptions {
	o := tokenizer.ChatOptions{AddGenerationPrompt: true, Tools: p.Tools}
	if p.Template != "default" {
		thinks := p.Template == "thinking"
		o.EnableThinking = &thinks
	}
	return o
}

// seam is what follows a reply: what closes its turn, the messages, and what opens the next turn.
func (p Prompting) seam(tok *tokenizer.Tokenizer, r Reply, next ...tokenizer.Message) ([]int32, error) {
	if p.Template == "none" {
		return nil, errors.New("go on after a reply: the template is none, which has no turns")
	}
	last := int32(-1)
	if n := len(r.Tokens); n > 0 {
		last = r.Tokens[n-1]
	}
	tokens, err := tok.Seam(last, next, p.options())
	if err != nil {
		return nil, fmt.Errorf("go on after a reply: %w", err)
	}
	return tokens, nil
}
