package main

import (
	"errors"
	"fmt"
	"strings"

	"tandem/trainer"
)

// resumed is the recipe of a run, which the given one, if any, must equal. Settings without a recipe are held against the
// run's own.
func resumed(text []byte, given *trainer.Recipe, set []string) (trainer.Recipe, error) {
	r, err := trainer.ParseRecipe(text)
	if err != nil {
		return r, err
	}
	is := r
	if given != nil {
		is = *given
	} else if is, err = trainer.ParseRecipe(text, set...); err != nil {
		return r, err
	}
	if is == r {
		return r, nil
	}
	return r, errors.New("the recipe is another one, and would not end with the run's bits:\n" + strings.Join(differences(r, is), "\n"))
}

// differences names the keys in which recipes differ.
func differences(was, is trainer.Recipe) []string {
	a, b := keys(was), keys(is) // the same keys in the same order
	var diff []string
	for i := range a {
		if a[i].value != b[i].value {
			diff = append(diff, fmt.Sprintf("  %s was %s, is %s", a[i].key, a[i].value, b[i].value))
		}
	}
	return diff
}

type setting struct{ key, value string }

// keys are those of a recipe, with the names of their tables.
func keys(r trainer.Recipe) []setting {
	var all []setting
	table := ""
	for line := range strings.Lines(string(r.TOML())) {
		line = strings.TrimSpace(line)
		if name, ok := strings.CutPrefix(line, "["); ok {
			table = strings.TrimSuffix(name, "]") + "."
		} else if key, value, ok := strings.Cut(line, " = "); ok {
			all = append(all, setting{table + key, value})
		}
	}
	return all
}
