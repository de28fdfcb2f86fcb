package cuda

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"
	"unsafe"

	"tandem/kernels"
)

// Some kernels have a form of their own for Hopper, which is faster and promises the same bits. Sampler and trainer may take
// different forms of one operation, so P2 rests on that promise. A card has to keep it before it is used: when it is opened, a
// small problem is given to both forms of each operation, and where they differ, or Hopper's fails, the card gets the forms
// that every card has.

// Forms says which kernels may run on a card that has Hopper's instructions.
type Forms int

// Usual are Hopper's if they are Proved, and on an emulated card without; Trusted are they without, Plain none of them, and
// every kernel starts when the one before has ended.
const (
	Usual Forms = iota
	Proved
	Trusted
	Plain
)

// FormsVariable, set to PlainForms, is how an environment asks for Plain.
const (
	FormsVariable = "TANDEM_CUDA_FORMS"
	PlainForms    = "plain"
)

// proofTime is how long all forms may take. They take milliseconds: a kernel that waits for itself never ends.
const proofTime = 20 * time.Second

var errStuck = errors.New("have not ended")

// A broken promise says why Hopper's forms are not used.
type broken struct{ why error }

func (b broken) Error() string { return b.why.Error() }

// Forms says why Hopper's forms of kernels are left alone on a card that has its instructions; "" if they are not.
func (d *Device) Forms() string { return d.forms }

// proven is a device like d, which it closes, whose GPU.Hopper says whether Hopper's forms keep their promise.
func (d *Device) proven(cfg Config) (*Device, error) {
	err := d.prove()
	var b broken
	switch {
	case errors.Is(err, errStuck):
		return nil, err // to close it would be to wait for it
	case err != nil && !errors.As(err, &b):
		return nil, errors.Join(err, d.Close())
	}
	if err := d.Close(); err != nil {
		return nil, err
	}
	again, e := open(cfg)
	if e == nil && err != nil {
		again.card.GPU.Hopper, again.early, again.forms = false, 0, err.Error()
	}
	return again, e
}

// prove runs every form of Hopper beside the one of every card. An error that is broken is about the forms.
func (d *Device) prove() error {
	p := &proof{rand: rand.New(rand.NewPCG(1, 2))}
	var err error
	if p.at, err = d.Alloc(proofBytes); err != nil {
		return err
	}
	if p.staged, p.host, err = d.Pinned(proofBytes); err != nil {
		return err
	}
	q, err := d.NewQueue()
	if err != nil {
		return err
	}
	problems := p.problems()
	d.card.GPU.SMs = 1 // so that small problems count as large
	var answers [2][]byte
	for i, hopper := range []bool{true, false} {
		if d.card.GPU.Hopper = hopper; !hopper {
			d.early = 0
		}
		q.Copy(p.at, p.staged, proofBytes)
		for _, problem := range problems {
			problem.run(q)
		}
		q.Copy(p.staged+kernels.Ptr(p.inputs), p.at+kernels.Ptr(p.inputs), proofBytes-p.inputs)
		ended := make(chan error, 1)
		go func() { ended <- q.Sync() }()
		select {
		case err := <-ended:
			if err != nil && hopper {
				return broken{err}
			} else if err != nil {
				return err
			}
		case <-time.After(proofTime):
			return fmt.Errorf("cuda: %s: Hopper's forms of kernels %w after %v; %s=%s does without them", d.card.Name, errStuck, proofTime, FormsVariable, PlainForms)
		}
		answers[i] = slices.Clone(p.host)
		clear(p.host[p.inputs:])
	}
	for _, problem := range problems {
		if !bytes.Equal(answers[0][problem.from:problem.to], answers[1][problem.from:problem.to]) {
			return broken{fmt.Errorf("%s gives other bits than the form that every card has", problem.name)}
		}
	}
	return nil
}

const proofBytes = 4 << 20

// A proof has memory of the card, and as much pinned that mirrors it: inputs first, then outputs.
type proof struct {
	rand   *rand.Rand
	at     kernels.Ptr
	staged kernels.Ptr
	host   []byte
	used   int
	inputs int // bytes of them
}

// A problem is an operation that has a form of Hopper, and the part of the memory that its answer is in.
type problem struct {
	name     string
	run      func(q kernels.Queue)
	from, to int
}

