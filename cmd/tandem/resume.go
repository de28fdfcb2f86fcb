package main

import (
	"errors"
	"fmt"
	"strings"

	"tandem/trainer"
	"tandem/trainer/run"
)

// resumed is the recipe of a run, which the given one, if any, must equal. Settings without a recipe are held against the
// run's own. Only the places of models and data may differ.
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
	if places(is, r) == r {
		return is, nil
	}
	return r, errors.New("the recipe is another one, and would not end with the run's bits:\n" + strings.Join(differences(r, is), "\n"))
}

// places is a recipe with what it needs where another one has it. What lies there decides the run, not the place.
func places(r, from trainer.Recipe) trainer.Recipe {
	r.Model.Dir, r.Model.Tokenizer = from.Model.Dir, from.Model.Tokenizer
	r.Data.Train, r.Data.HeldOut, r.Warmup.Data = from.Data.Train, from.Data.HeldOut, from.Warmup.Data
	for _, place := range []struct{ is, was *string }{{&r.Data.Rollouts, &from.Data.Rollouts}, {&r.Teacher.Dir, &from.Teacher.Dir}} {
		if *place.is != "" && *place.was != "" { // where one has none, the runs differ
			*place.is = *place.was
		}
	}
	return r
}

// differences names the keys in which recipes differ.
func differences(was, is trainer.Recipe) []string {
	a, b := keys(was), keys(places(is, was)) // the same keys in the same order
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

// sameModel refuses a model from another place as long as the run has no full state: it might be another model.
func sameModel(text []byte, r trainer.Recipe, dir *run.Dir) error {
	was, err := trainer.ParseRecipe(text)
	if err != nil || was.Model == r.Model {
		return err
	}
	if _, stands, err := standing(r, dir); stands || err != nil {
		return err
	}
	return fmt.Errorf("the model is %q, was %q, and without a full state the run needs the weights that it began with", source(r), source(was))
}
