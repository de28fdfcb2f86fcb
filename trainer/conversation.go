package trainer

// Said is one entry of a conversation as people read it.
type Said struct {
	Who     string `json:"who"`               // model, task, or the name of a tool
	Text    string `json:"text"`              // of a tool: what it answered
	Failure string `json:"failure,omitempty"` // of a call
}

// conversation is what follows the prompt of a rollout of several turns, nil for one of a single turn.
func conversation(r *Rollout, text func([]int32) string) []Said {
	if len(r.Spans) < 2 && len(r.Calls) == 0 {
		return nil
	}
	var all []Said
	calls := r.Calls
	for i, s := range r.Spans {
		all = append(all, Said{Who: "model", Text: text(r.Tokens[s[0]:s[1]])})
		end := len(r.Tokens)
		if i+1 < len(r.Spans) {
			end = r.Spans[i+1][0]
		}
		if told := r.Tokens[s[1]:end]; len(told) > 0 && (len(calls) == 0 || calls[0].Turn != i) {
			all = append(all, Said{Who: "task", Text: text(told)})
		}
		for ; len(calls) > 0 && calls[0].Turn == i; calls = calls[1:] {
			who := calls[0].Tool
			if who == "" {
				who = "tool"
			}
			all = append(all, Said{who, calls[0].Output, calls[0].Failure})
		}
	}
	return all
}
