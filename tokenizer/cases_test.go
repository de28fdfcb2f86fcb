package tokenizer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// testCase is a line of testdata/cases.jsonl: reports from users of other systems, each made a check. The kind says which.
type testCase struct {
	ID     string          `json:"id"`
	Kind   string          `json:"kind"`
	Input  json.RawMessage `json:"input"`
	Expect json.RawMessage `json:"expect"`
	Note   string          `json:"note"`
}

func (c *testCase) read(t *testing.T, input, expect any) {
	t.Helper()
	for data, into := range map[*json.RawMessage]any{&c.Input: input, &c.Expect: expect} {
		if err := json.Unmarshal(*data, into); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCases(t *testing.T) {
	data, err := os.ReadFile("testdata/cases.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	parsing := map[string]func(t *testing.T, c *testCase){
		"utf8_stream": caseStream, "parse_tool_calls": caseParse, "stream_tool_calls": caseStreamCalls, "api_arguments": caseArguments,
		"stop_string": caseStopString,
	}
	withFiles := map[string]func(t *testing.T, c *testCase, tok *Tokenizer){
		"render": caseRender, "render_normalised": caseRender, "render_error": caseRenderError, "token_ids": caseIDs,
		"normalise_nfc": caseNFC, "roundtrip_time": caseRoundTrip, "stop_ids": caseStop, "turn_join": caseJoin,
		"tool_result_escape": caseEscape,
	}
	var qwen *Tokenizer
	if _, err := os.Stat(sharedDir); err == nil {
		qwen = openTokenizer(t, sharedDir)
	}
	for line := range bytes.Lines(data) {
		var c testCase
		if err := json.Unmarshal(line, &c); err != nil {
			t.Fatal(err)
		}
		t.Run(c.ID+"_"+c.Kind, func(t *testing.T) {
			switch {
			case parsing[c.Kind] != nil:
				parsing[c.Kind](t, &c)
			case withFiles[c.Kind] == nil:
				t.Fatalf("no check of kind %q", c.Kind)
			case qwen == nil:
				t.Skip("needs Qwen3's tokenizer files")
			default:
				withFiles[c.Kind](t, &c, qwen)
			}
			if t.Failed() && c.Note != "" {
				t.Log(c.Note)
			}
		})
	}
}

func caseRender(t *testing.T, c *testCase, tok *Tokenizer) {
	var in chatRow
	var want struct{ Text string }
	c.read(t, &in, &want)
	got, err := tok.Chat(in.Messages, in.options())
	if err != nil {
		t.Fatal(err)
	}
	if got != want.Text {
		t.Error(difference(got, want.Text))
	}
}

func caseRenderError(t *testing.T, c *testCase, tok *Tokenizer) {
	var in chatRow
	var want struct{}
	c.read(t, &in, &want)
	if got, err := tok.Chat(in.Messages, in.options()); err == nil {
		t.Errorf("got %q, want an error", got)
	}
}

func caseIDs(t *testing.T, c *testCase, tok *Tokenizer) {
	var in struct {
		Text  string `json:"text"`
		Parse bool   `json:"parse_special"`
	}
	var want struct{ IDs []int32 }
	c.read(t, &in, &want)
	special := SpecialAsText
	if in.Parse {
		special = ParseSpecial
	}
	if got := tok.Encode(in.Text, special); !slices.Equal(got, want.IDs) {
		t.Errorf("%q encodes to %v, want %v", in.Text, got, want.IDs)
	}
}

func caseNFC(t *testing.T, c *testCase, tok *Tokenizer) {
	var in, want struct{ Text string }
	c.read(t, &in, &want)
	if got, want := tok.Encode(in.Text, ParseSpecial), tok.Encode(want.Text, ParseSpecial); !slices.Equal(got, want) {
		t.Errorf("decomposed %v, composed %v", got, want)
	}
}

func caseRoundTrip(t *testing.T, c *testCase, tok *Tokenizer) {
	var in struct {
		Spec struct {
			Repeat string
			Times  int
		} `json:"text_spec"`
	}
	var want struct{}
	c.read(t, &in, &want)
	text := strings.Repeat(in.Spec.Repeat, in.Spec.Times)
	if got := tok.Decode(tok.Encode(text, SpecialAsText), true); got != text {
		t.Error(difference(got, text))
	}
}

func caseStop(t *testing.T, c *testCase, tok *Tokenizer) {
	var in struct {
		Generated []int32 `json:"generated_ids"`
		Stop      []int32 `json:"stop_ids"`
	}
	var want struct{}
	c.read(t, &in, &want)
	for _, id := range in.Stop {
		if !tok.isSpecial(id) {
			t.Errorf("end token %d is not special", id)
		}
	}
	stream := tok.NewStream()
	var text string
	for _, id := range in.Generated {
		text += stream.Push(id)
	}
	if text += stream.Flush(); strings.Contains(text, "<|") || text == "" {
		t.Errorf("text %q, want the word without the marker", text)
	}
}

func caseJoin(t *testing.T, c *testCase, tok *Tokenizer) {
	var in struct {
		End  []int32 `json:"assistant_ids_end"`
		Next string  `json:"next_turn_text"`
	}
	var want struct {
		IDs []int32 `json:"ids_after_assistant_end"`
	}
	c.read(t, &in, &want)
	got, err := tok.Seam(in.End[len(in.End)-1], []Message{{Role: "user", Content: "x"}}, ChatOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) < len(want.IDs) || !slices.Equal(got[:len(want.IDs)], want.IDs) {
		t.Errorf("after the end token comes %v, want %v first", got, want.IDs)
	}
}

func caseEscape(t *testing.T, c *testCase, tok *Tokenizer) {
	var in struct {
		Output string `json:"tool_output"`
	}
	var want struct{}
	c.read(t, &in, &want)
	result := []Message{{Role: "tool", Content: in.Output}}
	ids, err := tok.Seam(-1, result, ChatOptions{AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	plain, err := tok.Seam(-1, []Message{{Role: "tool", Content: "5"}}, ChatOptions{AddGenerationPrompt: true})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := controlIDs(tok, ids), controlIDs(tok, plain); !slices.Equal(got, want) {
		t.Errorf("control tokens %v, want those of a harmless result %v", got, want)
	}
	if text := tok.Decode(ids, true); !strings.Contains(text, in.Output) {
		t.Errorf("the result is not in %q as it was", text)
	}
}

// controlIDs are the added tokens among ids.
func controlIDs(tok *Tokenizer, ids []int32) []int32 {
	var found []int32
	for _, id := range ids {
		if at, a := tok.added.find(string(tok.TokenBytes(id))); a != nil && at == 0 {
			found = append(found, id)
		}
	}
	return found
}

func caseStream(t *testing.T, c *testCase) {
	var in struct {
		Prompt string   `json:"prompt_tail_hex"`
		Tokens []string `json:"token_bytes_hex"`
	}
	var want struct {
		Deltas []string `json:"deltas"`
		Flush  *string  `json:"final_flush"`
	}
	c.read(t, &in, &want)
	var all [][]byte
	for _, token := range in.Tokens {
		b, err := hex.DecodeString(token)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, b)
	}
	stream := byteTokenizer(t, all).NewStream()
	var deltas []string
	for id := range all {
		deltas = append(deltas, stream.Push(int32(id)))
	}
	flush := stream.Flush()
	if want.Flush == nil { // the prompt ended inside a character: what follows it is no text of the prompt's
		if first := deltas[0]; strings.Trim(first, "\uFFFD") != "" {
			t.Errorf("first delta %q, want nothing of the prompt", first)
		}
		return
	}
	if !slices.Equal(deltas, want.Deltas) || flush != *want.Flush {
		t.Errorf("got %q and %q, want %q and %q", deltas, flush, want.Deltas, *want.Flush)
	}
}

// byteTokenizer has a token for each of the given byte strings, and no way to encode.
func byteTokenizer(t testing.TB, tokens [][]byte) *Tokenizer {
	t.Helper()
	letters := make([]rune, 256)
	for r, b := range byteAlphabet() {
		if b > 0 {
			letters[b-1] = rune(r)
		}
	}
	model := map[string]int64{}
	for id, token := range tokens {
		var text []rune
		for _, b := range token {
			text = append(text, letters[b])
		}
		model[string(text)] = int64(id)
	}
	v, err := newVocab(model, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &Tokenizer{vocab: v}
}

type wantCalls struct {
	Calls []struct {
		Name      string         `json:"name"`
		Arguments map[string]any `json:"arguments"`
	} `json:"calls"`
	Content *string `json:"content"`
	Errors  int     `json:"parse_errors"`
	Joined  string  `json:"content_joined"`
}

func (want *wantCalls) check(t *testing.T, r Reply) {
	t.Helper()
	if len(r.Calls) != len(want.Calls) {
		t.Fatalf("got %d calls, want %d; problems %q", len(r.Calls), len(want.Calls), r.Problems)
	}
	for i, call := range r.Calls {
		var arguments map[string]any
		if err := json.Unmarshal(call.Arguments, &arguments); err != nil {
			t.Fatal(err)
		}
		if call.Name != want.Calls[i].Name || jsonText(arguments) != jsonText(want.Calls[i].Arguments) {
			t.Errorf("call %d is %s(%s), want %s(%s)", i+1, call.Name, call.Arguments, want.Calls[i].Name, jsonText(want.Calls[i].Arguments))
		}
	}
	if len(r.Problems) != want.Errors {
		t.Errorf("problems %q, want %d", r.Problems, want.Errors)
	}
}

func caseParse(t *testing.T, c *testCase) {
	var in struct {
		Text   string `json:"text"`
		Finish string `json:"engine_finish"`
	}
	var want wantCalls
	c.read(t, &in, &want)
	r := ParseReply(in.Text)
	want.check(t, r)
	if want.Content != nil && r.Content != *want.Content {
		t.Errorf("content %q, want %q", r.Content, *want.Content)
	}
	if r.Cut && in.Finish != "length" {
		t.Errorf("the reply counts as cut off")
	}
}

func caseStreamCalls(t *testing.T, c *testCase) {
	var in struct{ Chunks []string }
	var want wantCalls
	c.read(t, &in, &want)
	s := NewToolCallStream(false)
	var r Reply
	for _, chunk := range in.Chunks {
		r.add(s.Push(chunk))
	}
	r.add(s.Close())
	want.check(t, r)
	if strings.TrimSpace(r.Content) != strings.TrimSpace(want.Joined) {
		t.Errorf("content %q, want %q", r.Content, want.Joined)
	}
}

func caseArguments(t *testing.T, c *testCase) {
	var in struct{ Call ToolCall }
	var want struct {
		Arguments map[string]any `json:"arguments_json_parses_to"`
	}
	c.read(t, &in, &want)
	wire, err := json.Marshal(in.Call)
	if err != nil {
		t.Fatal(err)
	}
	var sent struct {
		Function struct {
			Arguments string `json:"arguments"`
		} `json:"function"`
	}
	if err := json.Unmarshal(wire, &sent); err != nil {
		t.Fatalf("%s: %v", wire, err)
	}
	var arguments map[string]any
	if err := json.Unmarshal([]byte(sent.Function.Arguments), &arguments); err != nil {
		t.Fatal(err)
	}
	if jsonText(arguments) != jsonText(want.Arguments) || bytes.Contains(wire, []byte(`\u`)) {
		t.Errorf("sent %s, want arguments %s and no escapes", wire, jsonText(want.Arguments))
	}
}
