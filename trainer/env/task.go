package env

// A Task is what a run learns: an Env, the problems to train on and those held out.
type Task struct {
	Env      Env
	Problems []Problem
	HeldOut  []Problem

	// Demonstrations are the problems of supervised training, and Demonstrate shows how one is answered; draw is a random
	// number of its own. Nil where there are none.
	Demonstrations []Problem
	Demonstrate    func(p Problem, draw uint64) (Demonstration, error)

	// Text is how tokens read, for people.
	Text func(tokens []int32) string

	// Stop are the tokens that end a turn.
	Stop []int32
}

// A Demonstration is what follows a prompt: what the model is to write, and what it is told in between.
type Demonstration struct {
	Tokens []int32
	Spans  [][2]int // stretches of Tokens to learn, in order
}

// Write adds tokens to learn.
func (d *Demonstration) Write(tokens ...int32) {
	at := len(d.Tokens)
	d.Tokens = append(d.Tokens, tokens...)
	d.Spans = append(d.Spans, [2]int{at, len(d.Tokens)})
}

// Tell adds tokens that the model is told.
func (d *Demonstration) Tell(tokens ...int32) { d.Tokens = append(d.Tokens, tokens...) }
