package kernels

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// DType is the type of a tensor's elements.
type DType uint8

const (
	F32  DType = iota + 1 // IEEE float32
	BF16                  // the upper half of a float32
	I32                   // token ids, positions, row indices
	U64                   // seeds
	U8                    // packed structs, exponents
	F16                   // IEEE float16
	U16                   // low halves of masters
)

// Size is the number of bytes of an element.
func (d DType) Size() int {
	switch d {
	case F32, I32:
		return 4
	case BF16, F16, U16:
		return 2
	case U64:
		return 8
	case U8:
		return 1
	}
	panic(fmt.Sprintf("kernels: dtype %d has no size", d))
}

func (d DType) String() string {
	switch d {
	case F32:
		return "float32"
	case BF16:
		return "bfloat16"
	case I32:
		return "int32"
	case U64:
		return "uint64"
	case U8:
		return "uint8"
	case F16:
		return "float16"
	case U16:
		return "uint16"
	}
	return fmt.Sprintf("dtype(%d)", d)
}

// Ptr is an address on a device; on the CPU an offset into one reserved mapping. 0 is no address.
type Ptr uint64

// Tensor is a value: where the elements lie, their type, and up to four dimensions (unused ones are 0).
type Tensor struct {
	Ptr   Ptr
	DType DType
	Shape [4]int
}

// NewTensor describes the elements at p.
func NewTensor(p Ptr, d DType, shape ...int) Tensor {
	t := Tensor{Ptr: p, DType: d}
	copy(t.Shape[:], shape)
	return t
}

// Rank is the number of dimensions in use.
func (t Tensor) Rank() int {
	r := 0
	for r < len(t.Shape) && t.Shape[r] != 0 {
		r++
	}
	return r
}

// Dims is the dimensions in use.
func (t Tensor) Dims() []int { return t.Shape[:t.Rank()] }

// Len is the number of elements; there are none without dimensions.
func (t Tensor) Len() int {
	if t.Shape[0] == 0 {
		return 0
	}
	n := 1
	for _, d := range t.Dims() {
		n *= d
	}
	return n
}

// Bytes is the size of all elements.
func (t Tensor) Bytes() int { return t.Len() * t.DType.Size() }

// Rows is the tensor of rows lo to hi of the first dimension.
func (t Tensor) Rows(lo, hi int) Tensor {
	t.Ptr += Ptr(lo * t.Len() / t.Shape[0] * t.DType.Size())
	t.Shape[0] = hi - lo
	return t
}

// View is the same elements under another shape of the same length.
func (t Tensor) View(shape ...int) Tensor {
	v := NewTensor(t.Ptr, t.DType, shape...)
	if v.Len() != t.Len() {
		panic(fmt.Sprintf("kernels: view %v of %v: %d elements, want %d", shape, t.Dims(), v.Len(), t.Len()))
	}
	return v
}

// A dims binds letters to sizes on first use and holds later tensors to them.
type dims struct {
	op string
	at map[string]int
}

// want panics unless t is of one of the dtypes and has the shape that the letters say: a letter or number per
// dimension, e.g. want(x, "x", "T D", F32, BF16). Sizes that follow from others are put into at under any name, e.g. "E/2".
// Every launch passes here, so it allocates nothing but the map.
func (b *dims) want(t Tensor, name, letters string, types ...DType) {
	if b.at == nil {
		b.at = make(map[string]int, 8)
	}
	if t.Ptr == 0 {
		panic(fmt.Sprintf("%s: %s has no memory, want [%s]", b.op, name, letters))
	}
	rank, rest := 0, letters
	for rest != "" {
		var l string
		l, rest, _ = strings.Cut(rest, " ")
		if rank == len(t.Shape) || t.Shape[rank] != b.size(l, t.Shape[rank]) {
			b.misshaped(t, name, letters)
		}
		rank++
	}
	if t.Rank() != rank {
		b.misshaped(t, name, letters)
	}
	for _, d := range types {
		if t.DType == d {
			return
		}
	}
	var names []string // types itself would move to the heap at every call
	for _, d := range types {
		names = append(names, d.String())
	}
	panic(fmt.Sprintf("%s: %s is %v, want %s", b.op, name, t.DType, strings.Join(names, " or ")))
}

// size is what the letter is bound to, the number that it is, or n, to which it is bound from now on.
func (b *dims) size(letter string, n int) int {
	if have, bound := b.at[letter]; bound {
		return have
	}
	if letter[0] >= '0' && letter[0] <= '9' {
		if have, err := strconv.Atoi(letter); err == nil {
			return have
		}
	}
	b.at[letter] = n
	return n
}

func (b *dims) misshaped(t Tensor, name, letters string) {
	var have []string
	for _, l := range strings.Fields(letters) {
		if n, bound := b.at[l]; bound {
			have = append(have, fmt.Sprintf("%s=%d", l, n))
		}
	}
	panic(fmt.Sprintf("%s: %s is %v, want [%s] with %s", b.op, name, t.Dims(), letters, strings.Join(have, " ")))
}

// BF16Of rounds to nearest, ties to even; a NaN stays a NaN.
func BF16Of(x float32) uint16 {
	b := math.Float32bits(x)
	if b&0x7fffffff > 0x7f800000 {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// F32Of is exact.
func F32Of(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }
