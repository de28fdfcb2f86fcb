package model

import (
	"math"

	"tandem/kernels"
)

// Forward runs the batch through the layers: it appends keys and values to the pages and leaves the normalised hidden
// states of the rows that go to the head. Prefill, decode and training are this one function.
func Forward(q kernels.Queue, w *Weights, b *Batch, kv kernels.Tensor, a *Activations) {
	v := a.at(b.T, b.R)
	eps := w.Config.Eps
	for l := range w.Layers {
		p, s := &w.Layers[l], v.layers[l].cut(b.T)
		if l == 0 {
			kernels.Embedding(q, s.in, b.tokens(), w.Embed)
			kernels.RMSNorm(q, v.norm, s.rstd, s.in, p.AttnNorm, eps)
		} else {
			kernels.AddRMSNorm(q, s.in, v.norm, s.rstd, v.layers[l-1].cut(b.T).mid, v.proj, p.AttnNorm, eps)
		}
		attention(q, w, b, kv, v, l)
		kernels.AddRMSNorm(q, s.mid, v.norm, s.midRstd, s.in, v.proj, p.MLPNorm, eps)
		kernels.Linear(q, s.gateUp, v.norm, p.GateUp)
		kernels.SwiGLU(q, v.act, s.gateUp)
		kernels.Linear(q, v.proj, v.act, p.Down)
	}
	if b.R == 0 {
		return
	}
	kernels.Gather(q, v.headIn, v.layers[len(w.Layers)-1].cut(b.T).mid, b.rows())
	kernels.Gather(q, v.headProj, v.proj, b.rows())
	kernels.AddRMSNorm(q, v.last, v.hidden, v.lastRstd, v.headIn, v.headProj, w.Norm, eps)
}

// attention takes v.norm to v.proj.
func attention(q kernels.Queue, w *Weights, b *Batch, kv kernels.Tensor, v *Activations, l int) {
	p, s := &w.Layers[l], v.layers[l].cut(b.T)
	kernels.Linear(q, flat(s.qkv), v.norm, p.QKV)
	kernels.QKNormRope(q, v.qk, s.qkRstd, s.qkv, p.QNorm, p.KNorm, b.pos(), w.Cos, w.Sin, w.Config.Eps)
	kernels.Append(q, kv, v.qk, s.qkv, b.attention(), l)
	kernels.Attention(q, s.attn, s.attnLSE, v.qk, kv, b.attention(), l, w.Config.scale())
	kernels.Linear(q, v.proj, flat(s.attn), p.Out)
}

// flat is (T, heads, E) as (T, heads·E).
func flat(t kernels.Tensor) kernels.Tensor { return t.View(t.Shape[0], t.Shape[1]*t.Shape[2]) }

// scale multiplies the scores.
func (c Config) scale() float32 { return float32(1 / math.Sqrt(float64(c.HeadDim))) }

// Logits are those of the head's rows, float32: out (R, V). Sampling needs them whole.
func Logits(q kernels.Queue, w *Weights, b *Batch, a *Activations, out kernels.Tensor) {
	kernels.Linear(q, out, a.at(b.T, b.R).hidden, w.Head)
}

// LogProbs are the log-probs of the batch's targets under softmax(logits·invT), and, where asked for, the entropy of
// that distribution: out, entropy (R), 0 at padding rows. Logits of all rows never exist at once.
func LogProbs(q kernels.Queue, w *Weights, b *Batch, a *Activations, out, entropy kernels.Tensor, invT float32) {
	v := a.at(b.T, b.R)
	a.head.target, a.head.lse, a.head.entropy, a.head.invT = b.Targets(), v.lse, entropy, invT
	kernels.LogProb(q, out, entropy, v.lse, v.hidden, w.Head, b.Targets(), invT, v.parts)
}
