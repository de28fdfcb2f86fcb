package model

import (
	"fmt"
	"strings"
)

// readme is the model card of a saved directory.
func readme(name string, c Config, facts [][2]string) []byte {
	cell := strings.NewReplacer("|", `\|`, "\r", " ", "\n", " ")
	var b strings.Builder
	fmt.Fprintf(&b, "---\nlibrary_name: transformers\npipeline_tag: text-generation\n---\n\n# %s\n\n", cell.Replace(name))
	fmt.Fprintf(&b, "A dense Qwen3 of %s parameters in %s, written by Tandem.\n\n", count(Count(c)), c.DType)
	b.WriteString("| | |\n|---|---|\n")
	tied := "a matrix of its own"
	if c.Tied {
		tied = "the embedding (tied)"
	}
	for _, f := range append([][2]string{
		{"layers, width, MLP", fmt.Sprintf("%d, %d, %d", c.Layers, c.Hidden, c.MLP)},
		{"query heads, key/value heads, head dim", fmt.Sprintf("%d, %d, %d", c.Heads, c.KVHeads, c.HeadDim)},
		{"vocabulary", fmt.Sprint(c.Vocab)},
		{"context", fmt.Sprint(c.Context())},
		{"head", tied},
	}, facts...) {
		fmt.Fprintf(&b, "| %s | %s |\n", cell.Replace(f[0]), cell.Replace(f[1]))
	}
	b.WriteString("\n```python\nfrom transformers import AutoModelForCausalLM\nmodel = AutoModelForCausalLM.from_pretrained(\".\")\n```\n")
	return []byte(b.String())
}

// count is n in the unit a reader expects.
func count(n int) string {
	switch {
	case n >= 1e9:
		return fmt.Sprintf("%.2f billion", float64(n)/1e9)
	case n >= 1e6:
		return fmt.Sprintf("%.2f million", float64(n)/1e6)
	}
	return fmt.Sprint(n)
}
