package model

import (
	"fmt"

	"tandem/kernels"
)

// Activations are the values of one pass over at most T rows, R of them at the head. For sampling, one layer's worth is
// used again by every layer. For training, what the backward pass reads is kept for each layer: the two residual sums,
// q, k and v before norm and RoPE, the attention output, gate and up. Norms, RoPE and silu are computed again.
type Activations struct {
	layers []saved

	norm, proj kernels.Tensor // (T, D)
	qk         kernels.Tensor // (T, H+K, E)
	act        kernels.Tensor // (T, F)

	headIn, headProj kernels.Tensor // (R, D), the last residual and branch at the head's rows
	last             kernels.Tensor // (R, D), their sum
	lastRstd         kernels.Tensor // (R)
	hidden           kernels.Tensor // (R, D), normalised: what the head multiplies

	head struct { // as LogProbs left it
		target, lse, entropy kernels.Tensor // (R)
		invT                 float32
	}
	lse   kernels.Tensor // (R)
	parts kernels.Tensor // (R, LogProbParts, 4), scratch of the head

	grad gradients
}

// saved is what a layer's backward pass reads.
type saved struct {
	in, mid kernels.Tensor // (T, D), residual before attention and before the MLP
	rstd    kernels.Tensor // (T)
	midRstd kernels.Tensor // (T)
	qkv     kernels.Tensor // (T, H+2K, E)
	qkRstd  kernels.Tensor // (T, H+K)
	attn    kernels.Tensor // (T, H, E)
	attnLSE kernels.Tensor // (T, H)
	gateUp  kernels.Tensor // (T, 2F)
}

// gradients are the temporaries of the backward pass.
type gradients struct {
	res, norm kernels.Tensor // (T, D)
	attn      kernels.Tensor // (T, H, E)
	delta     kernels.Tensor // (T, H)
	qkv       kernels.Tensor // (T, H+2K, E)
	gateUp    kernels.Tensor // (T, 2F)
	act       kernels.Tensor // (T, F)
	last      kernels.Tensor // (R, D)
	hidden    kernels.Tensor // (R, D)
	logits    kernels.Tensor // (R, C), a chunk of the vocabulary
	hiddenAcc kernels.Tensor // (R, D) float32
	leaves    kernels.Tensor // float32, what the norms' weight gradients add up: (⌈T/16⌉, D), (⌈T/16⌉, 2, E) or (⌈R/16⌉, D)
}

// rowLeaves is the leaves of a norm over n rows.
func (g *gradients) rowLeaves(n int) kernels.Tensor {
	N, D := leaves(n), g.res.Shape[1]
	return g.leaves.Rows(0, N*D).View(N, D)
}

// headLeaves is the leaves of the norms over the heads of n rows.
func (g *gradients) headLeaves(n int) kernels.Tensor {
	N, E := leaves(n), g.qkv.Shape[2]
	return g.leaves.Rows(0, N*2*E).View(N, 2, E)
}

// leaves is how many there are of n rows.
func leaves(n int) int { return (n + kernels.LeafRows - 1) / kernels.LeafRows }

// vocabChunk is the number of vocabulary rows whose logits exist at a time in the backward pass of the head.
const vocabChunk = 8192

// A bump hands out pieces of an arena; with a zero base it only measures.
type bump struct {
	base kernels.Ptr
	used int
}

func (b *bump) take(d kernels.DType, shape ...int) kernels.Tensor {
	const align = 256
	t := kernels.NewTensor(b.base+kernels.Ptr(b.used), d, shape...)
	b.used = (b.used + t.Bytes() + align - 1) / align * align
	return t
}

// ActivationBytes is the size of the arena that BindActivations needs.
func ActivationBytes(c Config, d kernels.DType, l Limits, train bool) int {
	var b bump
	layActivations(&b, c, d, l, train)
	return b.used
}

