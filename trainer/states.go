package trainer

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"

	"tandem/kernels"
)

// States are what AdamW remembers of every parameter.
type states struct {
	weights kernels.Tensor // (N) on the device, which are not the optimizer's
	master  kernels.Tensor // (N) float32, or uint16: the low halves. With float32 weights it is the weights
	upper   kernels.Tensor // (N) bf16: the upper halves beside low ones. They are the weights, but for a copy where masters are offloaded
	m, v    kernels.Moment // (N)

	device *kernels.Transfer // to and from the weights
	memory *kernels.Transfer // to and from the others: the same, unless they are offloaded
}

var stateTypes = map[string]kernels.DType{"float32": kernels.F32, "bf16": kernels.BF16, "float16": kernels.F16}

const splitMaster = "bf16+16"

// newStates takes the memory; moments are zero, masters not yet set.
func newStates(dev kernels.Device, sc StatesConfig, weights kernels.Tensor, x *kernels.Transfer) (states, error) {
	n := weights.Len()
	p, err := dev.Alloc(sc.bytes(n, weights.DType))
	if err != nil {
		return states{}, err
	}
	take := func(d kernels.DType, n int) kernels.Tensor {
		t := kernels.NewTensor(p, d, n)
		p += kernels.Ptr(t.Bytes())
		return t
	}
	s := states{weights: weights, master: weights, upper: weights, device: x, memory: x}
	if d, own := sc.master(weights.DType); own {
		s.master = take(d, n)
	}
	for _, f := range []struct {
		to    *kernels.Moment
		dtype string
	}{{&s.m, sc.FirstMoment}, {&s.v, sc.SecondMoment}} {
		f.to.Mean = take(stateTypes[f.dtype], n)
		if f.to.Mean.DType == kernels.F16 {
			f.to.Exponent = take(kernels.U8, n/kernels.MomentBlock)
		}
	}
	return s, nil
}

// master is the dtype of the masters, and whether they have memory of their own: float32 weights are masters.
func (sc StatesConfig) master(weights kernels.DType) (kernels.DType, bool) {
	switch {
	case weights == kernels.F32:
		return kernels.F32, false
	case sc.Master == splitMaster:
		return kernels.U16, true
	}
	return kernels.F32, true
}

// bytes is the memory of the states of n parameters, a multiple of kernels.NormLeaf.
func (sc StatesConfig) bytes(n int, weights kernels.DType) int {
	total := 0
	if d, own := sc.master(weights); own {
		total += n * d.Size()
	}
	for _, dtype := range []string{sc.FirstMoment, sc.SecondMoment} {
		d := stateTypes[dtype]
		total += n * d.Size()
		if d == kernels.F16 {
			total += n / kernels.MomentBlock
		}
	}
	return total
}

func (sc StatesConfig) String() string {
	at := "on the device"
	if sc.Offload {
		at = "in the host's memory"
	}
	return fmt.Sprintf("masters %s, first moments %s, second %s, %s", sc.Master, sc.FirstMoment, sc.SecondMoment, at)
}

// checkStates says what is wrong with the states, and with the betas for moments of so few bits.
func (r Recipe) checkStates() error {
	sc := r.States
	if !slices.Contains([]string{"float32", splitMaster}, sc.Master) {
		return fmt.Errorf("states.master is %q, want float32 or %s", sc.Master, splitMaster)
	}
	if sc.Master == splitMaster && r.Model.DType == "float32" {
		return fmt.Errorf("states.master is %s with model.dtype float32, whose weights are their own masters: want float32", splitMaster)
	}
	for _, m := range []struct {
		key, dtype string
		beta       [2]float32 // of the warm-up and of the rest
	}{
		{"first_moment", sc.FirstMoment, [2]float32{r.Warmup.Optimizer.Beta1, r.Optimizer.Beta1}},
		{"second_moment", sc.SecondMoment, [2]float32{r.Warmup.Optimizer.Beta2, r.Optimizer.Beta2}},
	} {
		d, ok := stateTypes[m.dtype]
		if !ok {
			return fmt.Errorf("states.%s is %q, want float32, bf16 or float16", m.key, m.dtype)
		}
		beta := m.beta[1]
		if r.Warmup.Steps > 0 {
			beta = max(beta, m.beta[0])
		}
		if rest := kernels.MomentRest(d); 1-beta < rest && d != kernels.F32 {
			return fmt.Errorf("states.%s is %s with a beta of %v: a step changes such a mean by less than half of its last bit, so that it would rise and never fall; want a beta of %v at most, or float32",
				m.key, m.dtype, beta, 1-rest)
		}
	}
	return nil
}

