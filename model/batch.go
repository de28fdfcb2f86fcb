package model

import (
	"fmt"

	"tandem/kernels"
)

// PageTokens is the number of tokens whose keys and values share a page.
const PageTokens = kernels.PageTokens

// rowAlign is the number of rows at whose multiples a training sequence starts.
const rowAlign = kernels.LeafRows

// Pages is the size of a page of all layers, in bytes.
func PageBytes(c Config, d kernels.DType) int {
	return c.Layers * 2 * c.KVHeads * PageTokens * c.HeadDim * d.Size()
}

// PagesFor is the number of pages that n tokens need.
func PagesFor(n int) int { return (n + PageTokens - 1) / PageTokens }

// BindPages names an arena of n pages: (L, pages, 2K, 64·E), keys of each head, then values of each head.
func BindPages(c Config, d kernels.DType, arena kernels.Ptr, n int) kernels.Tensor {
	return kernels.NewTensor(arena, d, c.Layers, n, 2*c.KVHeads, PageTokens*c.HeadDim)
}

// Limits are the most that one batch can hold.
type Limits struct {
	Rows  int // T
	Seqs  int // S
	Heads int // R
	Pages int // pages of one sequence
}

// A Batch is a packed step: rows of several sequences, where their keys and values lie, and which rows go to the head.
// It lives in memory that host and device both address. Fill it with Reset, then Sequence and Head.
type Batch struct {
	T, S, R int // in use

	limits Limits
	ptr    struct{ tokens, pos, seq, first, count, table, rows, target kernels.Ptr }

	Tokens []int32 // (T), -1 is a padding row
	Pos    []int32 // (T), absolute
	Seq    []int32 // (T), -1 is a padding row
	First  []int32 // (S), the sequence's first row
	Count  []int32 // (S), its rows
	Table  []int32 // (S, Pages), page numbers
	Rows   []int32 // (R), rows that go to the head, -1 is padding
	Target []int32 // (R), the token whose log-prob is asked for, -1 none
}

// BatchBytes is the pinned memory of a batch.
func BatchBytes(l Limits) int { return 4 * (3*l.Rows + 2*l.Seqs + l.Seqs*l.Pages + 2*l.Heads) }

// NewBatch takes pinned memory for the limits.
func NewBatch(dev kernels.Device, l Limits) (*Batch, error) {
	b := &Batch{limits: l}
	for _, f := range []struct {
		ptr  *kernels.Ptr
		host *[]int32
		n    int
	}{
		{&b.ptr.tokens, &b.Tokens, l.Rows}, {&b.ptr.pos, &b.Pos, l.Rows}, {&b.ptr.seq, &b.Seq, l.Rows},
		{&b.ptr.first, &b.First, l.Seqs}, {&b.ptr.count, &b.Count, l.Seqs}, {&b.ptr.table, &b.Table, l.Seqs * l.Pages},
		{&b.ptr.rows, &b.Rows, l.Heads}, {&b.ptr.target, &b.Target, l.Heads},
	} {
		p, host, err := dev.Pinned(4 * f.n)
		if err != nil {
			return nil, fmt.Errorf("batch of %+v: %w", l, err)
		}
		*f.ptr, *f.host = p, Int32s(host)
	}
	return b, nil
}

// Limits is what the batch was made for.
func (b *Batch) Limits() Limits { return b.limits }

// Reset empties the batch.
func (b *Batch) Reset() { b.T, b.S, b.R = 0, 0, 0 }

// Sequence adds rows of one sequence: tokens at positions pos, pos+1, ..., whose keys and values lie on pages. It
// returns the first row.
func (b *Batch) Sequence(tokens []int32, pos int, pages []int32) int {
	first, s := b.T, b.S
	if b.T+len(tokens) > b.limits.Rows || s == b.limits.Seqs || len(pages) > b.limits.Pages || PagesFor(pos+len(tokens)) > len(pages) {
		panic(fmt.Sprintf("model: batch with %d rows, %d sequences: %d tokens at %d on %d pages exceed %+v", b.T, b.S, len(tokens), pos, len(pages), b.limits))
	}
	for i, tok := range tokens {
		b.Tokens[first+i], b.Pos[first+i], b.Seq[first+i] = tok, int32(pos+i), int32(s)
	}
	b.First[s], b.Count[s] = int32(first), int32(len(tokens))
	copy(b.Table[s*b.limits.Pages:(s+1)*b.limits.Pages], pages)
	b.T, b.S = b.T+len(tokens), s+1
	return first
}

// Head sends a row to the head; target is the token whose log-prob is asked for, or -1.
func (b *Batch) Head(row int, target int32) {
	b.Rows[b.R], b.Target[b.R] = int32(row), target
	b.R++
}

// Align pads the rows, and those of the head, up to where a training sequence may start.
func (b *Batch) Align() {
	for ; b.T%rowAlign != 0; b.T++ {
		b.Tokens[b.T], b.Pos[b.T], b.Seq[b.T] = -1, 0, -1
	}
	for b.R%rowAlign != 0 {
		b.Head(-1, -1)
	}
}

// Idle fills up a decoding step with rows, sequences and head rows that compute nothing, to n of each.
func (b *Batch) Idle(n int) {
	for ; b.T < n; b.T++ {
		b.Tokens[b.T], b.Pos[b.T], b.Seq[b.T] = -1, 0, -1
	}
	for ; b.S < n; b.S++ {
		b.First[b.S], b.Count[b.S] = 0, 0
	}
	for b.R < n {
		b.Head(-1, -1)
	}
}

// AlignedRows is the number of rows that n tokens take in a training batch.
func AlignedRows(n int) int { return (n + rowAlign - 1) / rowAlign * rowAlign }

func (b *Batch) tokens() kernels.Tensor { return kernels.NewTensor(b.ptr.tokens, kernels.I32, b.T) }
func (b *Batch) pos() kernels.Tensor    { return kernels.NewTensor(b.ptr.pos, kernels.I32, b.T) }
func (b *Batch) rows() kernels.Tensor   { return kernels.NewTensor(b.ptr.rows, kernels.I32, b.R) }

// Targets is the token of each row of the head: (R).
func (b *Batch) Targets() kernels.Tensor { return kernels.NewTensor(b.ptr.target, kernels.I32, b.R) }

func (b *Batch) attention() kernels.AttentionBatch {
	return kernels.AttentionBatch{
		Pos:   b.pos(),
		Seq:   kernels.NewTensor(b.ptr.seq, kernels.I32, b.T),
		First: kernels.NewTensor(b.ptr.first, kernels.I32, b.S),
		Count: kernels.NewTensor(b.ptr.count, kernels.I32, b.S),
		Table: kernels.NewTensor(b.ptr.table, kernels.I32, b.S, b.limits.Pages),
	}
}
