package model

import (
	"fmt"
	"math"
)

// Config is the shape of a dense Qwen3 and what else its directory says about it. ReadConfig and Shape give sound ones.
type Config struct {
	Vocab   int // V, rows of the embedding and of the head
	Hidden  int // D
	Layers  int // L
	Heads   int // H
	KVHeads int // K, divides H
	HeadDim int // E, even; not D/H in general
	MLP     int // F

	// Live is the number of ids that are tokens: rows from Live to V only pad the matrix. They are never sampled and are
	// no part of any log-prob. ReadConfig gives V; who knows the tokenizer lowers it.
	Live int

	Eps          float32 // of every RMSNorm
	RopeTheta    float64
	RopeScaling  *YaRN   // nil is none
	MaxPositions int     // as trained, before RopeScaling
	Tied         bool    // the head is the embedding
	InitRange    float64 // standard deviation of random weights

	EOS   []int32 // ids that end a reply; generation_config.json has them before config.json
	BOS   int32   // -1 is none
	Pad   int32   // -1 is none
	DType string  // of the files: bfloat16, float16 or float32
}

// YaRN stretches the rotary frequencies so that positions beyond the trained ones can be told apart.
type YaRN struct {
	Factor             float64
	Original           int     // positions the frequencies were trained for
	Attention          float64 // factor on cos and sin; 0.1·ln(Factor)+1 unless the directory says otherwise
	BetaFast, BetaSlow float64 // rotations within Original above which, and below which, a frequency is kept or divided
}

// NewYaRN is YaRN as Qwen3 documents it.
func NewYaRN(factor float64, original int) *YaRN {
	return &YaRN{Factor: factor, Original: original, Attention: 0.1*math.Log(factor) + 1, BetaFast: 32, BetaSlow: 1}
}

// Context is the number of positions that the rotary frequencies are good for.
func (c Config) Context() int {
	if y := c.RopeScaling; y != nil {
		return max(c.MaxPositions, int(y.Factor*float64(y.Original)))
	}
	return c.MaxPositions
}

// Bounds that no dense model comes near, so that what is computed from sizes fits an int.
const (
	maxDim    = 1 << 24
	maxLayers = 1 << 12
	maxParams = 1 << 40
)

// Check says in a sentence what is wrong with a config, if something is.
func (c Config) Check() error {
	for _, f := range []struct {
		name  string
		n, hi int
	}{
		{"vocab_size", c.Vocab, maxDim},
		{"hidden_size", c.Hidden, maxDim},
		{"num_hidden_layers", c.Layers, maxLayers},
		{"num_attention_heads", c.Heads, maxDim},
		{"num_key_value_heads", c.KVHeads, maxDim},
		{"head_dim", c.HeadDim, maxDim},
		{"intermediate_size", c.MLP, maxDim},
		{"max_position_embeddings", c.MaxPositions, maxDim},
		{"number of tokens", c.Live, c.Vocab},
	} {
		if f.n < 1 || f.n > f.hi {
			return fmt.Errorf("%s is %d, want 1 to %d", f.name, f.n, f.hi)
		}
	}
	if c.Heads%c.KVHeads != 0 {
		return fmt.Errorf("%d query heads cannot share %d key/value heads evenly", c.Heads, c.KVHeads)
	}
	if c.HeadDim%2 != 0 {
		return fmt.Errorf("head_dim is %d, want an even number: rotary embedding turns pairs", c.HeadDim)
	}
	// In float64, where no product of the bounded sizes overflows.
	V, D, L, F, E := float64(c.Vocab), float64(c.Hidden), float64(c.Layers), float64(c.MLP), float64(c.HeadDim)
	if n := 2*V*D + L*D*(2*E*float64(c.Heads+c.KVHeads)+3*F); n > maxParams {
		return fmt.Errorf("the sizes make %.3g parameters, more than the %d that can be addressed", n, maxParams)
	}
	if !(c.Eps > 0 && c.Eps < 1) {
		return fmt.Errorf("rms_norm_eps is %v, want more than 0 and less than 1", c.Eps)
	}
	if !(c.RopeTheta > 1 && c.RopeTheta <= math.MaxFloat32) {
		return fmt.Errorf("rope_theta is %v, want more than 1", c.RopeTheta)
	}
	if !(c.InitRange > 0 && c.InitRange <= 1) {
		return fmt.Errorf("initializer_range is %v, want more than 0 and at most 1", c.InitRange)
	}
	if err := c.RopeScaling.check(); err != nil {
		return err
	}
	for _, id := range c.EOS {
		if id < 0 || int(id) >= c.Vocab {
			return fmt.Errorf("eos_token_id %d is not in the vocabulary of %d: replies would never end", id, c.Vocab)
		}
	}
	switch c.DType {
	case "bfloat16", "float16", "float32":
		return nil
	}
	return fmt.Errorf("dtype %q is not supported, want bfloat16, float16 or float32", c.DType)
}

func (y *YaRN) check() error {
	switch {
	case y == nil:
		return nil
	case !(y.Factor >= 1 && y.Factor <= 1024):
		return fmt.Errorf("YaRN: factor is %v, want 1 to 1024", y.Factor)
	case y.Original < 1 || y.Original > maxDim:
		return fmt.Errorf("YaRN: original_max_position_embeddings is %d, want 1 to %d", y.Original, maxDim)
	case !(y.Attention > 0 && y.Attention <= 1024):
		return fmt.Errorf("YaRN: attention_factor is %v, want more than 0", y.Attention)
	case !(y.BetaSlow > 0 && y.BetaSlow <= y.BetaFast && y.BetaFast <= maxDim):
		return fmt.Errorf("YaRN: beta_slow is %v and beta_fast %v, want 0 < beta_slow <= beta_fast", y.BetaSlow, y.BetaFast)
	}
	return nil
}
