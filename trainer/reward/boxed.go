package reward

// Boxed is the content of the last \boxed{...} of a worked solution; ok is false without one, or where its braces do not
// balance.
func Boxed(solution string) (content string, ok bool) {
	content, _, ok = lastBox(solution)
	return content, ok
}
