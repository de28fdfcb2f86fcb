package tool

import (
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// A clip keeps the beginning and the end of what is written to it, limit bytes in all, and counts the rest.
type clip struct {
	limit int
	head  []byte // up to limit/2 bytes
	tail  []byte // a ring of limit-limit/2 bytes once full
	next  int    // where the ring goes on
	total int64
}

// copyFrom reads r to its end. It closes over once more than most bytes have come, and reads on.
func (c *clip) copyFrom(r io.Reader, most int64, over chan<- struct{}) {
	buffer := make([]byte, 1<<16)
	told := false
	for {
		n, err := r.Read(buffer)
		c.add(buffer[:n])
		if c.total > most && !told {
			told = true
			over <- struct{}{}
		}
		if err != nil {
			return
		}
	}
}

func (c *clip) add(p []byte) {
	c.total += int64(len(p))
	if room := c.limit/2 - len(c.head); room > 0 {
		n := min(room, len(p))
		c.head = append(c.head, p[:n]...)
		p = p[n:]
	}
	size := c.limit - c.limit/2
	if len(p) > size {
		p = p[len(p)-size:]
	}
	if room := size - len(c.tail); room > 0 {
		n := min(room, len(p))
		c.tail = append(c.tail, p[:n]...)
		p = p[n:]
	}
	for len(p) > 0 {
		n := copy(c.tail[c.next:], p)
		p = p[n:]
		c.next = (c.next + n) % size
	}
}

// text joins what was kept, says in the middle how much is gone, and makes it printable.
func (c *clip) text() string {
	tail := string(c.tail[c.next:]) + string(c.tail[:c.next])
	gone := c.total - int64(len(c.head)+len(c.tail))
	if gone == 0 {
		return printable(string(c.head) + tail)
	}
	head, tail := wholeEnd(string(c.head)), wholeStart(tail)
	gone = c.total - int64(len(head)+len(tail))
	return fmt.Sprintf("%s\n[... %d bytes cut ...]\n%s", printable(head), gone, printable(tail))
}

// wholeEnd drops a character that the cut left incomplete at the end, wholeStart one at the start.
func wholeEnd(s string) string {
	for i := 1; i <= min(utf8.UTFMax, len(s)); i++ {
		if rest := s[len(s)-i:]; utf8.RuneStart(rest[0]) {
			if !utf8.FullRuneInString(rest) {
				return s[:len(s)-i]
			}
			break
		}
	}
	return s
}

func wholeStart(s string) string {
	for i := 0; i < min(utf8.UTFMax, len(s)); i++ {
		if utf8.RuneStart(s[i]) {
			return s[i:]
		}
	}
	return s
}

// printable puts U+FFFD for each byte that is not UTF-8 and for each control character (NUL, terminal codes) other than
// line feed, carriage return and tab.
func printable(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for _, r := range s {
		if unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' {
			r = utf8.RuneError
		}
		b.WriteRune(r)
	}
	return b.String()
}
