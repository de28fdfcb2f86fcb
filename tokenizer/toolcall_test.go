package tokenizer

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

func TestParseReply(t *testing.T) {
	call := func(code string) string {
		return "<tool_call>\n{\"name\": \"py\", \"arguments\": {\"code\": \"" + code + "\"}}\n</tool_call>"
	}
	for _, c := range []struct {
		name, text string
		content    string
		reasoning  string
		codes      []string // of the calls
		problems   []string // a part of each
		cut        bool
	}{
		{name: "no call", text: "  just text \n", content: "  just text \n"},
		{name: "empty"},
		{name: "text before, between and after", text: "a\n" + call("1") + "\nb\n\n" + call("2") + "\n c ", content: "a\nb\nc ", codes: []string{"1", "2"}},
		{name: "blanks only around a call", text: "\n\n" + call("1") + "\n", codes: []string{"1"}},
		{name: "thinking first", text: "<think>\nhm\n</think>\n\n" + call("1"), reasoning: "hm", codes: []string{"1"}},
		{name: "thinking opened by the prompt", text: "hm\n</think>\n\nyes", reasoning: "hm", content: "yes"},
		{name: "call inside thinking", text: "<think>" + call("0") + "</think>" + call("1"), reasoning: call("0"), codes: []string{"1"}},
		{name: "thinking never closed", text: "<think>\n" + call("0"), reasoning: call("0")},
		{name: "a second thought before any content", text: "<think>a</think>\n<think>b</think>c", reasoning: "ab", content: "c"},
		{name: "think tag in a text", text: "use <think> tags", content: "use <think> tags"},
		{name: "tags inside JSON strings", text: call("</think> <tool_call> </tool_call>"), codes: []string{"</think> <tool_call> </tool_call>"}},
		{name: "raw line break in a string", text: call("a\nb\tc"), codes: []string{"a\nb\tc"}},
		{name: "one brace missing", text: `<tool_call>{"name": "py", "arguments": {"code": "1"}` + "\n</tool_call> then", content: `<tool_call>{"name": "py", "arguments": {"code": "1"}` + "\n</tool_call> then", problems: []string{"outside a string"}},
		{name: "quote and braces missing", text: `<tool_call>{"name": "py", "arguments": {"code": "print(1)</tool_call>`, content: `<tool_call>{"name": "py", "arguments": {"code": "print(1)</tool_call>`, problems: []string{"not finished"}},
		{name: "unfinished string, then a good call", text: `<tool_call>{"name": "py</tool_call>` + call("2"), content: `<tool_call>{"name": "py</tool_call>`, codes: []string{"2"}, problems: []string{"Tool call 1"}},
		{name: "not closed before the next", text: "<tool_call>{\"name\": \"py\"}\n" + call("2"), content: "<tool_call>{\"name\": \"py\"}", codes: []string{"2"}, problems: []string{"more between"}},
		{name: "single quotes", text: "<tool_call>{'name': 'py'}</tool_call>", content: "<tool_call>{'name': 'py'}</tool_call>", problems: []string{`'\''`}},
		{name: "a list", text: `<tool_call>[{"name": "py"}]</tool_call>`, content: `<tool_call>[{"name": "py"}]</tool_call>`, problems: []string{"not a JSON object"}},
		{name: "name is a number", text: `<tool_call>{"name": 3}</tool_call>`, content: `<tool_call>{"name": 3}</tool_call>`, problems: []string{`"name" is not a string`}},
		{name: "name is empty", text: `<tool_call>{"name": "", "arguments": {}}</tool_call>`, content: `<tool_call>{"name": "", "arguments": {}}</tool_call>`, problems: []string{`"name" is missing`}},
		{name: "other spelling of a key", text: `<tool_call>{"Name": "py", "arguments": {}}</tool_call>`, content: `<tool_call>{"Name": "py", "arguments": {}}</tool_call>`, problems: []string{`"name" is missing`}},
		{name: "arguments as a string", text: `<tool_call>{"name": "py", "arguments": "{}"}</tool_call>`, content: `<tool_call>{"name": "py", "arguments": "{}"}</tool_call>`, problems: []string{`"arguments" is not`}},
		{name: "trailing comma", text: `<tool_call>{"name": "py",}</tool_call>`, content: `<tool_call>{"name": "py",}</tool_call>`, problems: []string{"does not parse"}},
		{name: "backslash before a line break", text: call("a\\\nb"), content: call("a\\\nb"), problems: []string{"does not parse"}},
		{name: "python escape", text: call(`\d+`), content: call(`\d+`), problems: []string{"does not parse"}},
		{name: "brackets crossed", text: `<tool_call>{"name": "py"]</tool_call>`, content: `<tool_call>{"name": "py"]</tool_call>`, problems: []string{"does not parse"}},
		{name: "cut in a string", text: `x <tool_call>{"name": "py", "arguments": {"code": "for`, content: `x <tool_call>{"name": "py", "arguments": {"code": "for`, cut: true},
		{name: "cut before the closing tag", text: `<tool_call>{"name": "py"}` + "\n</tool", content: `<tool_call>{"name": "py"}` + "\n</tool", cut: true},
		{name: "cut in the tag", text: "x <tool_ca", content: "x <tool_ca"},
		{name: "a tag that is only mentioned", text: "write <tool_call> first", content: "write <tool_call> first", problems: []string{"not a JSON object"}},
		{name: "closing tag alone", text: "a</tool_call>b", content: "a</tool_call>b"},
		{name: "deep nesting", text: `<tool_call>{"name": "py", "arguments": ` + strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000) + "}</tool_call>",
			content: `<tool_call>{"name": "py", "arguments": ` + strings.Repeat(`{"a":`, 20000) + "1" + strings.Repeat("}", 20000) + "}</tool_call>", problems: []string{"does not parse"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := ParseReply(c.text)
			if r.Content != c.content || r.Reasoning != c.reasoning || r.Cut != c.cut {
				t.Errorf("content %q, reasoning %q, cut %v, want %q, %q, %v", clip(r.Content), r.Reasoning, r.Cut, clip(c.content), c.reasoning, c.cut)
			}
			var codes []string
			last := 0
			for _, call := range r.Calls {
				if call.Number <= last || call.Number > len(r.Calls)+len(r.Problems) {
					t.Errorf("call %d of %d follows call %d", call.Number, len(r.Calls)+len(r.Problems), last)
				}
				last = call.Number
				var arguments struct{ Code string }
				if err := json.Unmarshal(call.Arguments, &arguments); err != nil || call.Name != "py" {
					t.Errorf("call %s(%s): %v", call.Name, call.Arguments, err)
				}
				codes = append(codes, arguments.Code)
				if want := strings.ContainsAny(arguments.Code, "\n\t"); call.Repaired != want {
					t.Errorf("%q repaired: %v", arguments.Code, call.Repaired)
				}
			}
			if fmt.Sprintf("%q", codes) != fmt.Sprintf("%q", c.codes) {
				t.Errorf("calls %q, want %q", codes, c.codes)
			}
			if len(r.Problems) != len(c.problems) {
				t.Fatalf("problems %q, want %q", r.Problems, c.problems)
			}
			for i, p := range r.Problems {
				if !strings.Contains(p, c.problems[i]) {
					t.Errorf("problem %q does not say %q", p, c.problems[i])
				}
			}
		})
	}
}

