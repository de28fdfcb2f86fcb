package engine

import (
	"cmp"
	"slices"

	"tandem/kernels"
)

// listed says whether the device reads lists for s.
func (s *seq) listed() bool {
	return len(s.bias) > 0 || len(s.allowed) > 0 || s.request.Params.penalises()
}

// lists is what the device reads of bias, penalties and allowed tokens. Every place in the batch has room for one
// sequence's, which are written when it comes and then only grow, by the tokens that are drawn.
type lists struct {
	cfg     Config
	V       int
	edits   pinned[kernels.Edit] // (Seqs, Config.Edits)
	allowed pinned[int32]        // (Seqs, Config.Allowed)
	places  []listed             // (Seqs)
	ids     []int32              // scratch
}

// listed is whose lists a place has, and what they say.
type listed struct {
	seq   *seq
	turn  int
	seen  int // tokens of the sequence
	edits int
}

func (l *lists) take(dev kernels.Device, cfg Config, V int) error {
	l.cfg, l.V, l.places, l.ids = cfg, V, make([]listed, cfg.Seqs), make([]int32, 0, cfg.Context)
	if cfg.Edits > 0 {
		if err := l.edits.take(dev, cfg.Seqs*cfg.Edits); err != nil {
			return err
		}
	}
	if cfg.Allowed > 0 {
		return l.allowed.take(dev, cfg.Seqs*cfg.Allowed)
	}
	return nil
}

// tensors are what Sample takes.
func (l *lists) tensors() (edits, allowed kernels.Tensor) {
	if l.cfg.Edits > 0 {
		edits = kernels.NewTensor(l.edits.ptr, kernels.U8, len(l.edits.host), kernels.EditBytes)
	}
	if l.cfg.Allowed > 0 {
		allowed = kernels.NewTensor(l.allowed.ptr, kernels.I32, len(l.allowed.host))
	}
	return edits, allowed
}

// describe brings the lists of s up to date and puts them into its params.
func (l *lists) describe(s *seq, sp *kernels.SampleParams) {
	at := &l.places[s.place]
	if at.seq != s || at.turn != s.turn {
		l.begin(at, s)
	}
	if s.request.Params.penalises() {
		for ; at.seen < len(s.tokens); at.seen++ {
			if tok := s.tokens[at.seen]; int(tok) < l.V {
				l.count(at, tok)
			}
		}
	}
	sp.FirstEdit, sp.Edits = int32(s.place*l.cfg.Edits), int32(at.edits)
	sp.FirstAllowed, sp.Allowed = int32(s.place*l.cfg.Allowed), int32(len(s.allowed))
}

// begin writes the lists of s as they are before its turn.
func (l *lists) begin(at *listed, s *seq) {
	*at = listed{seq: s, turn: s.turn, seen: s.turn}
	copy(l.allowed.host[s.place*l.cfg.Allowed:], s.allowed)
	ids := l.ids[:0]
	if s.request.Params.repeats() {
		for _, tok := range s.tokens[:s.turn] {
			if int(tok) < l.V { // others have no logit
				ids = append(ids, tok)
			}
		}
		slices.Sort(ids)
		ids = slices.Compact(ids)
	}
	list, bias := l.of(s), s.bias
	for len(ids) > 0 || len(bias) > 0 {
		var e kernels.Edit
		if len(bias) > 0 && (len(ids) == 0 || bias[0].ID <= ids[0]) {
			e, bias = bias[0], bias[1:]
		} else {
			e.ID = ids[0]
		}
		if len(ids) > 0 && ids[0] == e.ID {
			e.Count, ids = 0, ids[1:]
		}
		list[at.edits] = e
		at.edits++
	}
}

// count notes that the turn has drawn a token.
func (l *lists) count(at *listed, token int32) {
	list := l.of(at.seq)
	i, found := slices.BinarySearchFunc(list[:at.edits], token, func(e kernels.Edit, id int32) int { return cmp.Compare(e.ID, id) })
	if !found {
		copy(list[i+1:at.edits+1], list[i:at.edits])
		list[i] = kernels.Edit{ID: token, Count: -1}
		at.edits++
	}
	list[i].Count = max(0, list[i].Count) + 1
}

// of is the room for the edits of s.
func (l *lists) of(s *seq) []kernels.Edit {
	return l.edits.host[s.place*l.cfg.Edits:][:l.cfg.Edits]
}
