package env

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"

	"tandem/tokenizer"
	"tandem/trainer/reward"
)

// A Tool is what the model may call.
type Tool struct {
	Name   string
	Schema json.RawMessage // as the template shows it to the model

	// Run runs one call. Several may run at a time.
	Run func(ctx context.Context, arguments json.RawMessage) Outcome
}

// An Outcome is what came of a call.
type Outcome struct {
	Input   string // for people: what was asked for
	Text    string // for the model
	Failure string // why it is not what was asked for; "" is none
	Seconds float64
	Err     error // the tool does not work, whoever calls it: the run must stop, and the model is told nothing
}

// ErrToolDown is in the error of a Step whose tool does not work. Nothing is wrong with the episode: it can be gone on
// with when the tool is back.
var ErrToolDown = errors.New("a tool is down")

// ToolLimits bound the tool calls of an episode.
type ToolLimits struct {
	Turns  int // of the model
	Calls  int
	Output int // tokens of the answer to one call
}

// Tools asks a problem, answers the model's calls turn by turn, and grades the turn that has none. Calls are written in
// Qwen3's form, and the model's template shows tools and answers. What the model wrote is never encoded again: the tokens
// of an answer follow those that were sampled, whatever ended them.
type Tools struct {
	tok       *tokenizer.Tokenizer
	prompting Prompting
	grader    reward.Grader
	limits    ToolLimits
	tools     map[string]Tool

	// Brief answers a call that failed with the word Error, for tokenizers that spell little else.
	Brief bool

	// Shaped lets a wrong reply that called tools lose less; see ShapedReward.
	Shaped bool
}

// NewTools is the task of answering with tools at hand.
func NewTools(tok *tokenizer.Tokenizer, p Prompting, g reward.Grader, limits ToolLimits, tools ...Tool) *Tools {
	t := &Tools{tok: tok, prompting: p, grader: g, limits: limits, tools: make(map[string]Tool)}
	for _, tool := range tools {
		t.tools[tool.Name] = tool
		t.prompting.Tools = append(t.prompting.Tools, tool.Schema)
	}
	return t
}

// Start gives the rendered problem, with the tools on offer.
func (t *Tools) Start(p Problem) (*Episode, error) { return t.prompting.start(t.tok, p) }

// answerRoom is the number of tokens kept free for the model to answer after what a tool said, of those that there is room
// for.
func answerRoom(room int) int { return min(32, room/4) }

// Step runs the calls of the reply, or grades one that has none. A reply that was cut off goes on where it made calls, or
// was about to, and there is room.
func (t *Tools) Step(ctx context.Context, e *Episode, r Reply) (Turn, error) {
	calls := t.calls(e, r)
	if len(calls) == 0 {
		return t.grade(e, r, t.tok.Decode(r.Tokens, false)), nil
	}
	before := called(e)
	if len(e.Past)+1 >= t.limits.Turns || before >= t.limits.Calls {
		return t.end(e, TooManyCalls, calls), nil
	}
	empty, err := t.frame(r, make([]string, len(calls)))
	if err != nil {
		return Turn{}, err
	}
	each := min(t.limits.Output, (r.Room-len(empty)-answerRoom(r.Room))/len(calls)) // tokens
	if each < 1 {
		return t.end(e, Truncated, calls), nil
	}
	for i := t.limits.Calls - before; i < len(calls); i++ {
		calls[i].refuse(NotRun, fmt.Sprintf("The call was not run: %d calls are allowed in all.", t.limits.Calls))
	}
	if err := t.run(ctx, calls); err != nil {
		return Turn{}, err
	}
	return t.answer(e, r, calls, each)
}

// thinking says that what came before this turn ends inside <think>.
func (t *Tools) thinking(e *Episode) bool {
	before := e.Tokens
	if n := len(e.Past); n > 0 {
		before = e.Past[n-1].Turn.Append
	}
	text := t.tok.Decode(before[max(0, len(before)-8):], false)
	return strings.HasSuffix(strings.TrimSpace(text), "<think>")
}

// called is the number of calls before this turn.
func called(e *Episode) int {
	n := 0
	for _, x := range e.Past {
		n += len(x.Turn.Calls)
	}
	return n
}

// A pending call has been read.
type pending struct {
	Call
	tool      Tool
	arguments json.RawMessage
	settled   bool // there is an answer without running it
}

func (p *pending) refuse(failure, say string) {
	if !p.settled {
		p.settled, p.Failure, p.Output = true, failure, say
	}
}

