package engine

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"tandem/kernels"
)

// Params say how tokens are drawn. What changes the logits comes first, in the order bias, repetition, frequency and
// presence penalty, allowed tokens; then temperature, top-k, top-p, min-p. The log-probs that come back, those of Top too,
// are always those of the full distribution at the temperature, before any of this: they are what a trainer computes.
//
// Which tokens a penalty counts is what vLLM counts (kernels.Edit has the formulas). Repetition counts the prompt, too, as
// transformers does and SGLang does not: every distinct token of the sequence so far, once. Frequency and presence count
// what this turn has sampled. So a turn of a session draws what a request with the same tokens before it would draw.
type Params struct {
	MaxTokens   int     // of one turn
	Temperature float32 // 0 is greedy, with log-probs at temperature 1
	TopK        int     // 0 is off
	TopP        float32 // 1 (or 0) is off
	MinP        float32 // 0 is off
	Stop        []int32 // tokens that end the turn; they are part of the sample

	Repetition float32 // 1 (or 0) is off; more makes repetition less likely
	Frequency  float32 // 0 is off
	Presence   float32 // 0 is off
	Bias       map[int32]float32
	Allowed    []int32 // if not nil, the only tokens that are drawn; stop tokens are not among them by themselves
	Top        int     // how many of the most probable tokens to report at each place, with their log-probs
}

// Bounds that keep logits finite and mistakes out.
const (
	maxRepetition = 100 // and its inverse
	maxPenalty    = 100
	maxBias       = 1e6
)

// Check says what is wrong with params, whatever the model and the engine are.
func (p Params) Check() error {
	switch {
	case p.MaxTokens < 1:
		return fmt.Errorf("max tokens is %d, want at least 1", p.MaxTokens)
	case !(p.Temperature >= 0) || p.Temperature > 1e9:
		return fmt.Errorf("temperature is %v, want 0 (greedy) or more", p.Temperature)
	case !(p.TopP >= 0 && p.TopP <= 1):
		return fmt.Errorf("top-p is %v, want 0 to 1", p.TopP)
	case !(p.MinP >= 0 && p.MinP <= 1):
		return fmt.Errorf("min-p is %v, want 0 to 1", p.MinP)
	case p.TopK < 0:
		return fmt.Errorf("top-k is %d, want 0 (off) or more", p.TopK)
	case p.Repetition != 0 && !(p.Repetition >= 1./maxRepetition && p.Repetition <= maxRepetition):
		return fmt.Errorf("repetition penalty is %v, want %v to %v", p.Repetition, 1./maxRepetition, maxRepetition)
	case !(p.Frequency >= -maxPenalty && p.Frequency <= maxPenalty):
		return fmt.Errorf("frequency penalty is %v, want %v to %v", p.Frequency, -maxPenalty, maxPenalty)
	case !(p.Presence >= -maxPenalty && p.Presence <= maxPenalty):
		return fmt.Errorf("presence penalty is %v, want %v to %v", p.Presence, -maxPenalty, maxPenalty)
	case p.Allowed != nil && len(p.Allowed) == 0:
		return fmt.Errorf("the list of allowed tokens is empty")
	case p.Top < 0:
		return fmt.Errorf("top log-probs is %d, want 0 (none) or more", p.Top)
	}
	for id, b := range p.Bias {
		if !(b >= -maxBias && b <= maxBias) && !math.IsInf(float64(b), -1) {
			return fmt.Errorf("bias of token %d is %v, want %v to %v, or -Inf", id, b, -maxBias, maxBias)
		}
	}
	return nil
}

// penalises says whether the tokens before matter.
func (p *Params) penalises() bool { return p.repeats() || p.Frequency != 0 || p.Presence != 0 }

// repeats says whether those of the prompt matter, too.
func (p *Params) repeats() bool { return p.Repetition != 0 && p.Repetition != 1 }

// bias is the list of biased tokens, ascending.
func (p *Params) bias() []kernels.Edit {
	var list []kernels.Edit
	for _, id := range slices.Sorted(maps.Keys(p.Bias)) {
		list = append(list, kernels.Edit{ID: id, Count: -1, Bias: p.Bias[id]})
	}
	return list
}

// allowed is the list of allowed tokens, ascending.
func (p *Params) allowed() []int32 {
	list := slices.Clone(p.Allowed)
	slices.Sort(list)
	return slices.Compact(list)
}

// For is c with room for requests of these params, of any length that the context allows.
func (c Config) For(p Params) Config {
	edits := len(p.Bias)
	if p.penalises() {
		edits += c.Context
	}
	c.Edits, c.Allowed, c.Top = max(c.Edits, edits), max(c.Allowed, len(p.Allowed)), max(c.Top, p.Top)
	return c
}

// checkLists holds the lists of a turn after that many tokens to the vocabulary and to what the engine has room for.
func (e *Engine) checkLists(p *Params, before, maxTokens int) error {
	V := e.w.Head.Shape[0]
	for id := range p.Bias {
		if id < 0 || int(id) >= V {
			return fmt.Errorf("bias of token %d, want 0 to %d", id, V-1)
		}
	}
	for _, id := range p.Allowed {
		if id < 0 || int(id) >= V {
			return fmt.Errorf("token %d is allowed, want 0 to %d", id, V-1)
		}
	}
	edits := len(p.Bias)
	if p.penalises() {
		edits += min(maxTokens, e.cfg.Context-before)
	}
	if p.repeats() {
		edits += before
	}
	switch edits = min(edits, V); {
	case edits > e.cfg.Edits:
		return fmt.Errorf("bias and penalties may change the logits of %d tokens, the engine has room for %d (Config.Edits)", edits, e.cfg.Edits)
	case len(p.Allowed) > e.cfg.Allowed && len(p.allowed()) > e.cfg.Allowed: // some may be there twice
		return fmt.Errorf("%d tokens are allowed, the engine has room for a list of %d (Config.Allowed)", len(p.allowed()), e.cfg.Allowed)
	case p.Top > e.cfg.Top:
		return fmt.Errorf("top log-probs is %d, the engine has room for %d (Config.Top)", p.Top, e.cfg.Top)
	}
	return nil
}

// params is how the device draws the next token of s, but for its lists.
func (s *seq) params() kernels.SampleParams {
	p := &s.request.Params
	sp := kernels.SampleParams{
		Seed: s.request.Seed, InvT: 1, TopP: p.TopP, MinP: p.MinP, TopK: int32(p.TopK), Pos: int32(len(s.tokens)), Top: int32(p.Top),
		Repetition: p.Repetition, Presence: p.Presence, Frequency: p.Frequency,
	}
	if p.TopP == 0 {
		sp.TopP = 1
	}
	if p.Repetition == 0 {
		sp.Repetition = 1
	}
	if inv := 1 / p.Temperature; math.IsInf(float64(inv), 1) {
		sp.Greedy = 1
	} else {
		sp.InvT = inv
	}
	return sp
}
