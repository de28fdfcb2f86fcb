// Package env holds the tasks: what the model is asked, what it is told in reply, and what its answer was worth. An Env
// speaks tokens with the trainer and text with the graders.
package env

import "context"

// A Problem is one row of a data set.
type Problem struct {
	ID     int    // its row
	Text   string // what the model is asked
	Answer string // what the grader compares with
	Reply  string // a demonstration, for supervised training
}

// An Env is a task. It keeps nothing of an episode; what has happened in one is in the Episode, which Step may change.
type Env interface {
	// Start gives the tokens of the prompt.
	Start(p Problem) (*Episode, error)

	// Step takes the model's turn and gives the answer to it.
	Step(ctx context.Context, e *Episode, r Reply) (Turn, error)
}

// A Cutter is an Env that can say what a shorter reply would have been worth.
type Cutter interface {
	// Cut is the reward of an episode that the token limit ended after reply: all tokens from the first turn on.
	Cut(p Problem, reply []int32) float32
}

// An Episode is one attempt at a problem.
type Episode struct {
	Problem Problem
	Tokens  []int32 // the prompt
	Turns   int     // taken by the model
	State   any     // the Env's own
}

// A Reply is one turn of the model.
type Reply struct {
	Tokens    []int32
	Truncated bool // the token limit ended it
}

// A Turn is the answer to a reply: tokens to go on from, or the end with a reward.
type Turn struct {
	Append []int32

	Done   bool
	Reward float32
	Reason string // why the reward is what it is
}