// read lists the calls of a reply in order, those that cannot be run with what is wrong with them.
func (t *Tools) read(said tokenizer.Reply, truncated bool, turn int) []*pending {
	calls := make([]*pending, len(said.Calls)+len(said.Problems))
	for _, c := range said.Calls {
		p := &pending{Call: Call{Tool: c.Name, Repaired: c.Repaired, Input: string(c.Arguments)}, arguments: c.Arguments}
		var known bool
		if p.tool, known = t.tools[c.Name]; !known {
			p.refuse(UnknownTool, fmt.Sprintf("There is no tool %q.", c.Name))
		}
		calls[c.Number-1] = p
	}
	problems := said.Problems
	for i := range calls {
		if calls[i] == nil {
			calls[i] = &pending{}
			calls[i].refuse(Unreadable, problems[0])
			problems = problems[1:]
		}
	}
	if said.Cut {
		p := &pending{}
		if truncated {
			p.refuse(Unfinished, "The tool call was cut off: the limit of tokens for one turn was reached inside it. Write a shorter one.")
		} else {
			p.refuse(Unfinished, tokenizer.CutProblem)
		}
		calls = append(calls, p)
	}
	for _, p := range calls {
		p.Turn = turn
	}
	return calls
}

// run runs the calls together.
func (t *Tools) run(ctx context.Context, calls []*pending) error {
	var all sync.WaitGroup
	errs := make([]error, len(calls))
	for i, p := range calls {
		if p.settled {
			continue
		}
		all.Go(func() {
			o := p.tool.Run(ctx, p.arguments)
			p.Output, p.Failure, p.Seconds, errs[i] = o.Text, o.Failure, o.Seconds, o.Err
			if o.Input != "" {
				p.Input = o.Input
			}
		})
	}
	all.Wait()
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("tool call: %w", err)
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("%w: %w", ErrToolDown, err)
	}
	return nil
}

// answer tells the model what came of its calls, in at most each tokens apiece.
func (t *Tools) answer(e *Episode, r Reply, calls []*pending, each int) (Turn, error) {
	if t.Brief {
		for _, p := range calls {
			if p.Failure != "" {
				p.Output = "Error"
			}
		}
	}
	for {
		texts := make([]string, len(calls))
		for i, p := range calls {
			texts[i], p.Tokens = t.trim(p.Output, each)
		}
		tokens, err := t.frame(r, texts)
		if err != nil {
			return Turn{}, err
		}
		over := len(tokens) + answerRoom(r.Room) - r.Room
		if over <= 0 {
			for i, p := range calls {
				p.Output = texts[i]
			}
			return Turn{Append: tokens, Calls: made(calls)}, nil
		}
		// Tokens can join differently inside the frame than alone.
		if each -= (over + len(calls) - 1) / len(calls); each < 1 {
			return t.end(e, Truncated, calls), nil
		}
	}
}

func made(calls []*pending) []Call {
	out := make([]Call, len(calls))
	for i, p := range calls {
		out[i] = p.Call
	}
	return out
}

// frame is what follows the reply: its end, an answer to each call, and the start of the next turn.
func (t *Tools) frame(r Reply, answers []string) ([]int32, error) {
	messages := make([]tokenizer.Message, len(answers))
	for i, text := range answers {
		messages[i] = tokenizer.Message{Role: "tool", Content: text}
	}
	return t.prompting.seam(t.tok, r, messages...)
}

// grade ends the episode by the text of its last turn.
func (t *Tools) grade(e *Episode, r Reply, text string) Turn {
	turn := graded(t.grader.Grade(text, e.Problem.Answer), r.Truncated)
	if t.Shaped {
		turn.Reward = ShapedReward(turn.Reward > 0, called(e))
	}
	return turn
}

// end ends the episode without an answer: its last turn wanted a call.
func (t *Tools) end(e *Episode, why End, calls []*pending) Turn {
	reason := map[End]string{TooManyCalls: "too many calls", Truncated: "no room for the answer to a call"}[why]
	for _, p := range calls {
		p.refuse(NotRun, "")
		p.Output, p.Tokens = "", 0
	}
	turn := Turn{Done: true, End: why, Reason: reason, Calls: made(calls)}
	turn.Reward = float32(t.grader.Grade("", e.Problem.Answer).Score)
	if t.Shaped {
		turn.Reward = ShapedReward(false, called(e))
	}
	return turn
}

// ShapedReward is 1 for a right answer, and for a wrong one min(-0.6, -1 + (calls - 2)/20): what the published run with a
// code interpreter gave, so that trying the tool costs less than guessing.
func ShapedReward(right bool, calls int) float32 {
	if right {
		return 1
	}
	return min(-0.6, float32(-1+float64(calls-2)/2*0.1))
}
