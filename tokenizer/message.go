package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Message is one turn of a conversation. In JSON it is the message of the OpenAI and Hugging Face formats; keys that are
// null count as absent, and a content given as parts is the text parts joined.
type Message struct {
	Role             string
	Content          string
	ReasoningContent string // what was thought before Content; also read from "reasoning" and "thinking"
	ToolCalls        []ToolCall
	Name             string
	ToolCallID       string

	// Extra has the other keys of the JSON message, in their order, and "reasoning_content" where it was given as "",
	// which a template can tell from absence.
	Extra []Field
}

// Field is a key of a JSON object with its value.
type Field struct {
	Key   string
	Value json.RawMessage
}

// ToolCall is a call of a function by the model.
type ToolCall struct {
	ID        string
	Name      string
	Arguments json.RawMessage // an object, keys in the order given; a JSON string where a client sent one

	// Number is the call's place in the reply it was read from, counted from 1; those that cannot be read count, too.
	Number int

	// Repaired says that a raw control character in a JSON string was read as if it had been escaped.
	Repaired bool
}

// wireCall is a call in JSON. Arguments travel as a string there; an object is read too, and a call without "function" around it.
type wireCall struct {
	ID        string          `json:"id,omitempty"`
	Type      string          `json:"type,omitempty"`
	Function  *wireCall       `json:"function,omitempty"`
	Name      string          `json:"name,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
}

// MarshalJSON writes the call as chat APIs do: arguments are a string that holds JSON.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	arguments := c.Arguments
	if len(arguments) == 0 {
		arguments = json.RawMessage("{}")
	}
	if arguments[0] != '"' {
		var err error
		if arguments, err = marshal(string(arguments)); err != nil {
			return nil, err
		}
	}
	return marshal(wireCall{ID: c.ID, Type: "function", Function: &wireCall{Name: c.Name, Arguments: arguments}})
}

// UnmarshalJSON reads a call as chat APIs and as Hugging Face data sets write it.
func (c *ToolCall) UnmarshalJSON(data []byte) error {
	var w wireCall
	if err := json.Unmarshal(data, &w); err != nil {
		return err
	}
	f := &w
	if w.Function != nil {
		f = w.Function
	}
	if f.Name == "" {
		return fmt.Errorf("tool call without a function name: %s", clip(string(data)))
	}
	*c = ToolCall{ID: w.ID, Name: f.Name, Arguments: f.Arguments}
	if len(f.Arguments) == 0 || string(f.Arguments) == "null" {
		c.Arguments = json.RawMessage("{}")
	}
	return nil
}

// MarshalJSON writes the fields that are set; role and content always.
func (m Message) MarshalJSON() ([]byte, error) {
	var out bytes.Buffer
	write := func(key string, value any) error {
		name, err := marshal(key)
		if err != nil {
			return err
		}
		text, err := marshal(value)
		if err != nil {
			return fmt.Errorf("message key %q: %w", key, err)
		}
		out.WriteByte("{,"[min(out.Len(), 1)])
		out.Write(append(append(name, ':'), text...))
		return nil
	}
	for _, f := range m.fields() {
		if err := write(f.key, f.value); err != nil {
			return nil, err
		}
	}
	out.WriteByte('}')
	return out.Bytes(), nil
}

type messageField struct {
	key   string
	value any
}

// fields lists what the message has, in the order in which JSON and templates get it.
func (m Message) fields() []messageField {
	all := []messageField{{"role", m.Role}, {"content", m.Content}}
	if m.ReasoningContent != "" {
		all = append(all, messageField{"reasoning_content", m.ReasoningContent})
	}
	if len(m.ToolCalls) > 0 {
		all = append(all, messageField{"tool_calls", m.ToolCalls})
	}
	if m.Name != "" {
		all = append(all, messageField{"name", m.Name})
	}
	if m.ToolCallID != "" {
		all = append(all, messageField{"tool_call_id", m.ToolCallID})
	}
	for _, f := range m.Extra {
		all = append(all, messageField{f.Key, f.Value})
	}
	return all
}

// UnmarshalJSON reads a message. A role must be there; content may be text, parts of type "text", or null.
func (m *Message) UnmarshalJSON(data []byte) error {
	fields, err := objectFields(data)
	if err != nil {
		return fmt.Errorf("message: %w", err)
	}
	*m = Message{}
	for _, f := range fields {
		if string(f.Value) == "null" {
			continue
		}
		if err := m.set(f); err != nil {
			return fmt.Errorf("message key %q: %w", f.Key, err)
		}
	}
	if m.Role == "" {
		return fmt.Errorf("message without a role: %s", clip(string(data)))
	}
	return nil
}

func (m *Message) set(f Field) error {
	switch f.Key {
	case "role":
		return json.Unmarshal(f.Value, &m.Role)
	case "content":
		return unmarshalContent(f.Value, &m.Content)
	case "reasoning_content", "thinking", "reasoning":
		var text string
		if err := json.Unmarshal(f.Value, &text); err != nil {
			return err
		}
		if text == "" && f.Key == "reasoning_content" {
			m.Extra = append(m.Extra, f)
		}
		if m.ReasoningContent == "" || f.Key == "reasoning_content" {
			m.ReasoningContent = text
		}
		return nil
	case "tool_calls":
		return json.Unmarshal(f.Value, &m.ToolCalls)
	case "name":
		return json.Unmarshal(f.Value, &m.Name)
	case "tool_call_id":
		return json.Unmarshal(f.Value, &m.ToolCallID)
	}
	m.Extra = append(m.Extra, f)
	return nil
}

// unmarshalContent reads text or a list of text parts. Templates see joined text: Qwen3's would render a list as nothing.
func unmarshalContent(data json.RawMessage, text *string) error {
	if data[0] != '[' {
		return json.Unmarshal(data, text)
	}
	var parts []struct {
		Type string  `json:"type"`
		Text *string `json:"text"`
	}
	if err := json.Unmarshal(data, &parts); err != nil {
		return err
	}
	var joined strings.Builder
	for _, p := range parts {
		if p.Type != "text" || p.Text == nil {
			return fmt.Errorf("a part of type %q, want only parts with text", p.Type)
		}
		joined.WriteString(*p.Text)
	}
	*text = joined.String()
	return nil
}

// objectFields splits a JSON object into its keys and values, in order.
func objectFields(data []byte) ([]Field, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return nil, fmt.Errorf("want a JSON object, got %s", clip(string(data)))
	}
	var fields []Field
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, err
		}
		f := Field{Key: key.(string)}
		if err := d.Decode(&f.Value); err != nil {
			return nil, err
		}
		fields = append(fields, f)
	}
	_, err := d.Token()
	return fields, err
}

// marshal is json.Marshal without the escapes for HTML.
func marshal(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// clip shortens text for an error message.
func clip(text string) string {
	const most = 80
	if len(text) <= most {
		return text
	}
	return text[:runeBoundary(text, most)] + "..."
}
