package model

import (
	"fmt"

	"tandem/kernels"
)

// A Param is one tensor of a checkpoint and its place in a flat arena. Weights, gradients, optimizer state and files all
// follow the one table that Params gives.
type Param struct {
	Name  string // as Hugging Face names it
	Shape []int
	Off   int  // in elements
	Decay bool // weight decay applies: matrices yes, norms no
}

// Len is the number of elements.
func (p Param) Len() int {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// arenaAlign is the number of elements at whose multiples each group of tensors starts.
const arenaAlign = 64

// Params is the table of parameters. q, k and v lie side by side, and so do gate and up, so that each group is one
// matrix to the kernels.
func Params(c Config) []Param {
	D, F, E := c.Hidden, c.MLP, c.HeadDim
	var ps []Param
	end := 0
	add := func(name string, shape ...int) {
		p := Param{Name: name, Shape: shape, Off: end, Decay: len(shape) > 1}
		ps = append(ps, p)
		end += p.Len()
	}
	group := func() { end = (end + arenaAlign - 1) / arenaAlign * arenaAlign }

	add("model.embed_tokens.weight", c.Vocab, D)
	for l := range c.Layers {
		at := fmt.Sprintf("model.layers.%d.", l)
		group()
		add(at+"input_layernorm.weight", D)
		group()
		add(at+"self_attn.q_proj.weight", c.Heads*E, D)
		add(at+"self_attn.k_proj.weight", c.KVHeads*E, D)
		add(at+"self_attn.v_proj.weight", c.KVHeads*E, D)
		group()
		add(at+"self_attn.q_norm.weight", E)
		group()
		add(at+"self_attn.k_norm.weight", E)
		group()
		add(at+"self_attn.o_proj.weight", D, c.Heads*E)
		group()
		add(at+"post_attention_layernorm.weight", D)
		group()
		add(at+"mlp.gate_proj.weight", F, D)
		add(at+"mlp.up_proj.weight", F, D)
		group()
		add(at+"mlp.down_proj.weight", D, F)
	}
	group()
	add("model.norm.weight", D)
	if !c.Tied {
		group()
		add("lm_head.weight", c.Vocab, D)
	}
	return ps
}

// ArenaLen is the number of elements of an arena that holds ps, up to a whole number of the leaves that the gradient
// norm sums.
func ArenaLen(ps []Param) int {
	last := ps[len(ps)-1]
	return (last.Off + last.Len() + kernels.NormLeaf - 1) / kernels.NormLeaf * kernels.NormLeaf
}

// Count is the number of parameters.
func Count(c Config) int {
	n := 0
	for _, p := range Params(c) {
		n += p.Len()
	}
	return n
}

// Weights are the parameters as tensors of one arena, or their gradients as float32 tensors of another.
type Weights struct {
	Config Config
	Arena  kernels.Tensor // (ArenaLen)
	Embed  kernels.Tensor // (V, D)
	Layers []Layer
	Norm   kernels.Tensor // (D)
	Head   kernels.Tensor // (Live, D), of the embedding when tied
	Cos    kernels.Tensor // (N, E/2), weights only
	Sin    kernels.Tensor // (N, E/2), weights only

	// Scatter collects the embedding's gradient apart from the head's when the two are tied, so that their order of
	// summation does not depend on micro-batches: (V, D), gradients only; Embed itself when not tied.
	Scatter kernels.Tensor
}

// Layer is the parameters of one layer.
type Layer struct {
	AttnNorm kernels.Tensor // (D)
	QKV      kernels.Tensor // ((H+2K)·E, D)
	QNorm    kernels.Tensor // (E)
	KNorm    kernels.Tensor // (E)
	Out      kernels.Tensor // (D, H·E)
	MLPNorm  kernels.Tensor // (D)
	GateUp   kernels.Tensor // (2F, D)
	Down     kernels.Tensor // (D, F)
}

// Bind names the tensors of an arena laid out by Params(c).
func Bind(c Config, arena kernels.Ptr, d kernels.DType) *Weights {
	ps := Params(c)
	next := 0
	take := func(shape ...int) kernels.Tensor {
		t := kernels.NewTensor(arena+kernels.Ptr(ps[next].Off*d.Size()), d, shape...)
		for n := t.Len(); n > 0; next++ {
			n -= ps[next].Len()
		}
		return t
	}
	D, F, E := c.Hidden, c.MLP, c.HeadDim
	w := &Weights{Config: c, Arena: kernels.NewTensor(arena, d, ArenaLen(ps)), Embed: take(c.Vocab, D)}
	for range c.Layers {
		w.Layers = append(w.Layers, Layer{
			AttnNorm: take(D),
			QKV:      take((c.Heads+2*c.KVHeads)*E, D),
			QNorm:    take(E),
			KNorm:    take(E),
			Out:      take(D, c.Heads*E),
			MLPNorm:  take(D),
			GateUp:   take(2*F, D),
			Down:     take(D, F),
		})
	}
	w.Norm = take(D)
	w.Head, w.Scatter = w.Embed, w.Embed
	if !c.Tied {
		w.Head = take(c.Vocab, D)
	}
	w.Head = w.Head.Rows(0, c.Live)
	return w
}

// WeightBytes is the size of the weight arena with the rotary tables for positions up to n.
func WeightBytes(c Config, d kernels.DType, n int) int {
	return ArenaLen(Params(c))*d.Size() + TableBytes(c, n)
}

// NewWeights takes the arena and the rotary tables for positions 0 to n-1. The weights are zero.
func NewWeights(dev kernels.Device, c Config, d kernels.DType, n int) (*Weights, error) {
	size := ArenaLen(Params(c)) * d.Size()
	arena, err := dev.Alloc(size)
	if err != nil {
		return nil, fmt.Errorf("weights: %w", err)
	}
	w := Bind(c, arena, d)
	cos, sin := c.RopeTable(n)
	for _, t := range []struct {
		to   *kernels.Tensor
		from []float32
	}{{&w.Cos, cos}, {&w.Sin, sin}} {
		p, host, err := dev.Pinned(4 * len(t.from))
		if err != nil {
			return nil, fmt.Errorf("rotary tables for %d positions: %w", n, err)
		}
		copy(Float32s(host), t.from)
		*t.to = kernels.NewTensor(p, kernels.F32, n, c.HeadDim/2)
	}
	if _, ok := dev.(kernels.Sharer); ok {
		if err := w.moveTables(dev); err != nil {
			return nil, fmt.Errorf("rotary tables for %d positions: %w", n, err)
		}
	}
	return w, nil
}

// moveTables copies the rotary tables to a card's own memory: every layer reads them.
func (w *Weights) moveTables(dev kernels.Device) error {
	q, err := dev.NewQueue()
	if err != nil {
		return err
	}
	for _, t := range []*kernels.Tensor{&w.Cos, &w.Sin} {
		p, err := dev.Alloc(t.Bytes())
		if err != nil {
			return err
		}
		q.Copy(p, t.Ptr, t.Bytes())
		t.Ptr = p
	}
	return q.Sync()
}

// TableBytes is the memory of the host that the rotary tables for positions up to n come from, where a card has its own.
func TableBytes(c Config, n int) int { return n * c.HeadDim * 4 }

// GradientLen is the number of float32 of the gradient arena.
func GradientLen(c Config) int {
	n := ArenaLen(Params(c))
	if c.Tied {
		n += c.Vocab * c.Hidden
	}
	return n
}

// BindGradients names the gradients in an arena of GradientLen float32.
func BindGradients(c Config, arena kernels.Ptr) *Weights {
	g := Bind(c, arena, kernels.F32)
	if c.Tied {
		g.Scatter = kernels.NewTensor(arena+kernels.Ptr(4*g.Arena.Len()), kernels.F32, c.Vocab, c.Hidden)
	}
	return g
}

// ZeroGradients starts a step.
func ZeroGradients(q kernels.Queue, g *Weights) {
	kernels.Zero(q, g.Arena)
	if g.Config.Tied {
		kernels.Zero(q, g.Scatter)
	}
}

// FinishGradients adds what was collected apart, once, after the last micro-batch of a step.
func FinishGradients(q kernels.Queue, g *Weights) {
	if g.Config.Tied {
		kernels.Add(q, g.Embed, g.Scatter)
	}
}
