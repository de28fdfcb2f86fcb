package trainer

import (
	"fmt"
	"strings"

	"tandem/kernels"
	"tandem/model"
)

// A Workload is the lengths that a step's time is derived for: tokens of each prompt and of each reply.
type Workload struct{ Prompt, Reply int }

// Longest is the workload of a recipe's longest sequences.
func (r Recipe) Longest() Workload {
	return Workload{r.Model.Context - r.Rollout.MaxTokens, r.Rollout.MaxTokens}
}

// A Floor is the time below which a phase of a step can't go on a machine: bytes over its bandwidth or operations over its
// rate, whichever takes longer. It is derived from datasheets, with every byte moved once at full rate.
type Floor struct {
	Phase   string
	Bytes   float64 // moved on each device, or through the link that limits
	Flops   float64 // on each device
	Seconds float64 // 0 where the machine has no datasheet
	Limit   string  // what it waits for
}

// cost is the operations and bytes of a model's passes. Sizes are letters of kernels/doc.go.
type cost struct {
	c    model.Config
	lin  float64 // parameters of the linear layers
	head float64 // of the head: V·D
	kv   float64 // bytes of the keys and values of a token
	w    float64 // bytes of weights that a decode step reads: the embedding's few rows are left out
}

func newCost(c model.Config, d kernels.DType) cost {
	D, H, K, E, F := float64(c.Hidden), float64(c.Heads), float64(c.KVHeads), float64(c.HeadDim), float64(c.MLP)
	k := cost{c: c, lin: float64(c.Layers) * (2*D*H*E + 2*D*K*E + 3*D*F), head: float64(c.Vocab) * D}
	k.kv = float64(model.PageBytes(c, d)) / model.PageTokens
	k.w = float64(d.Size()) * (k.lin + k.head)
	return k
}

// attention is the operations of scores and sums of a causal sequence of n tokens, forward.
func (k cost) attention(n float64) float64 {
	return float64(k.c.Layers) * 4 * float64(k.c.Heads*k.c.HeadDim) * n * n / 2
}

// forward is the operations of a sequence of n tokens with r rows at the head.
func (k cost) forward(n, r float64) float64 { return 2*n*k.lin + 2*r*k.head + k.attention(n) }

// backward is those of its gradient, without the logits that are computed again: 2·r·head.
func (k cost) backward(n, r float64) float64 { return 4*n*k.lin + 4*r*k.head + 2.5*k.attention(n) }

// decode is the bytes and operations of n replies of a length to prompts of a length, where at most batch are decoded at a
// time. Every reply's step reads the weights once for the batch, and the keys and values of all before it.
func (k cost) decode(n, batch int, l Workload) (bytes, flops float64) {
	waves := float64((n + batch - 1) / batch)
	P, R, N := float64(l.Prompt), float64(l.Reply), float64(n)
	context := R*P + R*(R-1)/2
	bytes = waves*R*k.w + k.kv*N*context
	flops = 2*N*R*(k.lin+k.head) + 4*float64(k.c.Layers*k.c.Heads*k.c.HeadDim)*N*context
	return bytes, flops
}

// Floors are the phases of a step on a plan's machine, one after the other.
func (p Plan) Floors(l Workload) []Floor {
	r, on, k := p.Recipe, p.Machine, newCost(p.Model, p.DType)
	ranks := on.gpus()
	samples := ceil(r.Rollout.Prompts*r.Rollout.Samples, ranks) // of a rank
	prompts := ceil(r.Rollout.Prompts, ranks)
	tokens := l.Prompt + l.Reply
	cfg := r.engineConfig(ranks)
	batch := max(1, min(cfg.Seqs, samples, cfg.Pages/max(1, model.PagesFor(tokens))))

	bytes, flops := k.decode(samples, batch, l)
	n := float64(model.ArenaLen(model.Params(p.Model)))
	flops += float64(prompts) * k.forward(float64(l.Prompt), 0)
	floors := []Floor{on.floor("rollout", bytes+k.w, flops)}

	N, R := float64(tokens), float64(l.Reply)
	micro := float64(ceil(samples, max(1, passLimits(r.Train.Rows, r.Model.Context).Rows/model.AlignedRows(tokens))))
	weights := n * float64(p.DType.Size())
	if r.Algorithm.KL > 0 {
		floors = append(floors, on.floor("reference", micro*weights, float64(samples)*k.forward(N, R)))
	}
	if t := p.teacher; t != nil {
		floors = append(floors, on.floor("teacher", micro*float64(model.ArenaLen(model.Params(*t))*p.DType.Size()), float64(samples)*newCost(*t, p.DType).forward(N, R)))
	}
	// Weights are read by forward and backward, gradients read and written.
	floors = append(floors, on.floor("train", micro*(2*weights+8*n), float64(samples)*(k.forward(N, R)+k.backward(N, R)+2*R*k.head)))
	return append(floors, p.updates(n)...)
}

