// Package tandem holds nothing but the rules of this repository, as tests.
package tandem
