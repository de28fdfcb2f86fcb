package bench

import (
	"math"

	"tandem/kernels"
	"tandem/model"
)

// A Case is a kernel at a shape.
type Case struct {
	Kernel string `json:"kernel"` // the operation; yardsticks.py knows the same names
	Shape  Shape  `json:"shape"`
	Bytes  int    `json:"bytes"` // the fewest that must move
	Flops  int    `json:"flops"` // of matrix products

	setup func(b *bed) func()
}

// Shape is what a case's letters stand for; those that it does not have are 0.
type Shape struct {
	T int `json:"T,omitempty"` // rows
	N int `json:"N,omitempty"` // outputs, or elements
	K int `json:"K,omitempty"` // inputs
	S int `json:"S,omitempty"` // sequences
	C int `json:"C,omitempty"` // tokens of a sequence
	H int `json:"H,omitempty"` // query heads
	G int `json:"G,omitempty"` // key heads
	E int `json:"E,omitempty"` // head dim
}

// Sizes say how much work a run measures.
type Sizes struct {
	Rows     int   // of a training batch
	Context  int   // tokens of a sequence
	Decode   []int // batch sizes of decoding
	Elements int   // of the optimizer
}

// DefaultSizes are those of the MATH run.
func DefaultSizes() Sizes {
	return Sizes{Rows: 8192, Context: 1024, Decode: []int{1, 32, 128}, Elements: 1 << 28}
}

const bf16, f32 = kernels.BF16, kernels.F32

// Cases is every kernel of a step at the shapes of a model.
func Cases(c model.Config, z Sizes) []Case {
	D, F, V, H, K, E, T := c.Hidden, c.MLP, c.Live, c.Heads, c.KVHeads, c.HeadDim, z.Rows
	cases := []Case{
		linear(T, (H+2*K)*E, D), linear(T, D, H*E), linear(T, 2*F, D), linear(T, D, F),
		linearDX(T, (H+2*K)*E, D), linearDX(T, D, H*E), linearDX(T, 2*F, D), linearDX(T, D, F),
		linearDW(T, (H+2*K)*E, D), linearDW(T, D, H*E), linearDW(T, 2*F, D), linearDW(T, D, F),
		attention(T/z.Context, z.Context, H, K, E), attentionBackward(T/z.Context, z.Context, H, K, E),
		logProb(T/2, V, D), logProbBackward(T/2, V, D),
		rmsNorm(T, D), addRMSNorm(T, D), rmsNormBackward(T, D), qkNormRope(T, H, K, E), qkNormRopeBackward(T, H, K, E),
		swiglu(T, F), swigluBackward(T, F), embedding(T, V, D), embeddingBackward(T, V, D),
		gradNorm(z.Elements), adamW(z.Elements),
	}
	for _, S := range z.Decode {
		cases = append(cases, linear(S, (H+2*K)*E, D), linear(S, D, H*E), linear(S, 2*F, D), linear(S, D, F), linear(S, V, D),
			decode(S, z.Context, H, K, E), sample(S, V))
	}
	return cases
}

func linear(T, N, K int) Case {
	return Case{"linear", Shape{T: T, N: N, K: K}, 2 * (T*K + N*K + T*N), 2 * T * N * K, func(b *bed) func() {
		y, x, w := b.zeros(bf16, T, N), b.tensor(bf16, T, K), b.tensor(bf16, N, K)
		return func() { kernels.Linear(b.q, y, x, w) }
	}}
}

func linearDX(T, N, K int) Case {
	return Case{"linear_dx", Shape{T: T, N: N, K: K}, 2 * (T*K + N*K + T*N), 2 * T * N * K, func(b *bed) func() {
		dx, dy, x, w := b.zeros(bf16, T, K), b.tensor(bf16, T, N), b.tensor(bf16, T, K), b.tensor(bf16, N, K)
		return func() { kernels.LinearBackward(b.q, dx, kernels.Tensor{}, dy, x, w) }
	}}
}

