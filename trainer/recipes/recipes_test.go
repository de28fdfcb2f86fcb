package recipes_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tandem/tokenizer"
	"tandem/trainer/recipes"
)

func TestRead(t *testing.T) {
	if !slices.Contains(recipes.Names(), "demo") {
		t.Errorf("recipes %v, want demo among them", recipes.Names())
	}
	file := filepath.Join(t.TempDir(), "own.toml")
	if err := os.WriteFile(file, []byte("seed = 2\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range append(recipes.Names(), file) {
		if b, err := recipes.Read(name); err != nil || len(b) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(b), err)
		}
	}
	if _, err := recipes.Read("none"); err == nil || !strings.Contains(err.Error(), "demo") {
		t.Errorf("an unknown recipe: %v, want the names of those there are", err)
	}
}

func TestDemoTokenizerSpellsItsTask(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "tokenizer")
	if err := recipes.WriteTokenizer("demo", dir); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tok.Close()
	for text, n := range map[string]int{`\boxed{95}`: 4, `7+8=15 4+5+1=10 \boxed{105}`: 21} {
		tokens := tok.Encode(text, tokenizer.SpecialAsText)
		if got := tok.Decode(tokens, true); len(tokens) != n || got != text {
			t.Errorf("%q: %d tokens that read %q, want %d", text, len(tokens), got, n)
		}
	}
}
