package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ParseToolCalls splits a reply into what is said to the reader, the calls in Qwen3's form (<tool_call>{json}</tool_call>,
// any number), and a sentence for each call that cannot be read. See ParseReply for what counts as what.
func ParseToolCalls(text string) (content string, calls []ToolCall, problems []string) {
	r := ParseReply(text)
	return r.Content, r.Calls, r.Problems
}

// Reply is what a model wrote, taken apart.
type Reply struct {
	Reasoning string     // between <think> and </think>
	Content   string     // the rest, without the calls and the blanks around them
	Calls     []ToolCall // in order
	Problems  []string   // what is wrong with the calls that cannot be read, for the model or a log

	// Cut says that the text ends inside a call that is right as far as it goes: no call, no problem, and its text is in Content.
	// It is a problem (CutProblem) where the model ended the reply itself, and none where the length limit did.
	Cut bool
}

// CutProblem is the sentence for a reply that the model ended inside a call.
const CutProblem = "The tool call is not closed: </tool_call> is missing."

// ParseReply takes a whole reply apart.
//
// A call is a JSON object with a "name" and "arguments", an object, which may be missing if empty. JSON is read strictly but for one
// thing: a raw control character in a string, such as a line break in code, counts as escaped (ToolCall.Repaired). Tags
// inside JSON strings are text. A call that cannot be read ends at the first </tool_call>, <tool_call> or </think>; it gives a
// problem, its text stays in the content, and the others are read.
//
// What comes before </think> is reasoning, calls included; so is everything where <think> is never closed. A </think>
// without <think> means that the prompt opened it.
func ParseReply(text string) Reply {
	r, orphan := takeApart(text, false)
	if orphan {
		return ParseThinking(text)
	}
	return r
}

// ParseThinking takes a reply apart that goes on from a prompt which ended inside <think>: all of it is reasoning where
// </think> never comes.
func ParseThinking(text string) Reply {
	r, _ := takeApart(text, true)
	return r
}

// takeApart also says whether a </think> came that nothing opened.
func takeApart(text string, thinking bool) (Reply, bool) {
	s := NewToolCallStream(thinking)
	r := s.Push(text)
	r.add(s.Close())
	return r, s.orphan
}

func (r *Reply) add(next Reply) {
	r.Reasoning += next.Reasoning
	r.Content += next.Content
	r.Calls = append(r.Calls, next.Calls...)
	r.Problems = append(r.Problems, next.Problems...)
	r.Cut = r.Cut || next.Cut
}

// verdict of looking at the text after <tool_call>.
type verdict int

const (
	unfinished verdict = iota // right so far
	complete
	broken
)

// callScan finds the end of a call's JSON object as text arrives. Braces are counted outside strings; the object is
// read whole once its last one is there.
type callScan struct {
	pos      int // what has been looked at
	start    int // of the object
	end      int // behind the object, or 0
	depth    int
	inString bool
	escaped  bool
}

// advance looks at the text after <tool_call>, which has grown since. For a complete call it gives the length up to and
// with </tool_call>.
func (c *callScan) advance(body []byte) (verdict, int, error) {
	for c.end == 0 && c.pos < len(body) {
		if err := c.next(body[c.pos]); err != nil {
			return broken, 0, err
		}
		c.pos++
		if c.depth == 0 && c.start > 0 {
			c.end = c.pos
		}
	}
	if c.end == 0 {
		return unfinished, 0, nil
	}
	after := bytes.TrimLeft(body[c.end:], blanks)
	switch {
	case bytes.HasPrefix(after, []byte(callClose)):
		return complete, len(body) - len(after) + len(callClose), nil
	case strings.HasPrefix(callClose, string(after)):
		return unfinished, 0, nil
	}
	return broken, 0, errors.New("there is more between the JSON object and </tool_call>")
}

// next takes one byte.
func (c *callScan) next(b byte) error {
	switch {
	case c.escaped:
		c.escaped = false
	case c.inString:
		c.escaped = b == '\\'
		c.inString = b != '"'
	case strings.IndexByte(blanks, b) >= 0:
	case c.depth == 0 && b != '{':
		return errors.New("it is not a JSON object")
	case b == '{' || b == '[':
		if c.depth++; c.start == 0 {
			c.start = c.pos + 1 // one more than where the object starts, so that 0 is none
		}
	case b == '}' || b == ']':
		c.depth--
	case b == '"':
		c.inString = true
	case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', strings.IndexByte("+-.,:", b) >= 0:
	default:
		return fmt.Errorf("the JSON has %q outside a string", b)
	}
	return nil
}

// call reads the object that advance found.
func (c *callScan) call(body []byte) (ToolCall, error) {
	object, repaired := escapeControls(bytes.ToValidUTF8(body[c.start-1:c.end], []byte("\uFFFD")))
	var valid json.RawMessage
	if err := json.Unmarshal(object, &valid); err != nil {
		return ToolCall{}, fmt.Errorf("the JSON does not parse: %w", err)
	}
	fields, err := objectFields(object)
	if err != nil {
		return ToolCall{}, err
	}
	call := ToolCall{Arguments: json.RawMessage("{}"), Repaired: repaired}
	for _, f := range fields {
		switch f.Key {
		case "name":
			if json.Unmarshal(f.Value, &call.Name) != nil {
				return ToolCall{}, errors.New(`"name" is not a string`)
			}
		case "arguments":
			if f.Value[0] != '{' {
				return ToolCall{}, errors.New(`"arguments" is not a JSON object`)
			}
			call.Arguments = f.Value
		}
	}
	if call.Name == "" {
		return ToolCall{}, errors.New(`"name" is missing`)
	}
	return call, nil
}

// escapeControls escapes raw control characters in the strings of JSON text, and says whether there were any.
func escapeControls(object []byte) ([]byte, bool) {
	var out []byte
	from := 0
	inString, escaped := false, false
	for i, b := range object {
		switch {
		case inString && b < 0x20:
			if escaped {
				return object, false // a backslash before a line break is no JSON in any reading
			}
			out = append(out, object[from:i]...)
			out = fmt.Appendf(out, `\u%04x`, b)
			from = i + 1
		case escaped:
			escaped = false
		case inString:
			escaped = b == '\\'
			inString = b != '"'
		default:
			inString = b == '"'
		}
	}
	if from == 0 {
		return object, false
	}
	return append(out, object[from:]...), true
}
