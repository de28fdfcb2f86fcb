package model

import (
	"encoding/json"
	"fmt"
	"path/filepath"

	"tandem/durable"
)

// Write writes config.json, in the published layout that every version of transformers reads, and generation_config.json.
// ReadConfig of dir gives c again, but for Live.
func (c Config) Write(dir string) error {
	f := configFile{
		Architectures:   []string{"Qwen3ForCausalLM"},
		EOS:             json.RawMessage("null"),
		HeadDim:         &c.HeadDim,
		HiddenAct:       ptr("silu"),
		Hidden:          &c.Hidden,
		InitRange:       &c.InitRange,
		MLP:             &c.MLP,
		MaxPositions:    &c.MaxPositions,
		MaxWindowLayers: &c.Layers,
		ModelType:       "qwen3",
		Heads:           &c.Heads,
		Layers:          &c.Layers,
		KVHeads:         &c.KVHeads,
		Eps:             &c.Eps,
		RopeScaling:     json.RawMessage("null"),
		RopeTheta:       &c.RopeTheta,
		Tied:            c.Tied,
		TorchDType:      c.DType,
		Version:         "4.51.0", // the first that knows Qwen3
		UseCache:        true,
		Vocab:           &c.Vocab,
	}
	var g generationFile
	if c.BOS >= 0 {
		f.BOS, g.BOS = &c.BOS, &c.BOS
	}
	if c.Pad >= 0 {
		g.Pad = &c.Pad // published directories have it here only
	}
	var err error
	if len(c.EOS) > 0 {
		if f.EOS, err = json.Marshal(c.EOS[0]); err != nil {
			return err
		}
		if g.EOS, err = json.Marshal(c.EOS); err != nil {
			return err
		}
	}
	if y := c.RopeScaling; y != nil {
		r := ropeFile{Type: "yarn", Factor: &y.Factor, Original: &y.Original}
		plain := NewYaRN(y.Factor, y.Original)
		r.Attention = unless(y.Attention, plain.Attention)
		r.BetaFast = unless(y.BetaFast, plain.BetaFast)
		r.BetaSlow = unless(y.BetaSlow, plain.BetaSlow)
		if f.RopeScaling, err = json.Marshal(r); err != nil {
			return err
		}
	}
	if err := writeJSON(filepath.Join(dir, configName), f); err != nil {
		return err
	}
	return writeJSON(filepath.Join(dir, generationName), g)
}

func writeJSON(path string, v any) error {
	text, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return writeFile(path, append(text, '\n'))
}

// writeFile says in its errors which file it was.
func writeFile(path string, data []byte) error {
	if err := durable.WriteBytes(path, data); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func ptr[T any](v T) *T { return &v }

func unless(v, standard float64) *float64 {
	if v == standard {
		return nil
	}
	return &v
}
