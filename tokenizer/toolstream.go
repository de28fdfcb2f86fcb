package tokenizer

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	callOpen   = "<tool_call>"
	callClose  = "</tool_call>"
	thinkOpen  = "<think>"
	thinkClose = "</think>"
	blanks     = " \t\r\n"
)

// ToolCallStream takes a reply apart while it is being written. What its calls return, put together, is what ParseReply
// returns for the whole text, however it is cut; but a </think> that nothing opened comes too late to call reasoning what has
// been passed on, so the stream must be told at the start whether the prompt opened it. A call is passed on when it is
// complete, its arguments whole: only then is it known to be one.
type ToolCallStream struct {
	buf  []byte   // not yet passed on; starts with <tool_call> while a call is being read
	scan callScan // of the call at the start of buf

	thinking bool
	thought  bool   // reasoning has been passed on
	newlines string // of reasoning, held back: those before </think> are dropped

	said   bool   // content has been passed on
	held   string // blanks of the content, held back: those around a call are dropped
	trim   bool   // blanks that come next are dropped, for they follow </think> or a call
	join   bool   // a call came after content: what comes next is on a new line
	called int    // calls so far, also those that cannot be read
	orphan bool   // a </think> came that nothing opened
}

// NewToolCallStream returns a stream for a reply. thinking says that the prompt ended inside <think>.
func NewToolCallStream(thinking bool) *ToolCallStream { return &ToolCallStream{thinking: thinking} }

// Push takes the next piece of the text and returns what it settles.
func (s *ToolCallStream) Push(text string) Reply {
	s.buf = append(s.buf, text...)
	return s.run(false)
}

// Close ends the text and returns the rest.
func (s *ToolCallStream) Close() Reply { return s.run(true) }

func (s *ToolCallStream) run(end bool) Reply {
	var r Reply
	for {
		step := s.content
		if s.thinking {
			step = s.think
		} else if bytes.HasPrefix(s.buf, []byte(callOpen)) {
			step = s.call
		}
		if !step(&r, end) {
			break
		}
	}
	if end && !s.trim {
		r.Content += s.held
	}
	return r
}

// think passes reasoning on up to </think>.
func (s *ToolCallStream) think(r *Reply, end bool) bool {
	if !s.thought {
		rest := bytes.TrimLeft(s.buf, blanks)
		if bytes.HasPrefix(rest, []byte(thinkOpen)) {
			s.buf = rest[len(thinkOpen):]
			return true
		}
		if !end && strings.HasPrefix(thinkOpen, string(rest)) {
			return false
		}
	}
	text, rest, closed := bytes.Cut(s.buf, []byte(thinkClose))
	if !closed && !end {
		text, rest = splitPartial(s.buf, thinkClose)
	}
	s.buf = rest
	s.reason(r, string(text))
	if closed {
		s.thinking, s.trim = false, true
	}
	return closed
}

// reason passes reasoning on without the newlines at its ends.
func (s *ToolCallStream) reason(r *Reply, text string) {
	if !s.thought {
		text = strings.TrimLeft(text, "\n")
	}
	kept := strings.TrimRight(text, "\n")
	if kept == "" {
		if s.thought {
			s.newlines += text
		}
		return
	}
	r.Reasoning += s.newlines + kept
	s.newlines = text[len(kept):]
	s.thought = true
}

// content passes content on up to a tag.
func (s *ToolCallStream) content(r *Reply, end bool) bool {
	tags := []string{callOpen, thinkClose, thinkOpen}
	if s.said || s.called > 0 {
		tags = tags[:2] // later, <think> is text
	}
	at, tag := firstTag(s.buf, tags)
	if at < 0 {
		text, rest := s.buf, []byte(nil)
		if !end {
			text, rest = splitPartial(s.buf, tags...)
		}
		s.say(r, string(text))
		s.buf = rest
		return false
	}
	s.say(r, string(s.buf[:at]))
	s.buf = s.buf[at:]
	switch {
	case tag == callOpen: // read next
	case tag == thinkClose:
		s.buf = s.buf[len(tag):]
		s.orphan, s.trim = true, true
	case s.said: // the text just before
		s.say(r, tag)
		s.buf = s.buf[len(tag):]
	default:
		s.buf = s.buf[len(tag):]
		s.thinking, s.thought, s.held = true, false, ""
	}
	return true
}

// say passes content on, but for the blanks at its end.
func (s *ToolCallStream) say(r *Reply, text string) {
	if s.trim {
		if text = strings.TrimLeft(text, blanks); text == "" {
			return
		}
		s.trim, s.held = false, ""
	}
	kept := strings.TrimRight(text, blanks)
	if kept == "" {
		s.held += text
		return
	}
	if s.join {
		r.Content += "\n"
		s.join = false
	}
	r.Content += s.held + kept
	s.held = text[len(kept):]
	s.said = true
}

// call reads the call that buf starts with.
func (s *ToolCallStream) call(r *Reply, end bool) bool {
	body := s.buf[len(callOpen):]
	state, n, err := s.scan.advance(body)
	if state == complete {
		var call ToolCall
		if call, err = s.scan.call(body[:n]); err == nil {
			s.called++
			call.Number = s.called
			r.Calls = append(r.Calls, call)
			s.buf, s.scan = body[n:], callScan{}
			s.join, s.trim = s.said, true
			return true
		}
		state = broken
	}
	if state == unfinished && !end {
		return false
	}
	// Where a broken call ends, its text goes on as content.
	at, tag := firstTag(body, []string{callClose, callOpen, thinkClose})
	switch {
	case at < 0 && !end:
		return false // more may come before it ends
	case at < 0 && state == unfinished:
		r.Cut = true
		at = len(body)
	case at < 0:
		at = len(body)
	case tag == callClose:
		at += len(callClose)
	}
	if !r.Cut {
		if state == unfinished {
			err = fmt.Errorf("the JSON is not finished before %s", tag)
		}
		s.called++
		r.Problems = append(r.Problems, fmt.Sprintf("Tool call %d cannot be read: %v. "+
			`Write <tool_call>{"name": <function-name>, "arguments": <args-json-object>}</tool_call>.`, s.called, err))
	}
	s.say(r, callOpen+string(body[:at]))
	s.buf, s.scan = body[at:], callScan{}
	return true
}

// firstTag finds the tag that comes first, or -1.
func firstTag(text []byte, tags []string) (int, string) {
	at, first := -1, ""
	for _, tag := range tags {
		if i := bytes.Index(text, []byte(tag)); i >= 0 && (at < 0 || i < at) {
			at, first = i, tag
		}
	}
	return at, first
}

// splitPartial cuts off what may be the start of a tag at the end of text.
func splitPartial(text []byte, tags ...string) (settled, rest []byte) {
	from := len(text)
	for _, tag := range tags {
		for n := min(len(tag)-1, len(text)); n > len(text)-from; n-- {
			if string(text[len(text)-n:]) == tag[:n] {
				from = len(text) - n
				break
			}
		}
	}
	return text[:from], text[from:]
}
