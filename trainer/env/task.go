package env

// A Task is what a run learns: an Env, the problems to train on and those held out.
type Task struct {
	Env      Env
	Problems []Problem
	HeldOut  []Problem

	// Demonstrations are the problems of supervised training, and Demonstrate gives the tokens of a reply to learn from;
	// draw is a random number of its own. Nil where there are none.
	Demonstrations []Problem
	Demonstrate    func(p Problem, draw uint64) ([]int32, error)

	// Text is how tokens read, for people.
	Text func(tokens []int32) string

	// Stop are the tokens that end a turn.
	Stop []int32
}
