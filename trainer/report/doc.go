// Package report shows runs to people: one as a page that needs nothing but itself, several side by side, and their
// figures as TensorBoard reads them. It reads what a run directory holds, by name, and knows no code that made it: a figure
// or a key that it has never heard of is shown like any other.
package report
