package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ardanlabs/jinja"
)

// maxDepth bounds the nesting of JSON that reaches a template, as Python's recursion limit does there.
const maxDepth = 500

// jsonValue makes a template value of JSON text: keys stay in order, a key given twice keeps its first place and its last
// value, and integers stay exact, all as in Python. Strings pass through text.
func jsonValue(data []byte, text func(string) string) (jinja.Value, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.UseNumber()
	v, err := nextValue(d, text, 0)
	if err != nil {
		return v, err
	}
	if d.More() {
		return v, fmt.Errorf("more than one JSON value: %s", clip(string(data)))
	}
	return v, nil
}

func nextValue(d *json.Decoder, text func(string) string, depth int) (jinja.Value, error) {
	if depth > maxDepth {
		return jinja.Undefined(), fmt.Errorf("JSON nested deeper than %d", maxDepth)
	}
	token, err := d.Token()
	if err != nil {
		return jinja.Undefined(), err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '[' {
			return nextList(d, text, depth)
		}
		return nextDict(d, text, depth)
	case json.Number:
		return number(token.String()), nil
	case string:
		return jinja.NewString(text(token)), nil
	case bool:
		return jinja.NewBool(token), nil
	}
	return jinja.None(), nil
}

func nextList(d *json.Decoder, text func(string) string, depth int) (jinja.Value, error) {
	var items []jinja.Value
	for d.More() {
		v, err := nextValue(d, text, depth+1)
		if err != nil {
			return v, err
		}
		items = append(items, v)
	}
	_, err := d.Token()
	return jinja.NewList(items), err
}

func nextDict(d *json.Decoder, text func(string) string, depth int) (jinja.Value, error) {
	dict := jinja.NewDict()
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return dict, err
		}
		v, err := nextValue(d, text, depth+1)
		if err != nil {
			return dict, err
		}
		dict.AsDict().Set(text(key.(string)), v)
	}
	_, err := d.Token()
	return dict, err
}

// number reads a JSON number as Python does. The template library's integers have 64 bits; a longer one is carried as a
// callable named by its digits, which printing and tojson write out.
func number(digits string) jinja.Value {
	v := jinja.FromGoValue(json.Number(digits))
	if v.IsInt() || strings.ContainsAny(digits, ".eE") {
		return v
	}
	return jinja.NewCallable(digits, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		return jinja.Undefined(), fmt.Errorf("%s is a number, not a function", digits)
	})
}

// value makes a template value of a message.
func (m Message) value(text func(string) string) (jinja.Value, error) {
	v := jinja.NewDict()
	d := v.AsDict()
	for _, f := range m.fields() {
		switch field := f.value.(type) {
		case string:
			if f.key != "role" {
				field = text(field)
			}
			d.Set(f.key, jinja.NewString(field))
		case json.RawMessage:
			extra, err := jsonValue(field, text)
			if err != nil {
				return v, fmt.Errorf("%s: %w", f.key, err)
			}
			d.Set(f.key, extra)
		case []ToolCall:
			calls := make([]jinja.Value, len(field))
			for i, c := range field {
				var err error
				if calls[i], err = c.value(text); err != nil {
					return v, fmt.Errorf("tool call %d (%s): %w", i+1, c.Name, err)
				}
			}
			d.Set(f.key, jinja.NewList(calls))
		}
	}
	return v, nil
}

func (c ToolCall) value(text func(string) string) (jinja.Value, error) {
	data := c.Arguments
	if len(data) == 0 {
		data = json.RawMessage("{}")
	}
	arguments, err := jsonValue(data, text)
	if err != nil {
		return arguments, fmt.Errorf("arguments: %w", err)
	}
	function, call := jinja.NewDict(), jinja.NewDict()
	function.AsDict().Set("name", jinja.NewString(text(c.Name)))
	function.AsDict().Set("arguments", arguments)
	if c.ID != "" {
		call.AsDict().Set("id", jinja.NewString(text(c.ID)))
	}
	call.AsDict().Set("type", jinja.NewString("function"))
	call.AsDict().Set("function", function)
	return call, nil
}
