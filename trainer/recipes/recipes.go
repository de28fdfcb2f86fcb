// Package recipes holds the recipes that ship with tandem, and the tokenizer of the demonstrations.
package recipes

import (
	"embed"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

//go:embed *.toml
var files embed.FS

//go:embed demo-tokenizer demo-tools-tokenizer
var tokenizers embed.FS

// Names of the recipes.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(fmt.Sprintf("recipes: %v", err)) // embedded
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".toml"))
	}
	return names
}

// Read gives the text of a recipe: a name that ships, or a file.
func Read(name string) ([]byte, error) {
	if b, err := files.ReadFile(name + ".toml"); err == nil {
		return b, nil
	}
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("recipe %q: it is neither a file nor one of %v: %w", name, Names(), err)
	}
	return b, nil
}

// WriteTokenizer writes the files of a demonstration's tokenizer, "demo" or "demo-tools", into a directory, which it makes.
func WriteTokenizer(name, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("tokenizer %s: %w", name, err)
	}
	from := name + "-tokenizer"
	entries, err := tokenizers.ReadDir(from)
	if err != nil {
		return fmt.Errorf("tokenizer %s: %w", name, err)
	}
	for _, e := range entries {
		b, err := tokenizers.ReadFile(from + "/" + e.Name())
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, e.Name()), b, 0o644)
		}
		if err != nil {
			return fmt.Errorf("tokenizer %s: %w", name, err)
		}
	}
	return nil
}
