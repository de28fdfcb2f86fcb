package engine

import (
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

	logits   kernels.Tensor // (R, V) float32
	params   pinned[kernels.SampleParams]
	tokens   pinned[int32]
	logProbs pinned[float32]
	before   pinned[copyPage]
	after    pinned[copyPage]
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

// run computes a plan and returns the drawn tokens and their log-probs, in the order of the work that samples.
func (s *step) run(p *plan) ([]int32, []float32, error) {
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
		return nil, nil, err
	}
	return s.tokens.host[:n], s.logProbs.host[:n], nil
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
			s.params.host[b.R] = w.seq.params()
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
	kernels.Sample(s.q, kernels.NewTensor(s.tokens.ptr, kernels.I32, R), kernels.NewTensor(s.logProbs.ptr, kernels.F32, R),
		logits, kernels.NewTensor(s.params.ptr, kernels.U8, R, kernels.SampleParamsBytes), kernels.Tensor{}, kernels.Tensor{})
}

func (s *step) copy(pages []copyPage, to *pinned[copyPage]) {
	if n := copy(to.host, pages); n > 0 {
		kernels.CopyPages(s.q, s.kv, kernels.NewTensor(to.ptr, kernels.I32, n, 2))
	}
}