// masterPiece is the number of masters that are moved at a time.
const masterPiece = kernels.TransferBytes / 4

// readMasters hands out all masters as float32, in pieces.
func (s *states) readMasters(use func([]float32) error) error {
	out, upper := make([]float32, masterPiece), make([]byte, 2*masterPiece)
	for at := 0; at < s.master.Len(); at += masterPiece {
		piece := out[:min(masterPiece, s.master.Len()-at)]
		if s.master.DType == kernels.F32 {
			if err := s.memory.Get(piece, s.master, at); err != nil {
				return err
			}
		} else if err := s.join(piece, upper, at); err != nil {
			return err
		}
		if err := use(piece); err != nil {
			return err
		}
	}
	return nil
}

func (s *states) join(out []float32, upper []byte, at int) error {
	read := func(t kernels.Tensor, use func([]byte) error) error {
		return s.memory.Down(t.Ptr+kernels.Ptr(2*at), 2*len(out), use)
	}
	if err := read(s.upper, func(b []byte) error { copy(upper, b); return nil }); err != nil {
		return err
	}
	return read(s.master, func(low []byte) error {
		for i := range out {
			out[i] = kernels.JoinMaster(binary.LittleEndian.Uint16(upper[2*i:]), binary.LittleEndian.Uint16(low[2*i:]))
		}
		return nil
	})
}

// writeMasters sets masters, and the weights, which are the masters rounded, to what fill gives in pieces.
func (s *states) writeMasters(fill func([]float32) error) error {
	in, upper, low := make([]float32, masterPiece), make([]byte, 2*masterPiece), make([]byte, 2*masterPiece)
	for at := 0; at < s.master.Len(); at += masterPiece {
		piece := in[:min(masterPiece, s.master.Len()-at)]
		if err := fill(piece); err != nil {
			return err
		}
		if s.master.DType == kernels.F32 {
			if err := s.memory.Put(s.master, at, piece); err != nil {
				return err
			}
		}
		if s.weights.DType == kernels.F32 {
			continue // which were the masters
		}
		for i, v := range piece {
			w, l := kernels.SplitMaster(v)
			binary.LittleEndian.PutUint16(upper[2*i:], w)
			binary.LittleEndian.PutUint16(low[2*i:], l)
		}
		write := func(x *kernels.Transfer, t kernels.Tensor, from []byte) error {
			return x.Up(t.Ptr+kernels.Ptr(2*at), 2*len(piece), func(b []byte) error { copy(b, from); return nil })
		}
		if err := write(s.device, s.weights, upper); err != nil {
			return err
		}
		if s.master.DType != kernels.U16 {
			continue
		}
		if err := write(s.memory, s.upper, upper); err != nil {
			return err
		}
		if err := write(s.memory, s.master, low); err != nil {
			return err
		}
	}
	return nil
}

// startMasters makes the masters those of the weights as loaded, which are exact.
func (s *states) startMasters() error {
	to := s.master
	if to.DType == kernels.U16 {
		to = s.upper // beside low halves of 0
	}
	if to.Ptr == s.weights.Ptr && s.memory == s.device {
		return nil
	}
	buf := make([]float32, masterPiece)
	for at := 0; at < to.Len(); at += masterPiece {
		piece := buf[:min(masterPiece, to.Len()-at)]
		if err := s.device.Get(piece, s.weights, at); err != nil {
			return err
		}
		if err := s.memory.Put(to, at, piece); err != nil {
			return err
		}
	}
	return nil
}

// writeFloats writes float32 in the byte order of files.
func writeFloats(w io.Writer, x []float32, buf []byte) error {
	for i, v := range x {
		binary.LittleEndian.PutUint32(buf[4*i:], math.Float32bits(v))
	}
	_, err := w.Write(buf[:4*len(x)])
	return err
}
