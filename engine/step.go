package engine

import (
	"errors"
	"unsafe"

	"tandem/kernels"
	"tandem/model"
)

// A step is the memory that the engine's steps share, and how one runs.
type step struct {
	q     kernels.Queue
	w     *model.Weights
	cfg   Config
	kv    kernels.Tensor // (L, pages, 2K, 64·E)
	acts  *model.Activations
	batch *model.Batch

	logits      kernels.Tensor // (R, V) float32
	params      pinned[kernels.SampleParams]
	lists       lists
	tokens      pinned[int32]
	logProbs    pinned[float32]
	topTokens   pinned[int32]   // (R, Config.Top)
	topLogProbs pinned[float32] // (R, Config.Top)
	before      pinned[copyPage]
	after       pinned[copyPage]
}

// drawn is what a step gives for the rows that sample, in the order of the work.
type drawn struct {
	tokens      []int32   // (R)
	logProbs    []float32 // (R)
	topTokens   []int32   // (R, Config.Top)
	topLogProbs []float32 // (R, Config.Top)
}

// top is what is listed of n tokens from at on.
func (d drawn) top(at, n int) []TokenLogProb {
	var list []TokenLogProb
	for i, tok := range d.topTokens[at : at+n] {
		if tok >= 0 {
			list = append(list, TokenLogProb{tok, d.topLogProbs[at+i]})
		}
	}
	return list
}

// pinned is memory that both sides address.
type pinned[T any] struct {
	ptr  kernels.Ptr
	host []T
}

func (p *pinned[T]) take(dev kernels.Device, n int) error {
	var zero T
	ptr, b, err := dev.Pinned(n * int(unsafe.Sizeof(zero)))
	if err != nil {
		return err
	}
	p.ptr, p.host = ptr, unsafe.Slice((*T)(unsafe.Pointer(&b[0])), n)
	return nil
}

func newStep(dev kernels.Device, w *model.Weights, cfg Config) (*step, error) {
	c, d, l := w.Config, w.Embed.DType, cfg.limits()
	s := &step{w: w, cfg: cfg}
	pages, err := dev.Alloc(cfg.Pages * model.PageBytes(c, d))
	if err != nil {
		return nil, err
	}
	s.kv = model.BindPages(c, d, pages, cfg.Pages)
	if s.acts, err = model.NewActivations(dev, c, d, l, false); err != nil {
		return nil, err
	}
	if s.batch, err = model.NewBatch(dev, l); err != nil {
		return nil, err
	}
	logits, err := dev.Alloc(l.Heads * w.Head.Shape[0] * 4)
	if err != nil {
		return nil, err
	}
	s.logits = kernels.NewTensor(logits, kernels.F32, l.Heads, w.Head.Shape[0])
	for _, take := range []func(kernels.Device, int) error{s.params.take, s.tokens.take, s.logProbs.take, s.before.take, s.after.take} {
		if err := take(dev, l.Heads); err != nil {
			return nil, err
		}
	}
	if err := s.lists.take(dev, cfg, w.Head.Shape[0]); err != nil {
		return nil, err
	}
	if cfg.Top > 0 {
		if err := errors.Join(s.topTokens.take(dev, l.Heads*cfg.Top), s.topLogProbs.take(dev, l.Heads*cfg.Top)); err != nil {
			return nil, err
		}
	}
	s.q, err = dev.NewQueue()
	return s, err
}

// bucket is the number of rows to which a decoding step of n is padded, so that few sizes are recorded.
func bucket(n int) int {
	switch {
	case n <= 2:
		return n
	case n <= 4:
		return 4
	default:
		return (n + 7) / 8 * 8
	}
}

// run computes a plan.
func (s *step) run(p *plan) (drawn, error) {
	s.fill(p)
	n := s.batch.R
	decode := s.batch.T == s.batch.R && s.batch.S == s.batch.R
	if decode {
		s.pad(bucket(n))
	}
	s.copy(p.before, &s.before)
	if decode {
		s.q.Repeat(s.batch.T, s.forward)
	} else {
		s.forward()
	}
	s.copy(p.after, &s.after)
	if err := s.q.Sync(); err != nil {
		return drawn{}, err
	}
	top := n * s.cfg.Top
	return drawn{s.tokens.host[:n], s.logProbs.host[:n], s.topTokens.host[:top], s.topLogProbs.host[:top]}, nil
}

// fill packs the plan into the batch.
func (s *step) fill(p *plan) {
	b := s.batch
	b.Reset()
	last := make([]int, len(p.work))
	for i, w := range p.work {
		if w.fork >= 0 {
			last[i] = last[w.fork]
		} else {
			at := w.seq.computed
			last[i] = b.Sequence(w.seq.tokens[at:at+w.n], at, w.seq.held) + w.n - 1
		}
		if w.sample {
			sp := &s.params.host[b.R]
			if *sp = w.seq.params(); w.seq.listed() {
				s.lists.describe(w.seq, sp)
			}
			b.Head(last[i], -1)
		}
	}
}

// pad adds idle rows, sequences and draws up to n of each.
func (s *step) pad(n int) {
	b := s.batch
	for r := b.R; r < n; r++ {
		s.params.host[r] = kernels.SampleParams{Pos: -1}
	}
	b.Idle(n)
}

func (s *step) forward() {
	model.Forward(s.q, s.w, s.batch, s.kv, s.acts)
	R := s.batch.R
	if R == 0 {
		return
	}
	logits := s.logits.Rows(0, R)
	model.Logits(s.q, s.w, s.batch, s.acts, logits)
	params := kernels.NewTensor(s.params.ptr, kernels.U8, R, kernels.SampleParamsBytes)
	edits, allowed := s.lists.tensors()
	kernels.Sample(s.q, kernels.NewTensor(s.tokens.ptr, kernels.I32, R), kernels.NewTensor(s.logProbs.ptr, kernels.F32, R),
		logits, params, edits, allowed)
	if N := s.cfg.Top; N > 0 {
		kernels.TopLogProbs(s.q, kernels.NewTensor(s.topTokens.ptr, kernels.I32, R, N), kernels.NewTensor(s.topLogProbs.ptr, kernels.F32, R, N),
			logits, params)
	}
}

func (s *step) copy(pages []copyPage, to *pinned[copyPage]) {
	if n := copy(to.host, pages); n > 0 {
		kernels.CopyPages(s.q, s.kv, kernels.NewTensor(to.ptr, kernels.I32, n, 2))
	}
}
