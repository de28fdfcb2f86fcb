package tokenizer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

const demoDir = "../trainer/recipes/demo-tokenizer"

func TestDemoTokenizer(t *testing.T) {
	tok := openTokenizer(t, demoDir)
	if tok.VocabSize() != 28 {
		t.Errorf("%d tokens, want 28", tok.VocabSize())
	}
	end, _ := tok.ID("<|im_end|>")
	if !slices.Equal(tok.EOS(), []int32{end}) {
		t.Errorf("end tokens %v, want %d", tok.EOS(), end)
	}
	for _, c := range []struct {
		text string
		want []string
	}{
		{"47+58=?", []string{"4", "7", "+", "5", "8", "=", "?"}},
		{`7+8=15 4+5+1=10 \boxed{105}`, []string{"7", "+", "8", "=", "1", "5", " ", "4", "+", "5", "+", "1", "=", "1", "0", " ", `\boxed{`, "1", "0", "5", "}"}},
		{`\boxed{95}`, []string{`\boxed{`, "9", "5", "}"}},
		{"<|im_start|>user\n", []string{"<|im_start|>", "user", "\n"}},
		{"<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n", []string{"<|im_end|>", "\n", "<|im_start|>", "assistant", "\n", "<think>", "\n\n", "</think>", "\n\n"}},
		{"system", []string{"system"}},
	} {
		var got []string
		for _, id := range tok.Encode(c.text, ParseSpecial) {
			got = append(got, string(tok.TokenBytes(id)))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q encodes to %q, want %q", c.text, got, c.want)
		}
	}
}

// TestDemoChat holds the demo's template to Qwen3's.
func TestDemoChat(t *testing.T) {
	demo := openTokenizer(t, demoDir)
	qwen := openTokenizer(t, sharedDir)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	contents := []string{"47+58=?", `\boxed{95}`, `7+8=15 4+5+1=10 \boxed{105}`, "<think>\n1+1=2\n</think>\n\n2", "\n\n5", "<think>\n\n</think>\n\n7"}
	for range 200 {
		var messages []Message
		if r.IntN(3) == 0 {
			messages = append(messages, Message{Role: "system", Content: "1+1"})
		}
		for i := range 1 + r.IntN(4) {
			m := Message{Role: []string{"user", "assistant"}[i%2], Content: contents[r.IntN(len(contents))]}
			if m.Role == "assistant" && r.IntN(3) == 0 {
				m.ReasoningContent = "9-4=5"
			}
			messages = append(messages, m)
		}
		o := ChatOptions{AddGenerationPrompt: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			o.EnableThinking = new(bool)
		}
		got, err := demo.Chat(messages, o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := qwen.Chat(messages, o)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("%s: %s", jsonText(messages), difference(got, want))
		}
		if back := demo.Decode(demo.Encode(got, ParseSpecial), true); back != got {
			t.Fatalf("does not come back from the tokens: %s", difference(back, got))
		}
	}
}

// TestDemoToolsChat holds the template of the demo with tools to Qwen3's, and its vocabulary to what is said there.
func TestDemoToolsChat(t *testing.T) {
	demo := openTokenizer(t, "../trainer/recipes/demo-tools-tokenizer")
	if demo.VocabSize() != 35 {
		t.Errorf("%d tokens, want 35", demo.VocabSize())
	}
	for text, n := range map[string]int{`\boxed{4042}`: 6, "Error": 1, "47*86=?": 7,
		"<tool_call>\n{\"name\": \"code_interpreter\", \"arguments\": {\"code\": \"print(47*86)\"}}\n</tool_call>":              15,
		"\n<|im_start|>user\n<tool_response>\n4042\n</tool_response><|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n": 21} {
		if ids := demo.Encode(text, ParseSpecial); len(ids) != n || demo.Decode(ids, true) != text {
			t.Errorf("%q is %d tokens that read %q, want %d", text, len(ids), demo.Decode(ids, true), n)
		}
	}
	qwen := openTokenizer(t, sharedDir)
	r := fresh(t)
	said := []string{`\boxed{95}`, "<tool_call>\n{\"name\": \"code_interpreter\", \"arguments\": {\"code\": \"print(47*86)\"}}\n</tool_call>", "<think>\n1*1=1\n</think>\n\n2"}
	for range 200 {
		messages := []Message{{Role: "user", Content: "47*86=?"}}
		for range r.IntN(3) {
			messages = append(messages, Message{Role: "assistant", Content: said[r.IntN(len(said))]})
			for range r.IntN(3) {
				messages = append(messages, Message{Role: "tool", Content: []string{"4042", "Error"}[r.IntN(2)]})
			}
		}
		o := ChatOptions{AddGenerationPrompt: r.IntN(2) == 0}
		if r.IntN(2) == 0 {
			o.EnableThinking = new(bool)
		}
		got, err := demo.Chat(messages, o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := qwen.Chat(messages, o)
		if err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Fatalf("%s: %s", jsonText(messages), difference(got, want))
		}
	}
}

func ExampleTokenizer_EncodeChat() {
	tok, err := Load(demoDir)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer tok.Close()
	thinking := false
	question := []Message{{Role: "user", Content: "47+58=?"}}
	ids, err := tok.EncodeChat(question, ChatOptions{AddGenerationPrompt: true, EnableThinking: &thinking})
	fmt.Println(len(ids), err)
	fmt.Printf("%q\n", tok.Decode(ids, true))
	// Output:
	// 19 <nil>
	// "<|im_start|>user\n47+58=?<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n"
}
