package gradefile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A member is one field of a JSON object, its value as it was written.
type member struct {
	key   string
	value json.RawMessage
}

// A row is a JSON object that keeps the order and the text of its fields.
type row []member

// parseRow reads one JSON object.
func parseRow(text []byte) (row, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	t, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("read a JSON object: %w", err)
	}
	if t != json.Delim('{') {
		return nil, fmt.Errorf("read a JSON object: it begins with %v", t)
	}
	var r row
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("read a JSON object: %w", err)
		}
		m := member{key: key.(string)}
		if err := d.Decode(&m.value); err != nil {
			return nil, fmt.Errorf("read field %q: %w", m.key, err)
		}
		r = append(r, m)
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("read a JSON object: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("read a JSON object: something follows it on the line")
	}
	return r, nil
}

// field looks a dotted path up, whole names first: reward_model.ground_truth.
func (r row) field(path string) (json.RawMessage, bool) {
	for _, m := range r {
		if m.key == path {
			return m.value, true
		}
	}
	head, rest, ok := strings.Cut(path, ".")
	if !ok {
		return nil, false
	}
	for _, m := range r {
		if m.key == head {
			if inner, err := parseRow(m.value); err == nil {
				return inner.field(rest)
			}
		}
	}
	return nil, false
}

// text is the field at the first of the paths that is there, as text: a string, a
// number as written, or the content of the last message of a chat.
func (r row) text(paths []string) (string, error) {
	for _, path := range paths {
		value, ok := r.field(path)
		if !ok || string(value) == "null" {
			continue
		}
		s, err := asText(value)
		if err != nil {
			return "", fmt.Errorf("field %q: %w", path, err)
		}
		return s, nil
	}
	return "", fmt.Errorf("no field %s", strings.Join(paths, ", nor "))
}

func asText(value json.RawMessage) (string, error) {
	switch value[0] {
	case '"':
		var s string
		err := json.Unmarshal(value, &s)
		return s, err
	case '[':
		var chat []struct {
			Content *string `json:"content"`
		}
		if err := json.Unmarshal(value, &chat); err != nil || len(chat) == 0 || chat[len(chat)-1].Content == nil {
			return "", errors.New("it is a list, but not of chat messages")
		}
		return *chat[len(chat)-1].Content, nil
	case '{':
		return "", errors.New("it is an object; name the field inside as a.b")
	}
	return string(value), nil
}

// with returns the row's JSON with the given members in place of any of the same names.
func (r row) with(extra []member) []byte {
	var out bytes.Buffer
	out.WriteByte('{')
	write := func(m member) {
		if out.Len() > 1 {
			out.WriteByte(',')
		}
		key, _ := json.Marshal(m.key) // a string always has a JSON form
		out.Write(key)
		out.WriteByte(':')
		out.Write(m.value)
	}
	replaced := make(map[string]bool, len(extra))
	for _, m := range extra {
		replaced[m.key] = true
	}
	for _, m := range r {
		if !replaced[m.key] {
			write(m)
		}
	}
	for _, m := range extra {
		write(m)
	}
	out.WriteString("}\n")
	return out.Bytes()
}
