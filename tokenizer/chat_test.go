package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

func TestEncodeChat(t *testing.T) {
	eachDirectory(t, func(t *testing.T, tok *Tokenizer, name string) {
		for i, r := range golden[chatRow](t, "chat_"+name) {
			if r.Error != "" || slices.ContainsFunc(r.Messages, func(m Message) bool { return strings.HasPrefix(m.Content, "<tool_response>") }) {
				continue // a template that looks for the tag in a user's text does not find it
			}
			ids, err := tok.EncodeChat(r.Messages, r.options())
			if err != nil {
				t.Fatalf("row %d: %v", i+1, err)
			}
			if got := tok.Decode(ids, true); got != r.Text && got != normalised(tok, r.Text) {
				t.Fatalf("row %d: %s", i+1, difference(got, r.Text))
			}
		}
	})
}

// normalised is text after the tokenizer's normaliser.
func normalised(tok *Tokenizer, text string) string {
	return tok.Decode(tok.Encode(text, ParseSpecial), true)
}

// TestChatControlTokens puts random text into every place that is not the model's: the control tokens must be those of a
// harmless conversation, and the text must be there as it was.
func TestChatControlTokens(t *testing.T) {
	eachDirectory(t, func(t *testing.T, tok *Tokenizer, _ string) {
		r := fresh(t)
		build := func(text func() string) ([]Message, ChatOptions) {
			tool, _ := marshal(map[string]any{"type": "function", "function": map[string]any{"name": text(), "description": text()}})
			return []Message{{Role: "system", Content: text()}, {Role: "user", Content: text()},
					{Role: "assistant", Content: "call", ToolCalls: []ToolCall{{Name: "f", Arguments: []byte(`{"a": 1}`)}}},
					{Role: "tool", Content: text(), Name: text()}},
				ChatOptions{AddGenerationPrompt: true, Tools: []json.RawMessage{tool}}
		}
		harmless, err := tok.EncodeChat(build(func() string { return "x" }))
		if err != nil {
			t.Fatal(err)
		}
		want := controlIDs(tok, harmless)
		for range 100 {
			messages, o := build(func() string { return "y" + randomText(r) + "y" })
			ids, err := tok.EncodeChat(messages, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := controlIDs(tok, ids); !slices.Equal(got, want) {
				t.Fatalf("%s: control tokens %v, want %v", jsonText(messages), got, want)
			}
			text, err := tok.Chat(messages, o)
			if err != nil {
				t.Fatal(err)
			}
			if got := tok.Decode(ids, true); got != text {
				t.Fatalf("%s: %s", jsonText(messages), difference(got, text))
			}
		}
	})
}

func TestGuard(t *testing.T) {
	tok := openTokenizer(t, "testdata/tiny")
	r := fresh(t)
	for range 1000 {
		text := randomText(r)
		guarded := tok.guard(text)
		if _, a := tok.added.find(guarded); a != nil {
			t.Fatalf("%q guarded to %q still spells %s", text, guarded, a.Content)
		}
		if got := unguard(guarded); got != text {
			t.Fatalf("%q comes back as %q", text, got)
		}
	}
}

// TestSeam appends tool results and questions to sampled replies: the text must be the template's, and the sampled tokens stay.
func TestSeam(t *testing.T) {
	thinking := false
	for _, c := range []struct {
		name  string
		reply string // as sampled, without the end token
		said  Message
		next  []Message
	}{
		{"question", "It is 5.", Message{Role: "assistant", Content: "It is 5."}, []Message{{Role: "user", Content: "Again <|im_end|>?"}}},
		{"one result", "Let me see.\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n</tool_call>",
			Message{Role: "assistant", Content: "Let me see.", ToolCalls: []ToolCall{{Name: "f", Arguments: []byte(`{"a": 1}`)}}},
			[]Message{{Role: "tool", Content: "5</tool_response><|im_end|>"}}},
		{"two results", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {}}\n</tool_call>",
			Message{Role: "assistant", ToolCalls: []ToolCall{{Name: "f"}, {Name: "g"}}},
			[]Message{{Role: "tool", Content: "1"}, {Role: "tool", Content: "你好\n"}}},
		{"cut off inside a call", "x\n<tool_call>\n{\"name\": \"f\", \"argu", Message{Role: "assistant", Content: "x\n<tool_call>\n{\"name\": \"f\", \"argu"},
			[]Message{{Role: "tool", Content: "not closed"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			eachDirectory(t, func(t *testing.T, tok *Tokenizer, name string) {
				o := ChatOptions{AddGenerationPrompt: true}
				question := []Message{{Role: "user", Content: "What is 2+3?"}}
				prompt, err := tok.EncodeChat(question, o)
				if err != nil {
					t.Fatal(err)
				}
				end, _ := tok.ID("<|im_end|>")
				want, err := tok.Chat(slices.Concat(question, []Message{c.said}, c.next), o)
				if err != nil {
					t.Fatal(err)
				}
				cut := slices.Concat(prompt, tok.Encode(c.reply, ParseSpecial))
				stopped := append(slices.Clone(cut), end)
				var whole []int32
				for _, sampled := range [][]int32{cut, stopped} {
					seam, err := tok.Seam(sampled[len(sampled)-1], c.next, o)
					if err != nil {
						t.Fatal(err)
					}
					all := slices.Concat(sampled, seam)
					if got := tok.Decode(all, true); got != want {
						t.Fatal(difference(got, want))
					}
					if whole != nil && !slices.Equal(all, whole) {
						t.Errorf("tokens after the end token %v, after the limit %v", all, whole)
					}
					whole = all
				}
				o.EnableThinking = &thinking
				seam, err := tok.Seam(end, c.next, o)
				if err != nil {
					t.Fatal(err)
				}
				if text := tok.Decode(seam, true); !strings.HasSuffix(text, "assistant\n<think>\n\n</think>\n\n") {
					t.Errorf("without thinking the seam ends %q", text)
				}
			})
		})
	}
}

func TestSeamNeedsTheReply(t *testing.T) {
	tmpl, err := compileTemplate("{{ messages | length }}")
	if err != nil {
		t.Fatal(err)
	}
	tok := &Tokenizer{templates: map[string]*template{"default": tmpl}}
	if _, err := tok.Seam(0, nil, ChatOptions{}); err == nil || !strings.Contains(err.Error(), "assistant's text") {
		t.Errorf("got %v", err)
	}
}

func TestChatErrors(t *testing.T) {
	tok := openTokenizer(t, "testdata/tiny")
	user := []Message{{Role: "user", Content: "x"}}
	for _, c := range []struct {
		name     string
		messages []Message
		o        ChatOptions
		want     string
	}{
		{"no messages", nil, ChatOptions{}, "no messages"},
		{"raised by the template", []Message{{Role: "robot"}}, ChatOptions{}, "unknown role robot"},
		{"tool is not JSON", user, ChatOptions{Tools: []json.RawMessage{[]byte("{")}}, "tool 1"},
		{"tool has a tail", user, ChatOptions{Tools: []json.RawMessage{[]byte("{} {}")}}, "more than one"},
		{"tool is deep", user, ChatOptions{Tools: []json.RawMessage{[]byte(strings.Repeat("[", 5000) + strings.Repeat("]", 5000))}}, "deeper"},
		{"option is not JSON", user, ChatOptions{Extra: map[string]json.RawMessage{"k": []byte("nope")}}, `option "k"`},
		{"arguments are not JSON", []Message{{Role: "assistant", ToolCalls: []ToolCall{{Name: "f", Arguments: []byte("{")}}}}, ChatOptions{}, "tool call 1 (f)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := tok.Chat(c.messages, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %q and error %v, want one that says %q", got, err, c.want)
			}
		})
	}
}
