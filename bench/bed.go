// Package bench measures every kernel at the shapes of a Qwen3, on the device at hand, with random data: microseconds by the
// card's own clock, and the share of what the card can do. yardsticks.py beside it measures what others make of the same
// shapes on the same card.
package bench

import (
	"fmt"
	"math/rand/v2"
	"time"

	"tandem/kernels"
)

// A bed is a device's memory and queue for one case after the other. Memory is taken once; a case's tensors are given
// back as a whole.
type bed struct {
	q     kernels.Queue
	host  *kernels.Transfer
	arena kernels.Ptr
	bytes int
	used  int
	seed  kernels.Ptr // randomBytes of random bfloat16: a float32 made of two is random as well
}

const randomBytes = 64 << 20

func newBed(dev kernels.Device, bytes int) (*bed, error) {
	b := &bed{bytes: bytes}
	var err error
	if b.q, err = dev.NewQueue(); err != nil {
		return nil, err
	}
	if b.host, err = kernels.NewTransfer(dev); err != nil {
		return nil, err
	}
	if b.arena, err = dev.Alloc(bytes); err != nil {
		return nil, fmt.Errorf("bench: memory for the operands: %w", err)
	}
	if b.seed, err = dev.Alloc(randomBytes); err != nil {
		return nil, fmt.Errorf("bench: memory for random values: %w", err)
	}
	r := rand.New(rand.NewPCG(1, 2)) // inputs only: every run measures the same
	return b, b.host.Up(b.seed, randomBytes, func(piece []byte) error {
		for i := 0; i < len(piece); i += 2 {
			x := kernels.BF16Of(float32(r.NormFloat64()))
			piece[i], piece[i+1] = byte(x), byte(x>>8)
		}
		return nil
	})
}

// tensor is memory with random values.
func (b *bed) tensor(d kernels.DType, shape ...int) kernels.Tensor {
	t := b.zeros(d, shape...)
	for at := 0; at < t.Bytes(); at += randomBytes {
		b.q.Copy(t.Ptr+kernels.Ptr(at), b.seed, min(randomBytes, t.Bytes()-at))
	}
	return t
}

func (b *bed) zeros(d kernels.DType, shape ...int) kernels.Tensor {
	const align = 256
	t := kernels.NewTensor(b.arena+kernels.Ptr(b.used), d, shape...)
	b.used += (t.Bytes() + align - 1) / align * align
	if b.used > b.bytes {
		panic(fmt.Sprintf("bench: a case wants %d bytes, there are %d", b.used, b.bytes))
	}
	kernels.Zero(b.q, t)
	return t
}

// ints is memory with x.
func (b *bed) ints(x []int32, shape ...int) kernels.Tensor {
	t := b.zeros(kernels.I32, shape...)
	if err := b.q.Sync(); err != nil {
		panic(err)
	}
	err := b.host.Up(t.Ptr, t.Bytes(), func(piece []byte) error {
		for i := 0; i < len(piece); i += 4 {
			v := uint32(x[0])
			piece[i], piece[i+1], piece[i+2], piece[i+3] = byte(v), byte(v>>8), byte(v>>16), byte(v>>24)
			x = x[1:]
		}
		return nil
	})
	if err != nil {
		panic(err)
	}
	return t
}

// A timer takes the time of what is given to a queue by the card's clock.
type timer interface {
	Time(f func()) (time.Duration, error)
}

// time is the microseconds of one f: the median of five rounds, each long enough for its clock.
func (b *bed) time(f func()) (float64, error) {
	round := func(n int) (time.Duration, error) {
		run := func() {
			for range n {
				f()
			}
		}
		if t, ok := b.q.(timer); ok {
			return t.Time(run)
		}
		begun := time.Now()
		run()
		err := b.q.Sync()
		return time.Since(begun), err
	}
	once, err := round(1) // loads what is loaded late
	if err != nil {
		return 0, err
	}
	n := int(max(1, min(200, 20*time.Millisecond/max(once, time.Microsecond))))
	var rounds []time.Duration
	for range 5 {
		d, err := round(n)
		if err != nil {
			return 0, err
		}
		rounds = append(rounds, d)
	}
	return float64(median(rounds)) / float64(n) / 1e3, nil
}