// updates are the floors of the optimizer's steps and of what they move between devices.
func (p Plan) updates(n float64) []Floor {
	r, on := p.Recipe, p.Machine
	ranks, times := float64(on.gpus()), float64(r.Algorithm.Updates)
	slice := float64(sliceOf(int(n), on.gpus()))
	norm := 4 * slice
	var floors []Floor
	offload := on.Card != nil && r.States.Offload
	if offload {
		step := on.floor("optimizer", times*n*r.States.traffic(p.DType, 2), 0)
		step.Seconds, step.Limit = step.Bytes/hostBandwidth, "the host's memory, at 307 GB/s"
		down := on.floor("offload", times*slice*2, 0)
		if on.known() {
			down.Seconds, down.Limit = down.Bytes/on.Card.Host, "PCIe, gradients down and weights up at the same time"
		}
		floors = append(floors, on.floor("gradient norm", times*norm, 0), step, down)
	} else {
		floors = append(floors, on.floor("optimizer", times*(norm+slice*r.States.traffic(p.DType, 4)), 0))
	}
	if ranks > 1 {
		sum := on.floor("between cards", times*(ranks-1)/ranks*n*(4+float64(p.DType.Size())), 0)
		sum.Seconds, sum.Limit = sum.Bytes/on.Card.Peer, "the links: gradients summed in rank order, weights sent to all"
		floors = append(floors, sum)
	}
	return floors
}

// floor is a phase that the device's memory or its arithmetic limits.
func (m Machine) floor(name string, bytes, flops float64) Floor {
	f := Floor{Phase: name, Bytes: bytes, Flops: flops}
	if !m.known() {
		return f
	}
	f.Seconds, f.Limit = bytes/m.Card.Bandwidth, "memory"
	if s := flops / m.Card.Flops; s > f.Seconds {
		f.Seconds, f.Limit = s, "arithmetic"
	}
	return f
}

// traffic is the bytes that a step moves for a parameter: its gradient, its weight and the states, read and written.
func (sc StatesConfig) traffic(weights kernels.DType, gradient int) float64 {
	states := float64(sc.bytes(kernels.NormLeaf, weights)) / kernels.NormLeaf
	n := float64(gradient) + float64(weights.Size()) + 2*states
	if d, own := sc.master(weights); !own || d == kernels.U16 {
		n += float64(weights.Size()) // the weight is the master, or its upper half, and is read, too
	}
	return n
}

func ceil(n, d int) int { return (n + d - 1) / d }

// FloorTable is the floors of a step as a table.
func (p Plan) FloorTable(l Workload) string {
	var b strings.Builder
	r, on := p.Recipe, p.Machine
	fmt.Fprintf(&b, "a step of %d prompts × %d replies, prompts of %d and replies of %d tokens", r.Rollout.Prompts, r.Rollout.Samples, l.Prompt, l.Reply)
	if !on.known() {
		b.WriteString("; this machine has no datasheet to derive a time from\n")
	} else {
		fmt.Fprintf(&b, "\nderived from the datasheet (%.4g TB/s, %.4g TFLOP/s bf16), nothing measured: no step can be faster\n", on.Card.Bandwidth/1e12, on.Card.Flops/1e12)
	}
	sum, most := 0.0, Floor{}
	for _, f := range p.Floors(l) {
		fmt.Fprintf(&b, "%-15s %10s %12s", f.Phase, metric(f.Bytes, "B"), metric(f.Flops, "FLOP"))
		if on.known() {
			fmt.Fprintf(&b, " %9.3f s  %s", f.Seconds, f.Limit)
		}
		b.WriteString("\n")
		if sum += f.Seconds; f.Seconds > most.Seconds {
			most = f
		}
	}
	if on.known() {
		fmt.Fprintf(&b, "%-15s %33.3f s  one after the other; what limits is %s, by %s\n", "sum", sum, most.Phase, most.Limit)
	}
	return b.String()
}

func metric(x float64, unit string) string {
	if x == 0 {
		return "-"
	}
	for _, p := range []struct {
		scale float64
		sign  string
	}{{1e15, "P"}, {1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if x >= p.scale {
			return fmt.Sprintf("%.4g %s%s", x/p.scale, p.sign, unit)
		}
	}
	return fmt.Sprintf("%.4g %s", x, unit)
}
