package reward

import (
	"strings"
	"testing"
)

func TestExtract(t *testing.T) {
	tests := []struct {
		name, response string
		bareLine       bool
		answer, reason string
	}{
		{"box", `so \boxed{42}.`, false, "42", ""},
		{"last box", `\boxed{1} then \boxed{2}`, false, "2", ""},
		{"nested braces", `\boxed{\frac{1}{2}}`, false, `\frac{1}{2}`, ""},
		{"escaped braces", `\boxed{\{1,2\}}`, false, `\{1,2\}`, ""},
		{"one escaped brace", `\boxed{\left\{ 2,3 \right.} and {more}`, false, `\left\{ 2,3 \right.`, ""},
		{"row break before a brace", `\boxed{a\\{b}}`, false, `a\\{b}`, ""},
		{"unfinished", `\boxed{1} then \boxed{2`, false, "", UnfinishedBox},
		{"command at the end", `\boxed`, false, "", UnfinishedBox},
		{"without braces", `$\boxed 6$.`, false, "6", ""},
		{"space before the brace", `\boxed {8}`, false, "8", ""},
		{"number without braces", `\boxed 42 is it`, false, "42", ""},
		{"another command", `\boxedminus{3} \boxed{4} \boxedfoo{5}`, false, "4", ""},
		{"fbox", `\fbox{15}`, false, "15", ""},
		{"fbox beside a box", `\boxed{14} \fbox{15}`, false, "14", ""},
		{"thinking does not count", `<think>\boxed{3}</think> none`, false, "", NoBox},
		{"unclosed thinking does not count", `<think> \boxed{3}`, false, "", NoBox},
		{"second thinking part", `<think>a</think>\boxed{1}<think>\boxed{2}`, false, "1", ""},
		{"closing tag alone", `\boxed{3}</think>\boxed{4}`, false, "4", ""},
		{"answer line", "work\nAnswer: 42", false, "42", ""},
		{"final answer in bold", "**Final Answer:** $42$\nbye", false, "$42$", ""},
		{"answer line with a bold colon", "**Answer**: 42", false, "42", ""},
		{"last answer line", "Answer: 1\nAnswer: 2", false, "2", ""},
		{"box before an answer line", "\\boxed{1}\nAnswer: 2", false, "1", ""},
		{"answer in a sentence", "My answer: it depends", false, "", NoBox},
		{"bare line is not taken", "work\n42", false, "", NoBox},
		{"bare line is taken", "work\n42\n\n", true, "42", ""},
		{"nothing", "", true, "", NoBox},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answer, reason := extract(tt.response, tt.bareLine)
			if answer != tt.answer || reason != tt.reason {
				t.Errorf("extract(%q) = %q, %q; want %q, %q", tt.response, answer, reason, tt.answer, tt.reason)
			}
		})
	}
}

// FuzzExtract: what is extracted stands in the response, after the thinking part.
func FuzzExtract(f *testing.F) {
	for _, s := range []string{`\boxed{1}`, `<think>\boxed{1}</think>\boxed 2$`, "Answer: 3\n", `\fbox{\{}`, `\boxed{\\}`, "x\ny", `\boxed`, `**Final Answer:** 7`} {
		f.Add(s, true)
	}
	f.Fuzz(func(t *testing.T, response string, bareLine bool) {
		answer, reason := extract(response, bareLine)
		if reason != "" && answer != "" {
			t.Errorf("both an answer %q and a reason %q", answer, reason)
		}
		visible := response[strings.LastIndex(response, "</think>")+1:]
		if !strings.Contains(visible, answer) {
			t.Errorf("%q does not stand in %q", answer, visible)
		}
	})
}
