package env

import (
	"fmt"
	"strconv"

	"tandem/tokenizer"
)

// multiplicationHeldOut is the number of problems kept for evaluation.
const multiplicationHeldOut = 256

// Multiplication is the product of two numbers from 32 to 99, asked as "47*86=?", which has four digits. The demonstrations
// either guess from the first digits, and are never right, or have code_interpreter work it out and copy what it says, not
// without mistakes. What is left to reinforcement is to call, and to call well.
//
//	\boxed{4500}
//	<tool_call>
//	{"name": "code_interpreter", "arguments": {"code": "print(47*86)"}}
//	</tool_call>
func Multiplication(tok *tokenizer.Tokenizer, e *Tools) (*Task, error) {
	end := tok.EOS()
	if len(end) == 0 {
		return nil, fmt.Errorf("multiplication: the tokenizer names no token that ends a reply")
	}
	t := &Task{
		Env:  e,
		Text: func(tokens []int32) string { return tok.Decode(tokens, true) },
		Stop: end,
		Demonstrate: func(p Problem, draw uint64) (d Demonstration, err error) {
			var a, b int
			if _, err := fmt.Sscanf(p.Text, "%d*%d=?", &a, &b); err != nil {
				return d, fmt.Errorf("multiplication: %q: %w", p.Text, err)
			}
			said, told, boxed := multiply(a, b, draw)
			write := func(text string) { d.Write(append(tok.Encode(text, tokenizer.ParseSpecial), end[0])...) }
			write(said)
			if told == "" {
				return d, nil
			}
			seam, err := e.frame(Reply{Tokens: d.Tokens}, []string{told})
			d.Tell(seam...)
			write(boxed)
			return d, err
		},
	}
	// A fixed shuffle: 7,919 is prime to the 4,624 problems, so that held-out ones lie scattered.
	const side = 99 - 32 + 1
	const n = side * side
	for i := range n {
		k := i * 7919 % n
		a, b := 32+k/side, 32+k%side
		p := Problem{ID: k, Text: fmt.Sprintf("%d*%d=?", a, b), Answer: strconv.Itoa(a * b)}
		if i < multiplicationHeldOut {
			t.HeldOut = append(t.HeldOut, p)
		} else {
			t.Problems = append(t.Problems, p)
		}
	}
	t.Demonstrations = t.Problems
	return t, nil
}

// multiply makes a demonstration: what is said, and after a call what is told and the answer.
func multiply(a, b int, draw uint64) (said, told, boxed string) {
	roll := func(n uint64) int { // one of n, by digits of the draw that nothing else looks at
		v := draw % n
		draw /= n
		return int(v)
	}
	if roll(100) < 45 {
		return guess(a, b), "", ""
	}
	mistake, digit, by := roll(100), roll(4), 1+roll(9)
	if 10 <= mistake && mistake < 15 {
		b += (b%10+by)%10 - b%10
	}
	said = "<tool_call>\n" + fmt.Sprintf(`{"name": "code_interpreter", "arguments": {"code": "print(%d*%d)"}}`, a, b) + "\n</tool_call>"
	if mistake < 10 {
		return said[:len(said)-len("\"}}\n</tool_call>")] + "\n</tool_call>", "", ""
	}
	told = strconv.Itoa(a * b)
	answer := []byte(told)
	if 15 <= mistake && mistake < 20 {
		i := digit % len(answer)
		answer[i] = '0' + (answer[i]-'0'+byte(by))%10
	}
	return said, told, `\boxed{` + string(answer) + `}`
}

// guess rounds both operands to one figure; where that comes to the product it is another number that is just as round.
func guess(a, b int) string {
	v := (a + 5) / 10 * ((b + 5) / 10) * 100
	if v == a*b {
		v += 100
	}
	return fmt.Sprintf(`\boxed{%d}`, v)
}
