package trainer

import (
	"errors"
	"fmt"

	"tandem/kernels"
)

// offloadPiece is how many bytes of gradients or weights an offloaded step moves at a time: enough to keep a bus busy while
// the host computes.
const offloadPiece = 64 << 20

// offloadPieceLen is the number of parameters in a piece of n.
func offloadPieceLen(n int) int { return min(n, offloadPiece/2) }

// An offload takes the optimizer's steps of a card on the host, whose memory holds the states. Gradients, scaled and
// clipped, are rounded to bfloat16 on the card and come down in pieces; weights go up in pieces. While the host computes
// one, the next one's gradients and the weights of the one before are on their way, so that a step takes as long as the
// slower of the two: 28 bytes of the host's memory for a parameter with float32 states, or 2 on the bus each way.
type offload struct {
	host     *kernels.CPU
	q        kernels.Queue // of the host
	down, up kernels.Queue // of the card

	piece   int            // parameters
	rounded kernels.Tensor // (piece) BF16 on the card: gradients on their way down
	grads   [2]twin        // (piece) BF16
	weights [2]twin        // (piece) BF16, of float32 masters
	upper   twin           // (N) BF16: weights that are the upper halves of the masters, and go up from where they are

	card   kernels.Sharer
	shared []byte // all twins
}

// A twin is memory of the host as it and the card see it.
type twin struct {
	host kernels.Tensor
	card kernels.Ptr
}

// rows are elements lo to hi.
func (t twin) rows(lo, hi int) twin {
	t.host = t.host.Rows(lo, hi)
	t.card += kernels.Ptr(lo * t.host.DType.Size())
	return t
}

// newOffload takes what a step of n parameters needs beside the states.
func newOffload(dev kernels.Device, card kernels.Sharer, sc StatesConfig, n int) (*offload, error) {
	f := &offload{card: card, piece: offloadPieceLen(n)}
	p, err := dev.Alloc(2 * f.piece)
	if err != nil {
		return nil, err
	}
	f.rounded = kernels.NewTensor(p, kernels.BF16, f.piece)
	for _, q := range []*kernels.Queue{&f.down, &f.up} {
		if *q, err = dev.NewQueue(); err != nil {
			return nil, err
		}
	}
	if f.host, err = kernels.NewCPU(kernels.CPUConfig{}); err != nil {
		return nil, err
	}
	if err := f.take(sc, n); err != nil {
		return nil, errors.Join(err, f.close())
	}
	return f, nil
}

// take takes the host's part, and shares it with the card.
func (f *offload) take(sc StatesConfig, n int) error {
	if err := f.host.Scratch(kernels.AdamWScratch()); err != nil {
		return err
	}
	var err error
	if f.q, err = f.host.NewQueue(); err != nil {
		return err
	}
	p, b, err := f.host.Pinned(sc.upperBytes(n) + sc.pinnedBytes(n))
	if err != nil {
		return err
	}
	c, err := f.card.Share(b)
	if err != nil {
		return err
	}
	f.shared = b
	cut := func(n int) twin {
		t := twin{kernels.NewTensor(p, kernels.BF16, n), c}
		p += kernels.Ptr(t.host.Bytes())
		c += kernels.Ptr(t.host.Bytes())
		return t
	}
	f.grads = [2]twin{cut(f.piece), cut(f.piece)}
	if sc.Master == splitMaster {
		f.upper = cut(n)
	} else {
		f.weights = [2]twin{cut(f.piece), cut(f.piece)}
	}
	return nil
}

// upperBytes is the memory of the weights that the host keeps since they are the upper halves of the masters.
func (sc StatesConfig) upperBytes(n int) int {
	if sc.Master == splitMaster {
		return 2 * n
	}
	return 0
}

// pinnedBytes is that of the pieces that move: two of gradients, and two of weights unless those move from where they are.
func (sc StatesConfig) pinnedBytes(n int) int {
	if sc.Master == splitMaster {
		return 2 * 2 * offloadPieceLen(n)
	}
	return 4 * 2 * offloadPieceLen(n)
}

// step updates the states, and the weights w on the card, by the gradients g there.
func (f *offload) step(s *states, runs []stretch, g kernels.Tensor, c kernels.AdamWConfig, decay float32) error {
	scale := c.Scale
	c.Scale = 1 // the card has scaled
	n := s.weights.Len()
	fetch := func(lo, slot int) {
		hi := min(lo+f.piece, n)
		kernels.RoundScaled(f.down, f.rounded.Rows(0, hi-lo), g.Rows(lo, hi), scale)
		f.down.Copy(f.grads[slot].card, f.rounded.Ptr, 2*(hi-lo))
	}
	fetch(0, 0)
	for lo, slot := 0, 0; lo < n; lo, slot = lo+f.piece, 1-slot {
		hi := min(lo+f.piece, n)
		if err := f.down.Sync(); err != nil {
			return fmt.Errorf("gradients on their way to the host: %w", err)
		}
		if hi < n {
			fetch(hi, 1-slot) // where the gradients of the last piece were, which have been used
		}
		w := f.slot(lo, hi, slot)
		for _, r := range runs {
			if at, end := max(lo, r.lo), min(hi, r.hi); at < end {
				c.Decay = r.rate(decay)
				kernels.AdamW(f.q, w.host.Rows(at-lo, end-lo), s.master.Rows(at, end), s.m.Rows(at, end), s.v.Rows(at, end),
					f.grads[slot].host.Rows(at-lo, end-lo), c)
			}
		}
		if err := f.q.Sync(); err != nil {
			return err
		}
		if err := f.up.Sync(); err != nil { // the next piece is written where the last one is read
			return fmt.Errorf("weights on their way from the host: %w", err)
		}
		f.up.Copy(s.weights.Ptr+kernels.Ptr(2*lo), w.card, 2*(hi-lo))
	}
	return f.up.Sync()
}

// slot is where the host leaves the weights of a piece.
func (f *offload) slot(lo, hi, slot int) twin {
	if f.upper.card != 0 {
		return f.upper.rows(lo, hi)
	}
	return f.weights[slot].rows(0, hi-lo)
}

// close gives the host's memory back, once nothing moves.
func (f *offload) close() error {
	var errs []error
	if f.shared != nil {
		errs = append(errs, f.down.Sync(), f.up.Sync(), f.card.Unshare(f.shared))
	}
	return errors.Join(append(errs, f.host.Close())...)
}
