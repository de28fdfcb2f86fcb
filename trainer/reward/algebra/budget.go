package algebra

import "errors"

// ErrBudget says that a comparison was given up because its step budget was spent.
var ErrBudget = errors.New("step budget spent")

// A Budget is a number of steps, roughly nanoseconds of one core, that one
// comparison may take. It is sticky: once spent, every operation that charges it
// returns at once with a value that means nothing, and the caller looks at Spent
// before it believes a verdict.
type Budget struct{ left int }

// NewBudget returns a budget of the given number of steps.
func NewBudget(steps int) *Budget { return &Budget{left: steps} }

// Spend takes steps off the budget and reports whether any are left.
func (b *Budget) Spend(steps int) bool {
	if steps > b.left {
		b.left = -1
		return false
	}
	b.left -= steps
	return true
}

// exhaust spends all of it: what was asked for is beyond every budget.
func (b *Budget) exhaust() { b.left = -1 }

// Spent reports whether the budget has run out.
func (b *Budget) Spent() bool { return b.left < 0 }

// Left is the number of steps that remain, never negative.
func (b *Budget) Left() int { return max(b.left, 0) }
