// Package gradefile grades files of responses: rows in, the same rows with one object
// per grader out, in order, on all cores, in memory that does not grow with the file.
// It also measures graders on labelled data. It is what `tandem grade` runs.
package gradefile
