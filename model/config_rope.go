package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
)

// ropeFile is rope_scaling of the published layout and rope_parameters of transformers 5.
type ropeFile struct {
	Type      string   `json:"rope_type,omitempty"`
	OldType   string   `json:"type,omitempty"`
	Theta     *float64 `json:"rope_theta,omitempty"`
	Factor    *float64 `json:"factor,omitempty"`
	Original  *int     `json:"original_max_position_embeddings,omitempty"`
	Attention *float64 `json:"attention_factor,omitempty"`
	BetaFast  *float64 `json:"beta_fast,omitempty"`
	BetaSlow  *float64 `json:"beta_slow,omitempty"`
}

// rope fills RopeTheta and RopeScaling. A theta beside the scaling counts before one at the top, which some files have
// alone even in the new layout.
func (f *configFile) rope(c *Config) error {
	name, text := "rope_parameters", f.RopeParameters
	if given(f.RopeScaling) {
		if given(f.RopeParameters) {
			return errors.New("both rope_scaling and rope_parameters are given; keep one")
		}
		name, text = "rope_scaling", f.RopeScaling
	}
	r, err := parseRope(text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	c.RopeTheta = or(r.Theta, or(f.RopeTheta, 10000)) // the default is transformers'
	switch {
	case r.Type == "default" && r.Factor != nil:
		return fmt.Errorf("%s has a factor and no rope_type", name)
	case r.Type == "default":
		return nil
	case r.Factor == nil:
		return fmt.Errorf("%s: yarn has no factor", name)
	}
	y := NewYaRN(*r.Factor, or(r.Original, c.MaxPositions))
	y.Attention = or(r.Attention, y.Attention)
	y.BetaFast = or(r.BetaFast, y.BetaFast)
	y.BetaSlow = or(r.BetaSlow, y.BetaSlow)
	c.RopeScaling = y
	return nil
}

func parseRope(text json.RawMessage) (ropeFile, error) {
	r := ropeFile{Type: "default"}
	if !given(text) {
		return r, nil
	}
	var kind struct {
		Type    string `json:"rope_type"`
		OldType string `json:"type"`
	}
	if err := json.Unmarshal(text, &kind); err != nil {
		return r, err
	}
	switch k := cmp.Or(kind.Type, kind.OldType, "default"); k {
	case "default", "yarn":
		d := json.NewDecoder(bytes.NewReader(text))
		d.DisallowUnknownFields() // what an unknown field asks for would not be done
		if err := d.Decode(&r); err != nil {
			return r, fmt.Errorf("%s is not supported: %w", text, err)
		}
		r.Type = k
		return r, nil
	default:
		return r, fmt.Errorf("rope_type %q is not supported, only default and yarn", k)
	}
}
