package model

import (
	"fmt"
	"strings"
)

// ShapeNames lists what Shape knows.
const ShapeNames = "0.6b, 1.7b, 4b, 4b-instruct-2507, 8b, 14b, 32b, tiny"

// Shape is the config of a published Qwen3, or of the tiny model of the demo, which learns in minutes on a CPU. The tiny
// one's vocabulary and stop tokens are its tokenizer's: set Vocab, Live and EOS together.
func Shape(name string) (Config, error) {
	c := Config{
		Vocab: 151936, Live: 151669, HeadDim: 128, KVHeads: 8,
		Eps: 1e-6, RopeTheta: 1e6, MaxPositions: 40960, InitRange: 0.02,
		EOS: []int32{151645, 151643}, BOS: 151643, Pad: 151643, DType: "bfloat16",
	}
	switch strings.ToLower(name) {
	case "0.6b":
		c.Hidden, c.Layers, c.Heads, c.MLP, c.Tied = 1024, 28, 16, 3072, true
	case "1.7b":
		c.Hidden, c.Layers, c.Heads, c.MLP, c.Tied = 2048, 28, 16, 6144, true
	case "4b":
		c.Hidden, c.Layers, c.Heads, c.MLP, c.Tied = 2560, 36, 32, 9728, true
	case "4b-instruct-2507":
		c.Hidden, c.Layers, c.Heads, c.MLP, c.Tied = 2560, 36, 32, 9728, true
		c.RopeTheta, c.MaxPositions = 5e6, 262144
	case "8b":
		c.Hidden, c.Layers, c.Heads, c.MLP = 4096, 36, 32, 12288
	case "14b":
		c.Hidden, c.Layers, c.Heads, c.MLP = 5120, 40, 40, 17408
	case "32b":
		c.Hidden, c.Layers, c.Heads, c.MLP = 5120, 64, 64, 25600
	case "tiny":
		c.Hidden, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.MLP, c.Tied = 128, 4, 4, 2, 32, 384, true
		c.Vocab, c.Live = 28, 28
		c.RopeTheta, c.MaxPositions, c.InitRange = 1e4, 1024, 0.06
		c.EOS, c.BOS, c.Pad = nil, -1, -1
	default:
		return Config{}, fmt.Errorf("model shape %q is not known, want one of %s", name, ShapeNames)
	}
	return c, nil
}
