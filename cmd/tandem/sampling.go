package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"tandem/engine"
	"tandem/tokenizer"
)

// samplingFlags are how tokens are drawn, and what ends a reply.
type samplingFlags struct {
	params  engine.Params
	bias    []string
	allowed []int32
	stop    []string
}

// register sets the flags up with the values of s.params as defaults.
func (s *samplingFlags) register(f *pflag.FlagSet) {
	p := &s.params
	f.IntVar(&p.MaxTokens, "max-tokens", p.MaxTokens, "tokens of a reply at most")
	f.Float32Var(&p.Temperature, "temperature", p.Temperature, "0 is greedy")
	f.Float32Var(&p.TopP, "top-p", p.TopP, "keep the most probable tokens up to this probability")
	f.IntVar(&p.TopK, "top-k", p.TopK, "keep this many tokens (0: all)")
	f.Float32Var(&p.MinP, "min-p", 0, "keep tokens of at least this share of the most probable one's probability")
	f.Float32Var(&p.Repetition, "repetition-penalty", 1, "divide positive logits of tokens in prompt and reply by this, multiply negative ones")
	f.Float32Var(&p.Presence, "presence-penalty", 0, "take this from the logits of tokens in the reply")
	f.Float32Var(&p.Frequency, "frequency-penalty", 0, "take this from a token's logit for each time that it is in the reply")
	f.StringSliceVar(&s.bias, "logit-bias", nil, "ID=BIAS,...: add to these tokens' logits; -inf bans them")
	f.Int32SliceVar(&s.allowed, "allowed-tokens", nil, "ID,...: draw no others; name the end token as well, or replies go on to --max-tokens")
	f.StringArrayVar(&s.stop, "stop", nil, "text that ends a reply and is not shown; may be given several times")
}

// check says what is wrong with the flags, and reads those that are lists.
func (s *samplingFlags) check() error {
	p := &s.params
	switch {
	case p.MaxTokens < 1:
		return fmt.Errorf("--max-tokens is %d, want at least 1", p.MaxTokens)
	case !(p.Temperature >= 0) || p.Temperature > 1e9:
		return fmt.Errorf("--temperature is %v, want 0 (greedy) or more", p.Temperature)
	case !(p.TopP > 0 && p.TopP <= 1):
		return fmt.Errorf("--top-p is %v, want more than 0, and 1 at most", p.TopP)
	case p.TopK < 0:
		return fmt.Errorf("--top-k is %d, want 0 (all) or more", p.TopK)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return fmt.Errorf("--min-p is %v, want 0 to 1", p.MinP)
	case p.Repetition == 0:
		return fmt.Errorf("--repetition-penalty is 0, want 1 (none) or another number above 0")
	}
	if len(s.allowed) > 0 {
		p.Allowed = s.allowed
	}
	for _, text := range s.bias {
		id, bias, err := readBias(text)
		if err != nil {
			return err
		}
		if _, twice := p.Bias[id]; twice {
			return fmt.Errorf("--logit-bias names token %d twice", id)
		}
		if p.Bias == nil {
			p.Bias = make(map[int32]float32)
		}
		p.Bias[id] = bias
	}
	return p.Check()
}

// readBias reads ID=BIAS.
func readBias(text string) (id int32, bias float32, err error) {
	name, value, _ := strings.Cut(text, "=")
	n, err := strconv.ParseInt(name, 10, 32)
	if err != nil {
		return 0, 0, fmt.Errorf("--logit-bias: %q is not ID=BIAS", text)
	}
	x, err := strconv.ParseFloat(value, 32)
	if err != nil || math.IsNaN(x) {
		return 0, 0, fmt.Errorf("--logit-bias: %q is not ID=BIAS", text)
	}
	return int32(n), float32(x), nil
}

// stops are the stop strings for the model's text; without a tokenizer there is none.
func (s *samplingFlags) stops(m *openModel) (*tokenizer.StopStrings, error) {
	if m.tokenizer == nil {
		if len(s.stop) > 0 {
			return nil, fmt.Errorf("--stop: the model has no tokenizer.json")
		}
		return nil, nil
	}
	stops, err := m.tokenizer.NewStopStrings(s.stop)
	if err != nil {
		return nil, fmt.Errorf("--stop: %w", err)
	}
	return stops, nil
}
