// Package reward grades final answers: a response and the gold answer in, a score
// and the reason for it out.
//
// Two families of graders share it. The published ones (math, dapo, dapo-strict,
// deepscaler) decide what the systems of that name decide, quirks included, because
// a run is comparable only under the same reward. tandem decides by mathematics.
//
// A grader is a pure function: no clock, no state, safe for any number of goroutines.
// Every one is bounded on hostile input by input lengths and step budgets.
package reward