func linearDW(T, N, K int) Case {
	return Case{"linear_dw", Shape{T: T, N: N, K: K}, 2*(T*K+T*N) + 8*N*K, 2 * T * N * K, func(b *bed) func() {
		dw, dy, x, w := b.zeros(f32, N, K), b.tensor(bf16, T, N), b.tensor(bf16, T, K), b.tensor(bf16, N, K)
		return func() { kernels.LinearBackward(b.q, kernels.Tensor{}, dw, dy, x, w) }
	}}
}

// A cache of S sequences of C tokens, with pages in order, and the batch of their last `rows` rows each.
func cache(b *bed, S, C, rows, K, E int) (kv kernels.Tensor, batch kernels.AttentionBatch) {
	pages := (C + kernels.PageTokens - 1) / kernels.PageTokens
	var pos, seq, first, count, table []int32
	for s := range S {
		first, count = append(first, int32(len(pos))), append(count, int32(rows))
		for i := range rows {
			pos, seq = append(pos, int32(C-rows+i)), append(seq, int32(s))
		}
		for i := range pages {
			table = append(table, int32(s*pages+i))
		}
	}
	kv = b.tensor(bf16, 1, S*pages, 2*K, kernels.PageTokens*E)
	return kv, kernels.AttentionBatch{
		Pos: b.ints(pos, len(pos)), Seq: b.ints(seq, len(seq)), First: b.ints(first, S), Count: b.ints(count, S), Table: b.ints(table, S, pages),
	}
}

func scale(E int) float32 { return float32(1 / math.Sqrt(float64(E))) }

func attention(S, C, H, K, E int) Case {
	T := S * C
	return Case{"attention", Shape{S: S, C: C, H: H, G: K, E: E}, 2*T*E*(2*H+2*K) + 4*T*H, 4 * S * H * E * C * (C + 1) / 2, func(b *bed) func() {
		kv, batch := cache(b, S, C, C, K, E)
		out, lse, qk := b.zeros(bf16, T, H, E), b.zeros(f32, T, H), b.tensor(bf16, T, H+K, E)
		return func() { kernels.Attention(b.q, out, lse, qk, kv, batch, 0, scale(E)) }
	}}
}

func attentionBackward(S, C, H, K, E int) Case {
	T := S * C
	return Case{"attention_backward", Shape{S: S, C: C, H: H, G: K, E: E}, 2*T*E*(4*H+4*K) + 8*T*H, 10 * S * H * E * C * (C + 1) / 2, func(b *bed) func() {
		kv, batch := cache(b, S, C, C, K, E)
		out, lse, qk := b.zeros(bf16, T, H, E), b.zeros(f32, T, H), b.tensor(bf16, T, H+K, E)
		dqkv, dout, delta := b.zeros(bf16, T, H+2*K, E), b.tensor(bf16, T, H, E), b.zeros(f32, T, H)
		kernels.Attention(b.q, out, lse, qk, kv, batch, 0, scale(E))
		return func() {
			kernels.AttentionBackward(b.q, dqkv, dout, out, lse, qk, kv, batch, 0, scale(E), delta)
		}
	}}
}

func decode(S, C, H, K, E int) Case {
	return Case{"attention_decode", Shape{S: S, C: C, H: H, G: K, E: E}, 4 * S * C * K * E, 4 * S * H * E * C, func(b *bed) func() {
		kv, batch := cache(b, S, C, 1, K, E)
		out, qk := b.zeros(bf16, S, H, E), b.tensor(bf16, S, H+K, E)
		return func() { kernels.Attention(b.q, out, kernels.Tensor{}, qk, kv, batch, 0, scale(E)) }
	}}
}

// head is what both directions of the log-prob take.
func head(b *bed, R, V, D int) (logp, lse, x, w, target, parts kernels.Tensor) {
	targets := make([]int32, R)
	for i := range targets {
		targets[i] = int32(i * 7919 % V)
	}
	return b.zeros(f32, R), b.zeros(f32, R), b.tensor(bf16, R, D), b.tensor(bf16, V, D), b.ints(targets, R), b.zeros(f32, R, kernels.LogProbParts(V), 4)
}

func logProb(R, V, D int) Case {
	return Case{"logprob", Shape{T: R, N: V, K: D}, 2 * (R*D + V*D), 2 * R * V * D, func(b *bed) func() {
		logp, lse, x, w, target, parts := head(b, R, V, D)
		return func() { kernels.LogProb(b.q, logp, kernels.Tensor{}, lse, x, w, target, 1, parts) }
	}}
}

