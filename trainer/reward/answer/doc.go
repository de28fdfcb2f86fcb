// Package answer reads final answers of mathematical problems, in LaTeX or in plain
// text, and decides whether two of them say the same.
//
// Parse turns a text into a Value: a number or an expression, a list, a tuple or an
// interval, a set, an equation or an inequality, a matrix, a numeral in a base, a
// ratio, or words. Equal compares two values by mathematics, with the algebra package
// underneath.
//
// Conventions: a percent sign, a degree mark outside trigonometric functions and a unit
// that the other side lacks are dropped; a digit before a proper fraction is a mixed
// number; letters side by side are a product; variables are real; log is to base 10;
// lists without brackets and sets are unordered, and count their repeats.
package answer
