package reward

import "strings"

// lastBox finds the content of the last \boxed{...} the way the published graders do:
// braces are counted from the last `\boxed` on, escaped or not, and the brace must
// follow at once. found is false without a `\boxed`, closed is false where the
// braces do not balance or no brace follows.
func lastBox(text string) (content string, found, closed bool) {
	const command = `\boxed`
	i := lastIndex(text, command)
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
	depth := 1
	open, end := nextByte(s, 1, '{'), nextByte(s, 1, '}')
	for end < len(s) {
		if open < end {
			depth++
			open = nextByte(s, open+1, '{')
			continue
		}
		if depth--; depth == 0 {
			return s[1:end], true
		}
		end = nextByte(s, end+1, '}')
	}
	return "", false
}

// nextByte is where c stands next in s from i on, len(s) if nowhere.
func nextByte(s string, i int, c byte) int {
	if j := strings.IndexByte(s[i:], c); j >= 0 {
		return i + j
	}
	return len(s)
}
