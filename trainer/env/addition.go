package env

import (
	"fmt"
	"strconv"

	"tandem/tokenizer"
)

// additionHeldOut is the number of problems kept for evaluation.
const additionHeldOut = 256

// Addition is the sum of two numbers from 10 to 99, asked as "47+58=?". The demonstrations answer either at a glance and
// forget every carry, or digit by digit and right, so that what is left to reinforcement is to take the time.
//
//	\boxed{95}
//	7+8=15 4+5+1=10 \boxed{105}
func Addition(tok *tokenizer.Tokenizer, e Env) (*Task, error) {
	end := tok.EOS()
	if len(end) == 0 {
		return nil, fmt.Errorf("addition: the tokenizer names no token that ends a reply")
	}
	t := &Task{
		Env:  e,
		Text: func(tokens []int32) string { return tok.Decode(tokens, true) },
		Stop: end,
		Demonstrate: func(p Problem, draw uint64) (d Demonstration, err error) {
			var a, b int
			if _, err := fmt.Sscanf(p.Text, "%d+%d=?", &a, &b); err != nil {
				return d, fmt.Errorf("addition: %q: %w", p.Text, err)
			}
			d.Write(append(tok.Encode(demonstration(a, b, draw), tokenizer.SpecialAsText), end[0])...)
			return d, nil
		},
	}
	// A fixed shuffle: 7,919 is prime to the 8,100 problems, so that held-out ones lie scattered.
	const n = 90 * 90
	for i := range n {
		k := i * 7919 % n
		a, b := 10+k/90, 10+k%90
		p := Problem{ID: k, Text: fmt.Sprintf("%d+%d=?", a, b), Answer: strconv.Itoa(a + b)}
		if i < additionHeldOut {
			t.HeldOut = append(t.HeldOut, p)
		} else {
			t.Problems = append(t.Problems, p)
		}
	}
	t.Demonstrations = t.Problems
	return t, nil
}

// glances is the share of demonstrations, in percent, that answer at a glance.
const glances = 60

func demonstration(a, b int, draw uint64) string {
	ones, tens := a%10+b%10, a/10+b/10
	if draw%100 < glances {
		return fmt.Sprintf(`\boxed{%d%d}`, tens%10, ones%10)
	}
	carry := ""
	if ones > 9 {
		carry = "+1"
		tens++
	}
	return fmt.Sprintf(`%d+%d=%d %d+%d%s=%d \boxed{%d}`, a%10, b%10, ones, a/10, b/10, carry, tens, a+b)
}
