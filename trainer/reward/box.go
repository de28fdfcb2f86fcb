package reward

import "strings"

// lastBox finds the content of the last \boxed{...} the way the published graders do:
// braces are counted from the last `\boxed` on, escaped or not, and the brace must
// follow at once. found is false without a `\boxed`, closed is false where the
// braces do not balance or no brace follows.
func lastBox(text string) (content string, found, closed bool) {
	const command = `\boxed`
	i := strings.LastIndex(text, command)
	if i < 0 {
		return "", false, false
	}
	content, closed = closeBrace(text[i+len(command):])
	return content, true, closed
}

// closeBrace returns what stands between the brace that s must begin with and its partner.
func closeBrace(s string) (content string, ok bool) {
	if !strings.HasPrefix(s, "{") {
		return "", false
	}
	depth := 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return s[1:i], true
			}
		}
	}
	return "", false
}
