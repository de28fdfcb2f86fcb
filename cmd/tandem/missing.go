package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"tandem/trainer"
	"tandem/trainer/env"
)

// missingFiles says which files and directories that a recipe names are not there: a line for each.
func missingFiles(r trainer.Recipe) []string {
	var missing []string
	want := func(key, path, what string) {
		if path == "" {
			return
		}
		if _, err := os.Stat(path); err != nil {
			missing = append(missing, fmt.Sprintf("%s = %q, %s: %v", key, path, what, errors.Unwrap(err)))
		}
	}
	want("model.dir", r.Model.Dir, "a Hugging Face directory: config.json, tokenizer.json, *.safetensors")
	if t := r.Model.Tokenizer; t != "demo" && t != "demo-tools" { // which ship
		want("model.tokenizer", r.Model.Tokenizer, "a directory with tokenizer.json and tokenizer_config.json")
	}
	want("data.train", env.DataPath(r.Data.Train), "problems to train on, JSON Lines or Parquet")
	want("data.held_out", env.DataPath(r.Data.HeldOut), "problems to evaluate on, JSON Lines or Parquet")
	want("warmup.data", env.DataPath(r.Warmup.Data), "prompts and replies, JSON Lines or Parquet")
	return missing
}

// missingError says what to do about missing files.
func missingError(r trainer.Recipe, missing []string) error {
	var b strings.Builder
	b.WriteString("these files are not here, seen from the working directory:")
	for _, m := range missing {
		b.WriteString("\n  " + m)
	}
	if fetch := strings.TrimSpace(r.Fetch); fetch != "" {
		b.WriteString("\nthe recipe says how to fetch them:\n  " + strings.ReplaceAll(fetch, "\n", "\n  "))
	}
	b.WriteString("\nother places: --set model.dir=DIR --set data.train=FILE")
	return errors.New(b.String())
}
