package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	configName     = "config.json"
	generationName = "generation_config.json"
	maxConfigBytes = 16 << 20 // published ones are under 1 kB
)

// configFile is config.json. Fields are in the order of published files. Pointers tell an absent value from zero.
type configFile struct {
	Architectures    []string        `json:"architectures"`
	AttentionBias    bool            `json:"attention_bias"`
	AttentionDropout float64         `json:"attention_dropout"`
	BOS              *int32          `json:"bos_token_id"`
	DType            string          `json:"dtype,omitempty"` // since transformers 5
	EOS              json.RawMessage `json:"eos_token_id"`
	HeadDim          *int            `json:"head_dim"`
	HiddenAct        *string         `json:"hidden_act"`
	Hidden           *int            `json:"hidden_size"`
	InitRange        *float64        `json:"initializer_range"`
	MLP              *int            `json:"intermediate_size"`
	LayerTypes       []string        `json:"layer_types,omitempty"`
	MaxPositions     *int            `json:"max_position_embeddings"`
	MaxWindowLayers  *int            `json:"max_window_layers"`
	ModelType        string          `json:"model_type"`
	Heads            *int            `json:"num_attention_heads"`
	Experts          int             `json:"num_experts,omitempty"`
	Layers           *int            `json:"num_hidden_layers"`
	KVHeads          *int            `json:"num_key_value_heads"`
	Pad              *int32          `json:"pad_token_id,omitempty"`
	Quantization     json.RawMessage `json:"quantization_config,omitempty"`
	Eps              *float32        `json:"rms_norm_eps"`
	RopeParameters   json.RawMessage `json:"rope_parameters,omitempty"` // since transformers 5
	RopeScaling      json.RawMessage `json:"rope_scaling"`
	RopeTheta        *float64        `json:"rope_theta"`
	SlidingWindow    *int            `json:"sliding_window"`
	Tied             bool            `json:"tie_word_embeddings"`
	TorchDType       string          `json:"torch_dtype"`
	Version          string          `json:"transformers_version"`
	UseCache         bool            `json:"use_cache"`
	UseSlidingWindow bool            `json:"use_sliding_window"`
	Vocab            *int            `json:"vocab_size"`
}

// generationFile is what generation_config.json says about tokens.
type generationFile struct {
	BOS *int32          `json:"bos_token_id,omitempty"`
	EOS json.RawMessage `json:"eos_token_id,omitempty"`
	Pad *int32          `json:"pad_token_id,omitempty"`
}

// ReadConfig reads config.json of a dense Qwen3 directory, in the published layout or that of transformers 5, and the
// stop and padding tokens of generation_config.json where there is one. What Tandem does not compute is refused by name.
func ReadConfig(dir string) (Config, error) {
	var f configFile
	var g generationFile
	path := filepath.Join(dir, configName)
	if err := readJSON(path, &f); err != nil {
		return Config{}, fmt.Errorf("read %s: %w", path, err)
	}
	c, err := f.config()
	if err != nil {
		return Config{}, fmt.Errorf("read %s: %w", path, err)
	}
	path = filepath.Join(dir, generationName)
	if err := readJSON(path, &g); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Config{}, fmt.Errorf("read %s: %w", path, err)
	}
	if given(g.EOS) {
		if c.EOS, err = tokenIDs(g.EOS); err != nil {
			return Config{}, fmt.Errorf("read %s: %w", path, err)
		}
	}
	c.Pad = or(g.Pad, c.Pad)
	if err := c.Check(); err != nil {
		return Config{}, fmt.Errorf("read %s: %w", dir, err)
	}
	return c, nil
}

