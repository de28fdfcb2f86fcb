package model

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// published is config.json of Qwen3-8B as published.
const published = `{
  "architectures": ["Qwen3ForCausalLM"],
  "attention_bias": false,
  "attention_dropout": 0.0,
  "bos_token_id": 151643,
  "eos_token_id": 151645,
  "head_dim": 128,
  "hidden_act": "silu",
  "hidden_size": 4096,
  "initializer_range": 0.02,
  "intermediate_size": 12288,
  "max_position_embeddings": 40960,
  "max_window_layers": 36,
  "model_type": "qwen3",
  "num_attention_heads": 32,
  "num_hidden_layers": 36,
  "num_key_value_heads": 8,
  "rms_norm_eps": 1e-06,
  "rope_scaling": null,
  "rope_theta": 1000000,
  "sliding_window": null,
  "tie_word_embeddings": false,
  "torch_dtype": "bfloat16",
  "transformers_version": "4.51.0",
  "use_cache": true,
  "use_sliding_window": false,
  "vocab_size": 151936
}`

// fields is a JSON object; a nil value in a change deletes the field, null writes null.
type fields map[string]any

var null = json.RawMessage("null")

// with is the published config with changes.
func with(t *testing.T, changes fields) string {
	t.Helper()
	f := fields{}
	if err := json.Unmarshal([]byte(published), &f); err != nil {
		t.Fatal(err)
	}
	maps.Copy(f, changes)
	maps.DeleteFunc(f, func(_ string, v any) bool { return v == nil })
	for k := range f {
		if v, ok := changes[k]; ok && v == nil {
			delete(f, k)
		}
	}
	text, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func read(t *testing.T, config, generation string) (Config, error) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{configName: config, generationName: generation} {
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return ReadConfig(dir)
}

func TestReadConfig(t *testing.T) {
	yarn := fields{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
	for _, c := range []struct {
		name       string
		config     string
		generation string
		want       func(*Config)
	}{
		{"published", published, "", func(c *Config) { c.EOS = c.EOS[:1] }},
		{"published generation config", published, `{"bos_token_id":151643,"do_sample":true,"eos_token_id":[151645,151643],"pad_token_id":151643,"temperature":0.6,"top_k":20,"top_p":0.95,"transformers_version":"4.51.0"}`, func(c *Config) { c.Pad = 151643 }},
		{"one stop token", published, `{"eos_token_id":151645}`, func(c *Config) { c.EOS = []int32{151645} }},
		{"generation config without stop tokens", published, `{"do_sample":true}`, func(c *Config) { c.EOS = []int32{151645} }},
		{"padding token", with(t, fields{"pad_token_id": 1}), `{"eos_token_id":[151645,151643],"pad_token_id":2}`, func(c *Config) { c.Pad = 2 }},
		{"padding token in config.json", with(t, fields{"pad_token_id": 1}), `{"eos_token_id":[151645,151643]}`, func(c *Config) { c.Pad = 1 }},
		{"stop tokens in config.json", with(t, fields{"eos_token_id": []int{151645, 151643}}), "", func(c *Config) {}},
		{"no stop tokens", with(t, fields{"eos_token_id": null}), "", func(c *Config) { c.EOS = nil }},
		{"dtype of transformers 5", with(t, fields{"torch_dtype": nil, "dtype": "bfloat16"}), `{"eos_token_id":[151645,151643]}`, func(c *Config) {}},
		{"float32", with(t, fields{"torch_dtype": "float32"}), `{"eos_token_id":[151645,151643]}`, func(c *Config) { c.DType = "float32" }},
		{"head_dim left out is 128", with(t, fields{"head_dim": nil, "hidden_size": 1024, "num_attention_heads": 16}), `{"eos_token_id":[151645,151643]}`, func(c *Config) { c.Hidden, c.Heads = 1024, 16 }},
		{"rope_parameters", with(t, fields{"rope_theta": nil, "rope_scaling": nil, "rope_parameters": fields{"rope_theta": 5000000, "rope_type": "default"}}), `{"eos_token_id":[151645,151643]}`, func(c *Config) { c.RopeTheta = 5e6 }},
		{"theta of the dictionary first", with(t, fields{"rope_theta": 7, "rope_scaling": nil, "rope_parameters": fields{"rope_theta": 5000000, "rope_type": "default"}}), `{"eos_token_id":[151645,151643]}`, func(c *Config) { c.RopeTheta = 5e6 }},
		{"yarn, theta only at the top", with(t, fields{"rope_scaling": nil, "rope_parameters": yarn}), `{"eos_token_id":[151645,151643]}`, func(c *Config) { c.RopeScaling = NewYaRN(4, 32768) }},
		{"yarn, published layout", with(t, fields{"rope_scaling": yarn}), `{"eos_token_id":[151645,151643]}`, func(c *Config) { c.RopeScaling = NewYaRN(4, 32768) }},
		{"yarn under its oldest name", with(t, fields{"rope_scaling": fields{"type": "yarn", "factor": 2}}), `{"eos_token_id":[151645,151643]}`, func(c *Config) { c.RopeScaling = NewYaRN(2, 40960) }},
		{"yarn with all its numbers", with(t, fields{"rope_scaling": fields{"rope_type": "yarn", "type": "yarn", "factor": 4, "original_max_position_embeddings": 32768, "attention_factor": 1.5, "beta_fast": 16, "beta_slow": 2, "rope_theta": 9}}), `{"eos_token_id":[151645,151643]}`, func(c *Config) {
			c.RopeTheta, c.RopeScaling = 9, &YaRN{Factor: 4, Original: 32768, Attention: 1.5, BetaFast: 16, BetaSlow: 2}
		}},
		{"sliding window not in use", with(t, fields{"sliding_window": 4096, "use_sliding_window": false, "layer_types": []string{"full_attention"}}), `{"eos_token_id":[151645,151643]}`, func(c *Config) {}},
		{"sliding window above the last layer", with(t, fields{"sliding_window": 4096, "use_sliding_window": true}), `{"eos_token_id":[151645,151643]}`, func(c *Config) {}},
		{"tied", with(t, fields{"tie_word_embeddings": true}), `{"eos_token_id":[151645,151643]}`, func(c *Config) { c.Tied = true }},
		{"unknown fields", with(t, fields{"_name_or_path": "x", "quantization_config": null}), `{"eos_token_id":[151645,151643]}`, func(c *Config) {}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := read(t, c.config, c.generation)
			if err != nil {
				t.Fatal(err)
			}
			want, err := Shape("8b")
			if err != nil {
				t.Fatal(err)
			}
			want.Live, want.Pad = want.Vocab, -1 // config.json does not say them
			c.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReadConfigRefuses(t *testing.T) {
	yarn := func(k string, v any) fields {
		f := fields{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}
		f[k] = v
		return fields{"rope_scaling": f}
	}
	for _, c := range []struct {
		name    string
		changes fields
		want    string
	}{
		{"MoE", fields{"model_type": "qwen3_moe", "architectures": []string{"Qwen3MoeForCausalLM"}, "num_experts": 128}, "mixture of experts"},
		{"experts", fields{"num_experts": 8}, "mixture of experts"},
		{"other model", fields{"model_type": "llama"}, `model_type is "llama"`},
		{"no model", fields{"model_type": nil}, `model_type is ""`},
		{"classifier", fields{"architectures": []string{"Qwen3ForSequenceClassification"}}, "Qwen3ForSequenceClassification is not supported"},
		{"quantised", fields{"quantization_config": fields{"quant_method": "fp8"}}, `quantised (quantization_config, method "fp8")`},
		{"sliding window", fields{"use_sliding_window": true, "sliding_window": 4096, "max_window_layers": 28}, "window 4096"},
		{"sliding layers", fields{"layer_types": []string{"full_attention", "sliding_attention"}}, `"sliding_attention"`},
		{"attention bias", fields{"attention_bias": true}, "attention_bias"},
		{"dropout", fields{"attention_dropout": 0.1}, "dropout"},
		{"gelu", fields{"hidden_act": "gelu"}, `"gelu"`},
		{"dtype", fields{"torch_dtype": "float8_e4m3fn"}, "float8_e4m3fn"},

		{"linear scaling", fields{"rope_scaling": fields{"type": "linear", "factor": 2}}, `"linear" is not supported`},
		{"llama3 scaling", fields{"rope_scaling": fields{"rope_type": "llama3", "factor": 8, "low_freq_factor": 1}}, `"llama3" is not supported`},
		{"scaling without a type", fields{"rope_scaling": fields{"factor": 2}}, "no rope_type"},
		{"scaling is text", fields{"rope_scaling": "yarn"}, "rope_scaling"},
		{"rope by layer type", fields{"rope_scaling": nil, "rope_parameters": fields{"full_attention": fields{"rope_theta": 1}}}, "full_attention"},
		{"both layouts", fields{"rope_scaling": fields{"type": "yarn"}, "rope_parameters": fields{"rope_type": "default"}}, "keep one"},
		{"yarn without factor", yarn("factor", nil), "no factor"},
		{"yarn with mscale", yarn("mscale", 1), "mscale"},
		{"yarn without truncation", yarn("truncate", false), "truncate"},
		{"yarn factor below 1", yarn("factor", 0.5), "factor is 0.5"},
		{"yarn factor huge", yarn("factor", 1e9), "factor is 1e+09"},
		{"yarn original 0", yarn("original_max_position_embeddings", 0), "original_max_position_embeddings is 0"},
		{"yarn betas swapped", yarn("beta_fast", 0.5), "beta_fast 0.5"},
		{"yarn attention factor 0", yarn("attention_factor", 0), "attention_factor is 0"},

		{"vocab_size missing", fields{"vocab_size": nil}, "vocab_size is missing"},
		{"vocab_size null", fields{"vocab_size": null}, "vocab_size is missing"},
		{"hidden_size missing", fields{"hidden_size": nil}, "hidden_size is missing"},
		{"layers 0", fields{"num_hidden_layers": 0}, "num_hidden_layers is 0"},
		{"heads negative", fields{"num_attention_heads": -32}, "num_attention_heads is -32"},
		{"size as text", fields{"hidden_size": "4096"}, "hidden_size is string, want int"},
		{"fraction", fields{"hidden_size": 4096.5}, "hidden_size is number 4096.5, want int"},
		{"more than an int", fields{"hidden_size": json.RawMessage("99999999999999999999")}, "hidden_size is number"},
		{"more than memory", fields{"hidden_size": 1 << 40}, "hidden_size is 1099511627776"},
		{"product overflows", fields{"hidden_size": 1 << 23, "intermediate_size": 1 << 23}, "parameters"},
		{"heads not divisible", fields{"num_key_value_heads": 5}, "32 query heads cannot share 5"},
		{"more key/value heads", fields{"num_key_value_heads": 64}, "32 query heads cannot share 64"},
		{"head_dim odd", fields{"head_dim": 127}, "even"},
		{"eps 0", fields{"rms_norm_eps": 0}, "rms_norm_eps is 0"},
		{"eps negative", fields{"rms_norm_eps": -1e-6}, "rms_norm_eps"},
		{"theta 0", fields{"rope_theta": 0}, "rope_theta is 0"},
		{"positions 0", fields{"max_position_embeddings": 0}, "max_position_embeddings is 0"},
		{"stop token out of range", fields{"eos_token_id": 151936}, "151936 is not in the vocabulary"},
		{"stop token negative", fields{"eos_token_id": []int{-1}}, "-1 is not in the vocabulary"},
		{"stop token as text", fields{"eos_token_id": "<|im_end|>"}, "want a number or a list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := read(t, with(t, c.changes), ""); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want %q in it", err, c.want)
			}
		})
	}
	for name, c := range map[string]struct{ config, generation, want string }{
		"no file":                 {"", "", "config.json: no such file"},
		"empty":                   {" ", "", "JSON"},
		"list":                    {"[]", "", "found array where an object should be"},
		"cut off":                 {published[:200], "", "JSON"},
		"endless":                 {strings.Repeat(" ", maxConfigBytes+1), "", "too many"},
		"bad generation config":   {published, "{", "generation_config.json: unexpected end"},
		"bad generation stop ids": {published, `{"eos_token_id":{}}`, "generation_config.json: eos_token_id"},
	} {
		if _, err := read(t, c.config, c.generation); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q in it", name, err, c.want)
		}
	}
}

func TestWriteConfig(t *testing.T) {
	base, err := Shape("4b-instruct-2507")
	if err != nil {
		t.Fatal(err)
	}
	base.Live = base.Vocab // the directory does not say it
	for name, change := range map[string]func(*Config){
		"published":        func(c *Config) {},
		"untied":           func(c *Config) { c.Tied = false },
		"one stop token":   func(c *Config) { c.EOS = c.EOS[:1] },
		"no special token": func(c *Config) { c.EOS, c.BOS, c.Pad = nil, -1, -1 },
		"pad":              func(c *Config) { c.Pad = 0 },
		"float32":          func(c *Config) { c.DType = "float32" },
		"yarn":             func(c *Config) { c.RopeScaling = NewYaRN(4, 32768) },
		"all of yarn": func(c *Config) {
			c.RopeScaling = &YaRN{Factor: 2.5, Original: 100, Attention: 1, BetaFast: 30, BetaSlow: 0.5}
		},
		"odd numbers": func(c *Config) { c.Eps, c.RopeTheta, c.InitRange = 1.2345678e-5, 12345.678, 0.0123 },
	} {
		t.Run(name, func(t *testing.T) {
			want, dir := base, t.TempDir()
			change(&want)
			if err := want.Write(dir); err != nil {
				t.Fatal(err)
			}
			got, err := ReadConfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	c, err := Shape("8b")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := c.Write(dir); err != nil {
		t.Fatal(err)
	}
	var got, want any
	text, err := os.ReadFile(filepath.Join(dir, configName))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(published), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("not as published: %s", diff)
	}
	if err := c.Write(filepath.Join(dir, "absent")); err == nil || !strings.Contains(err.Error(), "absent/config.json: no such file") {
		t.Errorf("absent directory: got %v", err)
	}
}

func TestShape(t *testing.T) {
	for name, billions := range map[string]float64{
		"0.6b": 0.596, "1.7B": 1.721, "4b": 4.022, "4B-Instruct-2507": 4.022, "8b": 8.191, "14b": 14.768, "32b": 32.762, "tiny": 0.000791,
	} {
		c, err := Shape(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.Contains(ShapeNames, strings.ToLower(name)) {
			t.Errorf("%s is not in ShapeNames", name)
		}
		D, E := c.Hidden, c.HeadDim
		n := c.Vocab*D + c.Layers*(2*D*E*(c.Heads+c.KVHeads)+3*D*c.MLP+2*D+2*E) + D
		if !c.Tied {
			n += c.Vocab * D
		}
		if got := float64(n) / 1e9; got < billions*0.9985 || got > billions*1.0015 {
			t.Errorf("%s has %.6f billion parameters, want %.6f", name, got, billions)
		}
	}
	if _, err := Shape("7b"); err == nil || !strings.Contains(err.Error(), `"7b" is not known, want one of 0.6b`) {
		t.Errorf("got %v", err)
	}
}

func TestContext(t *testing.T) {
	c, err := Shape("8b")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Context(); got != 40960 {
		t.Errorf("Context() = %d, want 40960", got)
	}
	c.RopeScaling = NewYaRN(4, 32768)
	if got := c.Context(); got != 131072 {
		t.Errorf("with YaRN, Context() = %d, want 131072", got)
	}
}
