// Package env holds the tasks: what the model is asked, what it is told in reply, and what its answer was worth. An Env
// speaks tokens with the trainer and text with graders and tools.
package env

import "context"

// A Problem is one row of a data set.
type Problem struct {
	ID     int    // its row
	Text   string // what the model is asked
	Answer string // what the grader compares with
	Reply  string // a demonstration, for supervised training
}

// An Env is a task. It keeps nothing of an episode: what has happened in one is in the Episode, so that an episode can be
// gone on with in another process.
type Env interface {
	// Start gives the tokens of the prompt.
	Start(p Problem) (*Episode, error)

	// Step takes the model's turn and gives the answer to it. Where the reply's Room is 0 the answer is the end. An error
	// stops the run: what the model did wrong is no error.
	Step(ctx context.Context, e *Episode, r Reply) (Turn, error)
}

// A Cutter is an Env that can say afterwards what a shorter reply would have been worth.
type Cutter interface {
	// Cut is the reward of an episode whose token limit is met at the end of last, a beginning of a turn. e has what was
	// before it, but for the calls.
	Cut(e *Episode, last []int32) float32
}

// An Episode is one attempt at a problem.
type Episode struct {
	Problem Problem
	Tokens  []int32    // the prompt
	Past    []Exchange // kept by whoever plays the episode
}

// An Exchange is a turn of the model with the answer to it.
type Exchange struct {
	Reply Reply
	Turn  Turn
}

// A Reply is one turn of the model.
type Reply struct {
	Tokens    []int32
	Truncated bool // a limit ended it: the turn's, the episode's or the context's
	Room      int  // tokens that the answer to it can have at most; 0 where the model has none left to write
}

// A Turn is the answer to a reply: tokens to go on from, or the end with a reward.
type Turn struct {
	Append []int32
	Calls  []Call // tools that the reply called, in its order

	Done   bool
	Reward float32
	Reason string // why the reward is what it is
	End    End    // what ended the episode

	// Process are rewards along the way, beside the Reward of the whole: one for the turn, or one for each of its tokens
	// (a NaN: none). Nil is none.
	Process []float32
}

// An End is what ended an episode.
type End string

// Ends.
const (
	Answered     End = "answered"
	NoAnswer     End = "no_answer"      // the model stopped without an answer that the grader can find
	Truncated    End = "truncated"      // a limit of tokens, even where the grader found an answer before it
	TooManyCalls End = "too_many_calls" // it wanted another call, or another turn with one, than is allowed
)

// A Call is a call of a tool and what became of it.
type Call struct {
	Turn     int     // of the model, counted from 0
	Tool     string  // "" where that could not be read
	Input    string  // what the tool was given, for people: of code_interpreter, the program
	Output   string  // what the model was told
	Failure  string  // "" is none; else one of the reasons in this package or the tool's own
	Repaired bool    // its JSON was read with leniency
	Seconds  float64 // that the tool took
	Tokens   int     // of the output
}

// Failures of calls that reached no tool.
const (
	Unreadable  = "unreadable"    // not the JSON of a call
	Unfinished  = "unfinished"    // the reply ended inside the call
	UnknownTool = "unknown_tool"  // no tool has that name
	BadArgument = "bad_arguments" // the tool cannot be called with them
	NotRun      = "not_run"       // one more than is allowed
)
