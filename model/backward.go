package model

import "tandem/kernels"

// Backward is Forward and LogProbs read upwards: dlogp (R) is the gradient of the loss by each log-prob, dentropy (R)
// that by each entropy or the zero tensor. It adds to the gradients g; call FinishGradients after the last micro-batch.
func Backward(q kernels.Queue, w, g *Weights, b *Batch, kv kernels.Tensor, a *Activations, dlogp, dentropy kernels.Tensor) {
	v := a.at(b.T, b.R)
	d := &v.grad
	kernels.LogProbBackward(q, d.hidden, g.Head, dlogp, dentropy, a.head.lse, a.head.entropy, v.hidden, w.Head, a.head.target, a.head.invT, d.logits, d.hiddenAcc)
	kernels.RMSNormBackward(q, d.last, g.Norm, d.rowLeaves(b.R), d.hidden, kernels.Tensor{}, v.lastRstd, v.last, w.Norm)
	kernels.GatherBackward(q, d.res, d.last, b.rows())

	// d.res is the gradient of the residual stream: of both addends at every sum.
	for l := len(w.Layers) - 1; l >= 0; l-- {
		p, dp, s := &w.Layers[l], &g.Layers[l], v.layers[l].cut(b.T)
		kernels.SwiGLU(q, v.act, s.gateUp)
		kernels.LinearBackward(q, d.act, dp.Down, d.res, v.act, p.Down)
		kernels.SwiGLUBackward(q, d.gateUp, d.act, s.gateUp)
		kernels.RMSNorm(q, v.norm, s.midRstd, s.mid, p.MLPNorm, w.Config.Eps)
		kernels.LinearBackward(q, d.norm, dp.GateUp, d.gateUp, v.norm, p.GateUp)
		kernels.RMSNormBackward(q, d.res, dp.MLPNorm, d.rowLeaves(b.T), d.norm, d.res, s.midRstd, s.mid, p.MLPNorm)

		attentionBackward(q, w, g, b, kv, v, l)
		kernels.RMSNormBackward(q, d.res, dp.AttnNorm, d.rowLeaves(b.T), d.norm, d.res, s.rstd, s.in, p.AttnNorm)
	}
	kernels.EmbeddingBackward(q, g.Scatter, d.res, b.tokens())
}

// attentionBackward takes d.res, the gradient of the branch's output, to d.norm, that of its input.
func attentionBackward(q kernels.Queue, w, g *Weights, b *Batch, kv kernels.Tensor, v *Activations, l int) {
	p, dp, s, d := &w.Layers[l], &g.Layers[l], v.layers[l].cut(b.T), &v.grad
	kernels.LinearBackward(q, flat(d.attn), dp.Out, d.res, flat(s.attn), p.Out)
	kernels.QKNormRope(q, v.qk, s.qkRstd, s.qkv, p.QNorm, p.KNorm, b.pos(), w.Cos, w.Sin, w.Config.Eps)
	kernels.AttentionBackward(q, d.qkv, d.attn, s.attn, s.attnLSE, v.qk, kv, b.attention(), l, w.Config.scale(), d.delta)
	kernels.QKNormRopeBackward(q, d.qkv, dp.QNorm, dp.KNorm, d.headLeaves(b.T), s.qkRstd, s.qkv, p.QNorm, p.KNorm, b.pos(), w.Cos, w.Sin)
	kernels.RMSNorm(q, v.norm, s.rstd, s.in, p.AttnNorm, w.Config.Eps)
	kernels.LinearBackward(q, d.norm, dp.QKV, flat(d.qkv), v.norm, p.QKV)
}
