package reward

import (
	"regexp"
	"strings"
)

// extract finds the final answer of a response for the tandem grader; reason is ""
// where there is one. The thinking part does not count: neither what is before the last
// </think>, nor what follows a <think> that is never closed.
func extract(response string, bareLine bool) (answer, reason string) {
	const open, end = "<think>", "</think>"
	if i := lastIndex(response, end); i >= 0 {
		response = response[i+len(end):]
	}
	if i := strings.Index(response, open); i >= 0 {
		response = response[:i]
	}
	if answer, found, closed := finalBox(response); found {
		if !closed {
			return "", UnfinishedBox
		}
		return answer, ""
	}
	if answer, ok := answerLine(response); ok {
		return answer, ""
	}
	if bareLine {
		if line := lastLine(response); line != "" {
			return line, ""
		}
	}
	return "", NoBox
}

// finalBox is the content of the last \boxed, or of the last \fbox where there is no
// \boxed. A backslash escapes a brace, and a box may hold one token without braces.
func finalBox(text string) (content string, found, closed bool) {
	for _, command := range [...]string{`\boxed`, `\fbox`} {
		for end := len(text); ; {
			i := lastIndex(text[:end], command)
			if i < 0 {
				break
			}
			rest := text[i+len(command):]
			if rest == "" || !isLetter(rest[0]) { // not \boxedsomething
				content, closed = boxContent(rest)
				return content, true, closed
			}
			end = i
		}
	}
	return "", false, false
}

// lastIndex is strings.LastIndex, from the front: with few matches that is several
// times faster, since strings.Index uses vector instructions.
func lastIndex(s, part string) int {
	last := -1
	for {
		i := strings.Index(s[last+1:], part)
		if i < 0 {
			return last
		}
		last += 1 + i
	}
}

func boxContent(rest string) (string, bool) {
	rest = strings.TrimLeft(rest, " \t\n")
	if rest == "" {
		return "", false
	}
	if rest[0] != '{' {
		if i := strings.IndexAny(rest, "$\n"); i >= 0 {
			rest = rest[:i]
		} else if i := strings.IndexAny(rest, " \t"); i >= 0 {
			rest = strings.TrimRight(rest[:i], ".,")
		}
		rest, _, _ = strings.Cut(rest, `\)`)
		return strings.TrimSpace(rest), true
	}
	depth := 0
	for i := 0; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return rest[1:i], true
			}
		}
	}
	return "", false
}

// answerForm matches a line that announces the final answer: "Answer: 42",
// "**Final Answer:** 42".
var answerForm = regexp.MustCompile(`(?im)^[\s*_#>-]*(?:the\s+)?(?:final\s+)?answer\s*(?:is)?\s*[*_]*\s*:[*_]*[ \t]*(\S.*)$`)

// answerTail is how much of the end of a response, in bytes, may hold an answer line.
const answerTail = 10_000

func answerLine(response string) (string, bool) {
	tail := response[max(0, len(response)-answerTail):]
	m := answerForm.FindAllStringSubmatch(tail, -1)
	if m == nil {
		return "", false
	}
	return strings.Trim(m[len(m)-1][1], " \t\r*_"), true
}

// lastLine is the last line that holds anything.
func lastLine(s string) string {
	s = strings.TrimSpace(s)
	return strings.TrimSpace(s[strings.LastIndexByte(s, '\n')+1:])
}