// BindActivations names the activations in an arena of ActivationBytes.
func BindActivations(c Config, d kernels.DType, l Limits, train bool, arena kernels.Ptr) *Activations {
	return layActivations(&bump{base: arena}, c, d, l, train)
}

// NewActivations takes the arena, too.
func NewActivations(dev kernels.Device, c Config, d kernels.DType, l Limits, train bool) (*Activations, error) {
	p, err := dev.Alloc(ActivationBytes(c, d, l, train))
	if err != nil {
		return nil, fmt.Errorf("activations of %d rows: %w", l.Rows, err)
	}
	return BindActivations(c, d, l, train, p), nil
}

func layActivations(b *bump, c Config, d kernels.DType, l Limits, train bool) *Activations {
	T, R, D, F, E, H, K := l.Rows, l.Heads, c.Hidden, c.MLP, c.HeadDim, c.Heads, c.KVHeads
	a := &Activations{
		norm: b.take(d, T, D), proj: b.take(d, T, D), qk: b.take(d, T, H+K, E), act: b.take(d, T, F),
		headIn: b.take(d, R, D), headProj: b.take(d, R, D), last: b.take(d, R, D), hidden: b.take(d, R, D),
		lastRstd: b.take(kernels.F32, R), lse: b.take(kernels.F32, R), parts: b.take(kernels.F32, R, kernels.LogProbParts(c.Live), 4),
	}
	one := saved{}
	for i := range c.Layers {
		if i == 0 || train {
			one = saved{
				in: b.take(d, T, D), mid: b.take(d, T, D), qkv: b.take(d, T, H+2*K, E), attn: b.take(d, T, H, E), gateUp: b.take(d, T, 2*F),
			}
			if train {
				one.rstd, one.midRstd = b.take(kernels.F32, T), b.take(kernels.F32, T)
				one.qkRstd, one.attnLSE = b.take(kernels.F32, T, H+K), b.take(kernels.F32, T, H)
			}
		}
		a.layers = append(a.layers, one)
	}
	if train {
		a.grad = gradients{
			res: b.take(d, T, D), norm: b.take(d, T, D), attn: b.take(d, T, H, E), delta: b.take(kernels.F32, T, H),
			qkv: b.take(d, T, H+2*K, E), gateUp: b.take(d, T, 2*F), act: b.take(d, T, F),
			last: b.take(d, R, D), hidden: b.take(d, R, D),
			logits: b.take(d, R, min(vocabChunk, c.Live)), hiddenAcc: b.take(kernels.F32, R, D),
			leaves: b.take(kernels.F32, leaves(max(T, R))*max(D, 2*E)),
		}
	}
	return a
}

// cut is the first n rows of a tensor; the zero tensor stays.
func cut(t kernels.Tensor, n int) kernels.Tensor {
	if t.Ptr == 0 {
		return t
	}
	return t.Rows(0, n)
}

func (s saved) cut(T int) saved {
	for _, t := range []*kernels.Tensor{&s.in, &s.mid, &s.rstd, &s.midRstd, &s.qkv, &s.qkRstd, &s.attn, &s.attnLSE, &s.gateUp} {
		*t = cut(*t, T)
	}
	return s
}

// at is the activations of a batch of T rows, R at the head.
func (a *Activations) at(T, R int) *Activations {
	c := *a
	for _, t := range []*kernels.Tensor{&c.norm, &c.proj, &c.qk, &c.act} {
		*t = cut(*t, T)
	}
	for _, t := range []*kernels.Tensor{&c.headIn, &c.headProj, &c.last, &c.lastRstd, &c.hidden, &c.lse, &c.parts} {
		*t = cut(*t, R)
	}
	g := &c.grad
	for _, t := range []*kernels.Tensor{&g.res, &g.norm, &g.attn, &g.delta, &g.qkv, &g.gateUp, &g.act} {
		*t = cut(*t, T)
	}
	for _, t := range []*kernels.Tensor{&g.last, &g.hidden, &g.logits, &g.hiddenAcc} {
		*t = cut(*t, R)
	}
	return &c
}