func logProbBackward(R, V, D int) Case {
	return Case{"logprob_backward", Shape{T: R, N: V, K: D}, 2*(2*R*D+V*D) + 8*V*D, 6 * R * V * D, func(b *bed) func() {
		logp, lse, x, w, target, parts := head(b, R, V, D)
		kernels.LogProb(b.q, logp, kernels.Tensor{}, lse, x, w, target, 1, parts)
		dx, dw, dz, acc := b.zeros(bf16, R, D), b.zeros(f32, V, D), b.zeros(bf16, R, min(8192, V)), b.zeros(f32, R, D)
		none := kernels.Tensor{}
		return func() { kernels.LogProbBackward(b.q, dx, dw, logp, none, lse, none, x, w, target, 1, dz, acc) }
	}}
}

func rmsNorm(T, D int) Case {
	return Case{"rmsnorm", Shape{T: T, N: D}, 4*T*D + 4*T, 0, func(b *bed) func() {
		out, rstd, x, w := b.zeros(bf16, T, D), b.zeros(f32, T), b.tensor(bf16, T, D), b.tensor(bf16, D)
		return func() { kernels.RMSNorm(b.q, out, rstd, x, w, 1e-6) }
	}}
}

func addRMSNorm(T, D int) Case {
	return Case{"add_rmsnorm", Shape{T: T, N: D}, 8*T*D + 4*T, 0, func(b *bed) func() {
		sum, out, rstd := b.zeros(bf16, T, D), b.zeros(bf16, T, D), b.zeros(f32, T)
		x, r, w := b.tensor(bf16, T, D), b.tensor(bf16, T, D), b.tensor(bf16, D)
		return func() { kernels.AddRMSNorm(b.q, sum, out, rstd, x, r, w, 1e-6) }
	}}
}

func rmsNormBackward(T, D int) Case {
	return Case{"rmsnorm_backward", Shape{T: T, N: D}, 8*T*D + 4*T, 0, func(b *bed) func() {
		out, rstd, x, w := b.zeros(bf16, T, D), b.zeros(f32, T), b.tensor(bf16, T, D), b.tensor(bf16, D)
		kernels.RMSNorm(b.q, out, rstd, x, w, 1e-6)
		dx, dw, leaves, dout, dres := b.zeros(bf16, T, D), b.zeros(f32, D), b.zeros(f32, (T+15)/16, D), b.tensor(bf16, T, D), b.tensor(bf16, T, D)
		return func() { kernels.RMSNormBackward(b.q, dx, dw, leaves, dout, dres, rstd, x, w) }
	}}
}

// heads is what both directions of the norm and rotation of queries and keys take.
func heads(b *bed, T, H, K, E int) (out, rstd, qkv, wq, wk, pos, cos, sin kernels.Tensor) {
	at := make([]int32, T)
	for i := range at {
		at[i] = int32(i % 1024)
	}
	return b.zeros(bf16, T, H+K, E), b.zeros(f32, T, H+K), b.tensor(bf16, T, H+2*K, E), b.tensor(bf16, E), b.tensor(bf16, E), b.ints(at, T),
		b.tensor(f32, 1024, E/2), b.tensor(f32, 1024, E/2)
}

func qkNormRope(T, H, K, E int) Case {
	return Case{"qknormrope", Shape{T: T, H: H, G: K, E: E}, 4*T*(H+K)*E + 4*T*(H+K), 0, func(b *bed) func() {
		out, rstd, qkv, wq, wk, pos, cos, sin := heads(b, T, H, K, E)
		return func() { kernels.QKNormRope(b.q, out, rstd, qkv, wq, wk, pos, cos, sin, 1e-6) }
	}}
}

func qkNormRopeBackward(T, H, K, E int) Case {
	return Case{"qknormrope_backward", Shape{T: T, H: H, G: K, E: E}, 6*T*(H+K)*E + 4*T*(H+K), 0, func(b *bed) func() {
		out, rstd, qkv, wq, wk, pos, cos, sin := heads(b, T, H, K, E)
		kernels.QKNormRope(b.q, out, rstd, qkv, wq, wk, pos, cos, sin, 1e-6)
		dqkv, dwq, dwk, leaves := b.tensor(bf16, T, H+2*K, E), b.zeros(f32, E), b.zeros(f32, E), b.zeros(f32, (T+15)/16, 2, E)
		return func() { kernels.QKNormRopeBackward(b.q, dqkv, dwq, dwk, leaves, rstd, qkv, wq, wk, pos, cos, sin) }
	}}
}

