package env

import (
	"errors"
	"fmt"

	"tandem/tokenizer"
)

// FromFiles is a task whose problems and demonstrations come from data sets.
func FromFiles(tok *tokenizer.Tokenizer, e Env, problems, heldOut, demonstrations Data) (*Task, error) {
	end := tok.EOS()
	if len(end) == 0 {
		return nil, errors.New("task: the tokenizer names no token that ends a reply")
	}
	t := &Task{
		Env: e, Problems: problems.Problems, HeldOut: heldOut.Problems, Demonstrations: demonstrations.Problems, Stop: end,
		Text: func(tokens []int32) string { return tok.Decode(tokens, true) },
	}
	if len(demonstrations.Problems) > 0 {
		t.Demonstrate = func(p Problem, _ uint64) (d Demonstration, err error) {
			if p.Reply == "" {
				return d, fmt.Errorf("task: row %d has no reply", p.ID)
			}
			d.Write(append(tok.Encode(p.Reply, tokenizer.ParseSpecial), end[0])...)
			return d, nil
		}
	}
	return t, nil
}
