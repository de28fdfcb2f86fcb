// Package algebra decides whether two mathematical expressions are the same.
//
// An Expr is a tree. Two of them are compared in three stages, cheapest first:
// as rationals; as quotients of polynomials over the rationals in variables,
// radicals, i, π and e (normal.go), which proves equality and, for most inputs,
// inequality; and by evaluation at random points in high precision with an error
// bound on every value (ball.go), which proves inequality and accepts equality
// when the values agree to more than 128 bits at every point.
//
// All work is charged to a Budget, so that hostile input ends in the same verdict
// on every machine, however slow. Nothing here reads a clock.
package algebra
