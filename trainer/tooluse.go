package trainer

import "tandem/trainer/env"

// ToolUse is what the replies of a step did beside answering. Its names in JSON stay as they are.
type ToolUse struct {
	NoAnswer     float64 `json:"no_answer"`      // share of replies that stopped without an answer
	TooManyCalls float64 `json:"too_many_calls"` // share of replies that wanted more calls or turns than are allowed

	Turns     float64 `json:"tool_turns"`           // of the model in a reply, mean
	Called    float64 `json:"tool_called"`          // share of replies with a call
	CallsEach float64 `json:"tool_calls_per_reply"` // mean
	Calls     int     `json:"tool_calls"`           // those that could not be read included
	Told      int     `json:"tool_tokens"`          // tokens that the model was told in answer

	Unreadable int `json:"tool_unreadable"` // calls that are not the JSON of one, or not closed
	Refused    int `json:"tool_refused"`    // calls of no tool, without what it needs, or one more than is allowed
	Raised     int `json:"tool_errors"`     // calls whose program failed
	Timeouts   int `json:"tool_timeouts"`   // calls that took too long
	Killed     int `json:"tool_killed"`     // calls that crashed or took too much of something else
	Repaired   int `json:"tool_repaired"`   // calls that were read with leniency

	CallSeconds    float64 `json:"tool_seconds"`         // of all calls, which overlap
	LongestSeconds float64 `json:"tool_longest_seconds"` // of one call
}

// use notes what the replies did.
func (u *ToolUse) use(groups [][]*Rollout) {
	n := 0
	for _, group := range groups {
		for _, r := range group {
			n++
			u.Turns += float64(len(r.Spans))
			switch r.End {
			case env.NoAnswer:
				u.NoAnswer++
			case env.TooManyCalls:
				u.TooManyCalls++
			}
			if len(r.Calls) > 0 {
				u.Called++
			}
			for _, c := range r.Calls {
				u.call(c)
			}
		}
	}
	u.CallsEach = float64(u.Calls)
	for _, mean := range []*float64{&u.NoAnswer, &u.TooManyCalls, &u.Turns, &u.Called, &u.CallsEach} {
		*mean /= float64(max(n, 1))
	}
}

func (u *ToolUse) call(c env.Call) {
	u.Calls++
	u.Told += c.Tokens
	u.CallSeconds += c.Seconds
	u.LongestSeconds = max(u.LongestSeconds, c.Seconds)
	if c.Repaired {
		u.Repaired++
	}
	switch c.Failure {
	case "":
	case env.Unreadable, env.Unfinished:
		u.Unreadable++
	case env.UnknownTool, env.BadArgument, env.NotRun:
		u.Refused++
	case "timeout", "cpu_limit":
		u.Timeouts++
	case "out_of_memory", "output_limit", "crashed":
		u.Killed++
	default:
		u.Raised++
	}
}

// Failed is the number of calls that were not answered as asked.
func (u *ToolUse) Failed() int { return u.Unreadable + u.Refused + u.Raised + u.Timeouts + u.Killed }