func swiglu(T, F int) Case {
	return Case{"swiglu", Shape{T: T, N: F}, 6 * T * F, 0, func(b *bed) func() {
		out, gateup := b.zeros(bf16, T, F), b.tensor(bf16, T, 2*F)
		return func() { kernels.SwiGLU(b.q, out, gateup) }
	}}
}

func swigluBackward(T, F int) Case {
	return Case{"swiglu_backward", Shape{T: T, N: F}, 10 * T * F, 0, func(b *bed) func() {
		d, out, gateup := b.zeros(bf16, T, 2*F), b.tensor(bf16, T, F), b.tensor(bf16, T, 2*F)
		return func() { kernels.SwiGLUBackward(b.q, d, out, gateup) }
	}}
}

// tokens are T of V, some of them often.
func tokens(b *bed, T, V int) kernels.Tensor {
	ids := make([]int32, T)
	for i := range ids {
		ids[i] = int32(i % 509 * 7919 % V)
	}
	return b.ints(ids, T)
}

func embedding(T, V, D int) Case {
	return Case{"embedding", Shape{T: T, N: V, K: D}, 4 * T * D, 0, func(b *bed) func() {
		out, ids, w := b.zeros(bf16, T, D), tokens(b, T, V), b.tensor(bf16, V, D)
		return func() { kernels.Embedding(b.q, out, ids, w) }
	}}
}

func embeddingBackward(T, V, D int) Case {
	return Case{"embedding_backward", Shape{T: T, N: V, K: D}, 2*T*D + 8*min(T, 509)*D, 0, func(b *bed) func() {
		dw, dout, ids := b.zeros(f32, V, D), b.tensor(bf16, T, D), tokens(b, T, V)
		return func() { kernels.EmbeddingBackward(b.q, dw, dout, ids) }
	}}
}

func sample(R, V int) Case {
	return Case{"sample", Shape{T: R, N: V}, 4 * R * V, 0, func(b *bed) func() {
		tok, logp, logits := b.zeros(kernels.I32, R), b.zeros(f32, R), b.tensor(f32, R, V)
		words := make([]int32, R*kernels.SampleParamsBytes/4)
		for r := range R { // temperature 1, no filters
			p := words[r*kernels.SampleParamsBytes/4:]
			p[0], p[2], p[3], p[6] = int32(r+1), int32(math.Float32bits(1)), int32(math.Float32bits(1)), int32(r)
		}
		params := b.ints(words, len(words))
		params.DType, params.Shape = kernels.U8, [4]int{R, kernels.SampleParamsBytes}
		return func() { kernels.Sample(b.q, tok, logp, logits, params, kernels.Tensor{}, kernels.Tensor{}) }
	}}
}

func gradNorm(N int) Case {
	return Case{"gradnorm", Shape{N: N}, 4 * N, 0, func(b *bed) func() {
		norm, leaves, g := b.zeros(f32, 1), b.zeros(kernels.U64, (N+kernels.NormLeaf-1)/kernels.NormLeaf), b.tensor(f32, N)
		return func() { kernels.GradNorm(b.q, norm, leaves, g) }
	}}
}

func adamW(N int) Case {
	return Case{"adamw", Shape{N: N}, 30 * N, 0, func(b *bed) func() {
		w, master, g := b.zeros(bf16, N), b.tensor(f32, N), b.tensor(f32, N)
		m, v := kernels.Moment{Mean: b.zeros(f32, N)}, kernels.Moment{Mean: b.zeros(f32, N)}
		c := kernels.AdamWConfig{LR: 1e-6, Beta1: 0.9, Beta2: 0.98, Eps: 1e-8, Decay: 0.1, Scale: 1, Step: 1}
		return func() { kernels.AdamW(b.q, w, master, m, v, g, c) }
	}}
}
