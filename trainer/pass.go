package trainer

import (
	"context"
	"fmt"

	"tandem/kernels"
	"tandem/model"
)

// A span is tokens lo to hi of a sequence.
type span = [2]int

// A pass is the training forward (and backward) over packed sequences: the memory for it, and the batch at hand.
type pass struct {
	q     kernels.Queue
	w     *model.Weights
	batch *model.Batch
	acts  *model.Activations
	kv    kernels.Tensor // (L, pages, 2K, 64·E), each page used by one sequence of the batch
	pages int            // in use

	logp, entropy, dlogp pinnedF32 // (R)
}

// pinnedF32 is memory that host and device both address.
type pinnedF32 struct {
	ptr  kernels.Ptr
	host []float32
}

func newPinnedF32(dev kernels.Device, n int) (pinnedF32, error) {
	p, b, err := dev.Pinned(4 * n)
	if err != nil {
		return pinnedF32{}, err
	}
	return pinnedF32{p, model.Float32s(b)}, nil
}

func (p pinnedF32) tensor(n int) kernels.Tensor { return kernels.NewTensor(p.ptr, kernels.F32, n) }

// passLimits are those of a pass over at most rows rows of sequences of at most context tokens.
func passLimits(rows, context int) model.Limits {
	rows = model.AlignedRows(rows)
	return model.Limits{Rows: rows, Seqs: rows / model.AlignedRows(1), Heads: rows, Pages: model.PagesFor(context)}
}

// passPages is the number of pages that any batch within the limits can need.
func passPages(l model.Limits) int { return l.Seqs + l.Rows/model.PageTokens }

// newPass takes memory for the limits; train says whether a backward pass will follow.
func newPass(dev kernels.Device, w *model.Weights, l model.Limits, train bool) (*pass, error) {
	c, d := w.Config, w.Embed.DType
	p := &pass{w: w}
	pages := passPages(l)
	arena, err := dev.Alloc(pages * model.PageBytes(c, d))
	if err != nil {
		return nil, fmt.Errorf("pages for training: %w", err)
	}
	p.kv = model.BindPages(c, d, arena, pages)
	if p.acts, err = model.NewActivations(dev, c, d, l, train); err != nil {
		return nil, err
	}
	if p.batch, err = model.NewBatch(dev, l); err != nil {
		return nil, err
	}
	for _, f := range []*pinnedF32{&p.logp, &p.entropy, &p.dlogp} {
		if *f, err = newPinnedF32(dev, l.Heads); err != nil {
			return nil, fmt.Errorf("log-probs of %d rows: %w", l.Heads, err)
		}
	}
	p.q, err = dev.NewQueue()
	return p, err
}

func (p *pass) reset() {
	p.batch.Reset()
	p.pages = 0
}

// fits says whether a sequence of n tokens can be added.
func (p *pass) fits(n int) bool {
	l := p.batch.Limits()
	return p.batch.T+model.AlignedRows(n) <= l.Rows && p.batch.S < l.Seqs
}

// add packs a sequence; the tokens of the spans are those whose log-probs are wanted. It returns the first of their rows
// at the head, which follow each other. No row is spent on what comes after the last of them.
func (p *pass) add(tokens []int32, spans []span) int {
	end := 0
	for _, s := range spans {
		end = max(end, s[1])
	}
	rows := tokens[:max(end-1, 0)] // row i predicts token i+1
	pages := make([]int32, model.PagesFor(len(rows)))
	for i := range pages {
		pages[i] = int32(p.pages)
		p.pages++
	}
	b := p.batch
	first, head := b.Sequence(rows, 0, pages), b.R
	for _, s := range spans {
		for i := s[0]; i < s[1]; i++ {
			b.Head(first+i-1, tokens[i])
		}
	}
	b.Align()
	return head
}

// forward computes the log-probs and entropies of the batch's spans: rows of p.logp.host and p.entropy.host.
func (p *pass) forward(invT float32) error {
	if p.batch.R == 0 {
		return nil
	}
	model.Forward(p.q, p.w, p.batch, p.kv, p.acts)
	R := p.batch.R
	model.LogProbs(p.q, p.w, p.batch, p.acts, p.logp.tensor(R), p.entropy.tensor(R), invT)
	return p.q.Sync()
}

// backward adds the gradient of the batch to g, given p.dlogp.host.
func (p *pass) backward(g *model.Weights) {
	model.Backward(p.q, p.w, g, p.batch, p.kv, p.acts, p.dlogp.tensor(p.batch.R), kernels.Tensor{})
}

// logProbs gives the log-probs of the spans of given sequences, in as many batches as it takes.
func (p *pass) logProbs(ctx context.Context, seqs [][]int32, spans [][]span, invT float32) ([][]float32, error) {
	out := make([][]float32, len(seqs))
	for lo := 0; lo < len(seqs); {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		p.reset()
		var heads []int
		hi := lo
		for ; hi < len(seqs) && p.fits(len(seqs[hi])); hi++ {
			heads = append(heads, p.add(seqs[hi], spans[hi]))
		}
		if hi == lo {
			return nil, fmt.Errorf("sequence %d: %d tokens exceed the %d that fit", lo, len(seqs[lo]), p.batch.Limits().Rows)
		}
		if err := p.forward(invT); err != nil {
			return nil, err
		}
		for i, head := range heads {
			out[lo+i] = append([]float32{}, p.logp.host[head:head+covered(spans[lo+i])]...)
		}
		lo = hi
	}
	return out, nil
}

// covered is the number of tokens in the spans.
func covered(spans []span) int {
	n := 0
	for _, s := range spans {
		n += s[1] - s[0]
	}
	return n
}

// A Scorer gives the log-probs of given sequences by the training forward.
type Scorer struct{ pass *pass }

// NewScorer takes memory for batches of rows rows and sequences of at most context tokens.
func NewScorer(dev kernels.Device, w *model.Weights, rows, context int) (*Scorer, error) {
	p, err := newPass(dev, w, passLimits(max(rows, context), context), false)
	if err != nil {
		return nil, fmt.Errorf("scorer: %w", err)
	}
	return &Scorer{p}, nil
}

// LogProbs gives, for each sequence, the log-prob of every token but the first under softmax(logits / temperature).
func (s *Scorer) LogProbs(seqs [][]int32, temperature float32) ([][]float32, error) {
	if !(temperature > 0) {
		return nil, fmt.Errorf("score: temperature is %v, want more than 0", temperature)
	}
	spans := make([][]span, len(seqs))
	for i, tokens := range seqs {
		if err := checkSequence(tokens, s.pass.w.Config.Vocab, s.pass.batch.Limits()); err != nil {
			return nil, fmt.Errorf("score sequence %d: %w", i, err)
		}
		spans[i] = []span{{1, max(len(tokens), 1)}}
	}
	out, err := s.pass.logProbs(context.Background(), seqs, spans, 1/temperature)
	if err != nil {
		return nil, fmt.Errorf("score: %w", err)
	}
	return out, nil
}

func checkSequence(tokens []int32, vocab int, l model.Limits) error {
	if model.PagesFor(len(tokens)) > l.Pages {
		return fmt.Errorf("%d tokens exceed the context of %d", len(tokens), l.Pages*model.PageTokens)
	}
	for i, t := range tokens {
		if t < 0 || int(t) >= vocab {
			return fmt.Errorf("token %d is %d, want 0 to %d", i, t, vocab-1)
		}
	}
	return nil
}