func (f *configFile) config() (Config, error) {
	if err := f.supported(); err != nil {
		return Config{}, err
	}
	c := Config{
		HeadDim:      or(f.HeadDim, 128), // Qwen3's own default, not hidden_size/heads
		Eps:          or(f.Eps, 1e-6),
		MaxPositions: or(f.MaxPositions, 32768),
		InitRange:    or(f.InitRange, 0.02),
		Tied:         f.Tied,
		BOS:          or(f.BOS, -1),
		Pad:          or(f.Pad, -1),
		DType:        f.DType,
	}
	if c.DType == "" {
		c.DType = f.TorchDType
	}
	if c.DType == "" {
		c.DType = "bfloat16"
	}
	for _, n := range []struct {
		to   *int
		from *int
		name string
	}{
		{&c.Vocab, f.Vocab, "vocab_size"},
		{&c.Hidden, f.Hidden, "hidden_size"},
		{&c.Layers, f.Layers, "num_hidden_layers"},
		{&c.Heads, f.Heads, "num_attention_heads"},
		{&c.KVHeads, f.KVHeads, "num_key_value_heads"},
		{&c.MLP, f.MLP, "intermediate_size"},
	} {
		if n.from == nil {
			return Config{}, fmt.Errorf("%s is missing", n.name)
		}
		*n.to = *n.from
	}
	c.Live = c.Vocab
	if given(f.EOS) {
		var err error
		if c.EOS, err = tokenIDs(f.EOS); err != nil {
			return Config{}, err
		}
	}
	return c, f.rope(&c)
}

// supported refuses, by name, what would be computed wrongly.
func (f *configFile) supported() error {
	if f.Experts > 0 || f.ModelType == "qwen3_moe" {
		return errors.New("this is a mixture of experts (MoE); only dense Qwen3 is supported")
	}
	if f.ModelType != "qwen3" {
		return fmt.Errorf("model_type is %q; only dense Qwen3 (qwen3) is supported", f.ModelType)
	}
	for _, a := range f.Architectures {
		if a != "Qwen3ForCausalLM" {
			return fmt.Errorf("architecture %s is not supported, only Qwen3ForCausalLM", a)
		}
	}
	if given(f.Quantization) {
		var q struct {
			Method string `json:"quant_method"`
		}
		_ = json.Unmarshal(f.Quantization, &q) // the name is only for the message
		return fmt.Errorf("the weights are quantised (quantization_config, method %q); use the bfloat16 model", q.Method)
	}
	if f.UseSlidingWindow && f.SlidingWindow != nil && f.LayerTypes == nil && f.Layers != nil && or(f.MaxWindowLayers, 28) < *f.Layers {
		return fmt.Errorf("sliding-window attention (use_sliding_window, window %d) is not supported", *f.SlidingWindow)
	}
	for _, t := range f.LayerTypes {
		if t != "full_attention" {
			return fmt.Errorf("layer_types has %q; only full_attention is supported", t)
		}
	}
	if f.AttentionBias {
		return errors.New("attention_bias is true; biases are not supported")
	}
	if f.AttentionDropout != 0 {
		return fmt.Errorf("attention_dropout is %v; dropout is not supported", f.AttentionDropout)
	}
	if act := or(f.HiddenAct, "silu"); act != "silu" {
		return fmt.Errorf("hidden_act is %q; only silu is supported", act)
	}
	return nil
}

// tokenIDs reads one id or a list of them.
func tokenIDs(text json.RawMessage) ([]int32, error) {
	var id int32
	if json.Unmarshal(text, &id) == nil {
		return []int32{id}, nil
	}
	var ids []int32
	if err := json.Unmarshal(text, &ids); err != nil {
		return nil, fmt.Errorf("eos_token_id is %s, want a number or a list of numbers", text)
	}
	return ids, nil
}

// readJSON reads one small object into v.
func readJSON(path string, v any) error {
	f, err := os.Open(path)
	if err != nil {
		return reason(err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxConfigBytes+1))
	if err != nil {
		return reason(err)
	}
	if len(text) > maxConfigBytes {
		return fmt.Errorf("more than %d bytes are too many", maxConfigBytes)
	}
	err = json.Unmarshal(text, v)
	if e := new(json.UnmarshalTypeError); errors.As(err, &e) {
		if e.Field == "" {
			return fmt.Errorf("found %s where an object should be", e.Value)
		}
		return fmt.Errorf("%s is %s, want %s", e.Field, e.Value, e.Type)
	}
	return err
}

// reason drops the operation and path that os errors repeat: callers have said them.
func reason(err error) error {
	if e := new(fs.PathError); errors.As(err, &e) {
		return e.Err
	}
	return err
}

func given(text json.RawMessage) bool { return len(text) > 0 && string(text) != "null" }

func or[T any](p *T, absent T) T {
	if p == nil {
		return absent
	}
	return *p
}