func TestCallsAreNumbered(t *testing.T) {
	r := ParseReply("<tool_call>no</tool_call><tool_call>{\"name\": \"f\"}</tool_call><tool_call>{</tool_call><tool_call>{\"name\": \"g\"}</tool_call>")
	if len(r.Calls) != 2 || r.Calls[0].Number != 2 || r.Calls[1].Number != 4 || len(r.Problems) != 2 {
		t.Errorf("%+v", r)
	}
}

func TestArgumentsKeepOrder(t *testing.T) {
	_, calls, problems := ParseToolCalls(`<tool_call>{"arguments": {"z": 1, "a": {"y": 2.50, "b": 1e5}}, "name": "f"}</tool_call>`)
	if len(calls) != 1 || string(calls[0].Arguments) != `{"z": 1, "a": {"y": 2.50, "b": 1e5}}` {
		t.Errorf("calls %v, problems %q", calls, problems)
	}
}

// pieces of replies, for random texts.
var replyScraps = []string{"<tool_call>", "</tool_call>", "<think>", "</think>", "\n", " ", "text", `{"name": "py", "arguments": {"code": "x"}}`,
	`{"name": "py"}`, "{", "}", "[", "]", `"`, `\`, `"name"`, ":", ",", "é", "\xff", "<", "</t", "<tool_call>\n{\"name\": \"f\", \"arguments\": {}}\n</tool_call>", "\x01", "null", "'"}

// FuzzToolCallStream cuts a reply anywhere: the pieces must give what the whole gives, and nothing of the text may be lost.
func FuzzToolCallStream(f *testing.F) {
	f.Add([]byte{0, 4, 7, 4, 1, 6, 2, 3}, "", uint64(0x5555))
	f.Add([]byte{2, 6, 3, 4, 22, 5, 6, 0, 9}, "tail <tool_", uint64(0xff0f))
	f.Add([]byte{6, 3, 6, 22}, "x </think> <tool_call>{\"name\": \"py</tool_call>", uint64(1))
	f.Fuzz(func(t *testing.T, picks []byte, tail string, cuts uint64) {
		var text string
		for _, p := range picks {
			text += replyScraps[int(p)%len(replyScraps)]
		}
		text += tail
		want := ParseReply(text)
		for _, thinking := range []bool{false, true} {
			whole := NewToolCallStream(thinking)
			one := whole.Push(text)
			one.add(whole.Close())
			s := NewToolCallStream(thinking)
			var r Reply
			from := 0
			for i := range len(text) {
				if cuts>>(i%64)&1 == 1 {
					r.add(s.Push(text[from : i+1]))
					from = i + 1
				}
			}
			r.add(s.Push(text[from:]))
			r.add(s.Close())
			if jsonText(r) != jsonText(one) {
				t.Fatalf("%q cut by %x, thinking %v: got %s, want %s", text, cuts, thinking, jsonText(r), jsonText(one))
			}
			if !thinking && !s.orphan && jsonText(r) != jsonText(want) {
				t.Fatalf("%q: the stream gives %s, ParseReply %s", text, jsonText(r), jsonText(want))
			}
		}
		if opened := strings.Count(text, callOpen); len(want.Calls)+len(want.Problems) > opened {
			t.Fatalf("%q: %d calls and %d problems from %d tags", text, len(want.Calls), len(want.Problems), opened)
		}
		for _, c := range want.Calls {
			if !json.Valid(c.Arguments) || c.Name == "" || c.Arguments[0] != '{' {
				t.Fatalf("%q: call %s(%s)", text, c.Name, c.Arguments)
			}
		}
		if !strings.Contains(text, "<t") && want.Content != text && !strings.Contains(text, thinkClose) {
			t.Fatalf("%q without tags gives the content %q", text, want.Content)
		}
	})
}

func TestStreamPassesOn(t *testing.T) {
	s := NewToolCallStream(false)
	for _, c := range []struct{ push, content string }{
		{"Hello", "Hello"}, {" wor", " wor"}, {"ld \n", "ld"}, {"<", ""}, {"b>", " \n<b>"}, {"<tool_", ""}, {"call>{\"name\"", ""},
		{": \"f\"}</tool_call", ""}, {">", ""}, {"\n", ""}, {"after", "\nafter"},
	} {
		if r := s.Push(c.push); r.Content != c.content {
			t.Errorf("after %q comes %q, want %q", c.push, r.Content, c.content)
		} else if len(r.Calls) > 0 != (c.push == ">") {
			t.Errorf("after %q come %d calls", c.push, len(r.Calls))
		}
	}
}

func TestMessageJSON(t *testing.T) {
	for _, c := range []struct{ name, in, out, err string }{
		{name: "plain", in: `{"role":"user","content":"a<b> & ü \u2028"}`, out: `{"role":"user","content":"a<b> & ü \u2028"}`},
		{name: "parts", in: `{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}`, out: `{"role":"user","content":"ab"}`},
		{name: "null content", in: `{"role":"assistant","content":null}`, out: `{"role":"assistant","content":""}`},
		{name: "explicit empty thought", in: `{"role":"assistant","content":"x","reasoning_content":""}`, out: `{"role":"assistant","content":"x","reasoning_content":""}`},
		{name: "other names of thought", in: `{"role":"assistant","content":"x","reasoning":"r"}`, out: `{"role":"assistant","content":"x","reasoning_content":"r"}`},
		{name: "order of other keys", in: `{"z":1,"role":"user","a":{"y":1,"b":2},"content":"x"}`, out: `{"role":"user","content":"x","z":1,"a":{"y":1,"b":2}}`},
		{name: "call", in: `{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":{"z":1,"a":"<"}}}]}`,
			out: `{"role":"assistant","content":"","tool_calls":[{"type":"function","function":{"name":"f","arguments":"{\"z\":1,\"a\":\"<\"}"}}]}`},
		{name: "call without arguments", in: `{"role":"assistant","tool_calls":[{"id":"c1","name":"f"}]}`,
			out: `{"role":"assistant","content":"","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`},
		{name: "image part", in: `{"role":"user","content":[{"type":"image_url"}]}`, err: `type "image_url"`},
		{name: "no role", in: `{"content":"x"}`, err: "without a role"},
		{name: "content is a number", in: `{"role":"user","content":3}`, err: `"content"`},
		{name: "call without a name", in: `{"role":"assistant","tool_calls":[{"function":{}}]}`, err: "without a function name"},
		{name: "not an object", in: `["user"]`, err: "want a JSON object"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var m Message
			err := json.Unmarshal([]byte(c.in), &m)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Errorf("got error %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var out bytes.Buffer
			e := json.NewEncoder(&out)
			e.SetEscapeHTML(false)
			if err := e.Encode(m); err != nil {
				t.Fatal(err)
			}
			got, want := strings.TrimSpace(out.String()), c.out
			if got != want && got != strings.ReplaceAll(want, "\u2028", `\u2028`) {
				t.Errorf("got %s, want %s", got, want)
			}
		})
	}
}