func (p *proof) tensor(t kernels.DType, shape ...int) kernels.Tensor {
	x := kernels.NewTensor(p.at+kernels.Ptr(p.used), t, shape...)
	p.used += (x.Bytes() + 255) &^ 255
	if p.used > proofBytes {
		panic("cuda: the proof of forms has too little memory")
	}
	return x
}

// matrix is bfloat16 numbers of many sizes, whose sums lose bits that another order would keep.
func (p *proof) matrix(shape ...int) kernels.Tensor {
	from := p.used
	x := p.tensor(kernels.BF16, shape...)
	for i := from; i < from+x.Bytes(); i += 2 {
		v := math.Float32bits(float32(p.rand.NormFloat64() * math.Exp2(float64(p.rand.IntN(9)-4))))
		p.host[i], p.host[i+1] = byte(v>>16), byte(v>>24)
	}
	return x
}

func (p *proof) numbers(n int) kernels.Tensor {
	from := p.used
	t := p.tensor(kernels.F32, n)
	x := unsafe.Slice((*float32)(unsafe.Pointer(&p.host[from])), n)
	for i := range x {
		x[i] = float32(p.rand.NormFloat64())
	}
	return t
}

func (p *proof) ints(x []int32, shape ...int) kernels.Tensor {
	from := p.used
	t := p.tensor(kernels.I32, shape...)
	copy(unsafe.Slice((*int32)(unsafe.Pointer(&p.host[from])), len(x)), x)
	return t
}

// problems has tiles' tails on every side: 130 rows of tiles of 128, 264 columns of tiles of 256.
func (p *proof) problems() []problem {
	const T, N, K, E, H, pages = 130, 264, 192, 128, 4, 3
	x, w, dy := p.matrix(T, K), p.matrix(N, K), p.matrix(T, N)
	qk, kv := p.matrix(T, H+1, E), p.matrix(1, pages, 2, 64*E)
	var rows, zeros, targets []int32
	for t := range int32(T) {
		rows, zeros, targets = append(rows, t), append(zeros, 0), append(targets, 2*t)
	}
	batch := kernels.AttentionBatch{
		Pos: p.ints(rows, T), Seq: p.ints(zeros, T), First: p.ints([]int32{0}, 1), Count: p.ints([]int32{T}, 1), Table: p.ints([]int32{2, 0, 1}, 1, pages),
	}
	target := p.ints(targets, T)
	slope := p.numbers(T)
	p.inputs = p.used
	var all []problem
	add := func(name string, run func(q kernels.Queue)) {
		from := p.inputs
		if len(all) > 0 {
			from = all[len(all)-1].to
		}
		all = append(all, problem{name, run, from, p.used})
	}
	y := p.tensor(kernels.F32, T, N)
	add("linear", func(q kernels.Queue) { kernels.Linear(q, y, x, w) })
	dx, dw := p.tensor(kernels.BF16, T, K), p.tensor(kernels.F32, N, K)
	add("the gradient of linear", func(q kernels.Queue) {
		kernels.LinearBackward(q, kernels.Tensor{}, dw, dy, x, w)
		kernels.LinearBackward(q, dx, dw, dy, x, w) // which goes on from what dw is
	})
	out, lse := p.tensor(kernels.BF16, T, H, E), p.tensor(kernels.F32, T, H)
	add("attention", func(q kernels.Queue) { kernels.Attention(q, out, lse, qk, kv, batch, 0, 0.01) })
	logp, entropy, sums := p.tensor(kernels.F32, T), p.tensor(kernels.F32, T), p.tensor(kernels.F32, T)
	parts := p.tensor(kernels.F32, T, kernels.LogProbParts(N), 4)
	add("log-probs", func(q kernels.Queue) { kernels.LogProb(q, logp, entropy, sums, x, w, target, 0.01, parts) })
	dhidden, dhead := p.tensor(kernels.BF16, T, K), p.tensor(kernels.F32, N, K)
	dz, acc := p.tensor(kernels.BF16, T, N), p.tensor(kernels.F32, T, K)
	add("the gradient of log-probs", func(q kernels.Queue) {
		kernels.LogProbBackward(q, dhidden, dhead, slope, slope, sums, entropy, x, w, target, 0.01, dz, acc)
	})
	return all
}
