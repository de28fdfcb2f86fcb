package kernels_test

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// A tensorCore says how a card adds the products of a chain to its accumulator: `group` of them at a time, each cut off where
// the largest one's exponent leaves `bits` fraction bits, and the sum to a float32 in `mode`.
// Source: how Hopper's and Blackwell's are modelled in the literature; kernels/emu/src/mma.cc is another writing of it.
type tensorCore struct {
	group, bits int
	mode        big.RoundingMode
}

// What doc.go promises.
var modelled = tensorCore{16, 25, big.ToZero}

func (m tensorCore) String() string {
	return fmt.Sprintf("groups of %d, %d fraction bits, sums %v", m.group, m.bits, m.mode)
}

// others are what a card might do instead.
func others() (ms []tensorCore) {
	for _, group := range []int{16, 8, 4} {
		for bits := 23; bits <= 28; bits++ {
			for _, mode := range []big.RoundingMode{big.ToZero, big.ToNearestEven} {
				if m := (tensorCore{group, bits, mode}); m != modelled {
					ms = append(ms, m)
				}
			}
		}
	}
	return ms
}

// dot is Σ a·b of bfloat16 numbers, with everything well within float32's range.
func (m tensorCore) dot(a, b []float32) float32 {
	var acc float32
	for ; len(a) > 0; a, b = a[m.group:], b[m.group:] {
		acc = m.add(acc, a[:m.group], b[:m.group])
	}
	return acc
}

func (m tensorCore) add(acc float32, a, b []float32) float32 {
	type term struct {
		x   float64 // exact
		exp int     // a product's is the sum of its factors', though it may be twice as large
	}
	terms := []term{{float64(acc), exponent(acc)}}
	top := terms[0].exp
	for k := range a {
		t := term{float64(a[k]) * float64(b[k]), exponent(a[k]) + exponent(b[k])}
		terms, top = append(terms, t), max(top, t.exp)
	}
	sum := 0.0 // of integers below 2^34: exact
	for _, t := range terms {
		sum += math.Trunc(math.Ldexp(t.x, m.bits-top))
	}
	rounded, _ := new(big.Float).SetPrec(24).SetMode(m.mode).SetFloat64(sum).Float64()
	return float32(math.Ldexp(rounded, top-m.bits))
}

// exponent of 1.5 is 0, that of 0 less than any.
func exponent(x float32) int {
	if x == 0 {
		return -1000
	}
	_, e := math.Frexp(float64(x))
	return e - 1
}

const chainRows, chainCols, chainLength = 16, 24, 256

// chainOperands are rows whose products differ by up to 2^24 in size and cancel, so that what is cut off shows.
func chainOperands(r *rand.Rand) (a, b []float32) {
	draw := func(n int) []float32 {
		x := make([]float32, n)
		for i := range x {
			x[i] = float32(r.NormFloat64() * math.Exp2(float64(r.IntN(13)-6)))
		}
		return kerneltest.Round(kernels.BF16, x)
	}
	return draw(chainRows * chainLength), draw(chainCols * chainLength)
}

// repeated is x (rows, chainLength) again and again, M rows in all; across gives its transpose.
func repeated(x []float32, M int, across bool) []float32 {
	rows, out := len(x)/chainLength, make([]float32, M*chainLength)
	for i := range M {
		for k := range chainLength {
			if v := x[i%rows*chainLength+k]; across {
				out[k*M+i] = v
			} else {
				out[i*chainLength+k] = v
			}
		}
	}
	return out
}

// A chainForm gives c (M, N) = a·bᵀ by a kernel of its own, or another tile of it.
type chainForm struct {
	name  string
	few   [2]int // M, N on an emulated card, which then has one multiprocessor; none if it takes as many as a real one has
	many  [2]int
	dtype kernels.DType
	run   func(d *kerneltest.Device, a, b []float32, M, N int) []float32
}

var chainForms = []chainForm{
	{"16 rows", [2]int{}, [2]int{16, 4096}, kernels.F32, chainLinear},
	{"32 rows", [2]int{}, [2]int{32, 4096}, kernels.F32, chainLinear},
	{"64 rows", [2]int{}, [2]int{64, 4096}, kernels.F32, chainLinear},
	{"128 rows", [2]int{100, 144}, [2]int{128, 24 * 1056}, kernels.F32, chainLinear},
	{"many rows", [2]int{130, 264}, [2]int{512, 24 * 704}, kernels.F32, chainLinear},
	{"operands exchanged", [2]int{}, [2]int{4096, 64}, kernels.F32, func(d *kerneltest.Device, a, b []float32, M, N int) []float32 {
		out, c := make([]float32, M*N), chainLinear(d, b, a, N, M)
		for i, x := range c {
			out[i%M*N+i/M] = x
		}
		return out
	}},
	{"dw", [2]int{130, 264}, [2]int{2048, 24 * 112}, kernels.F32, func(d *kerneltest.Device, a, b []float32, M, N int) []float32 {
		dw := d.Zeros(kernels.F32, M, N)
		dy, x := d.Put(kernels.BF16, repeated(a, M, true), chainLength, M), d.Put(kernels.BF16, repeated(b, N, true), chainLength, N)
		kernels.LinearBackward(d.Q, kernels.Tensor{}, dw, dy, x, d.Zeros(kernels.BF16, M, N))
		return d.Get(dw)
	}},
	{"dx", [2]int{130, 264}, [2]int{2048, 24 * 112}, kernels.BF16, func(d *kerneltest.Device, a, b []float32, M, N int) []float32 {
		dx, dw := d.Tensor(kernels.BF16, M, N), d.Zeros(kernels.F32, chainLength, N)
		dy, w := d.Put(kernels.BF16, repeated(a, M, false), M, chainLength), d.Put(kernels.BF16, repeated(b, N, true), chainLength, N)
		kernels.LinearBackward(d.Q, dx, dw, dy, d.Zeros(kernels.BF16, M, N), w)
		return d.Get(dx)
	}},
}

func chainLinear(d *kerneltest.Device, a, b []float32, M, N int) []float32 {
	y := d.Tensor(kernels.F32, M, N)
	kernels.Linear(d.Q, y, d.Put(kernels.BF16, repeated(a, M, false), M, chainLength), d.Put(kernels.BF16, repeated(b, N, false), N, chainLength))
	return d.Get(y)
}

// TestChainCUDA decides what P2 and the forms of the matrix kernels rest on: that a sum is one chain over k in groups of 16, by
// whichever instruction, tile and side. Where a card does otherwise, the test says which model it follows.
func TestChainCUDA(t *testing.T) {
	t.Setenv(kerneltest.BitsIn, "") // shapes differ from card to card, and the model has every bit
	t.Setenv(kerneltest.BitsOut, "")
	a, b := chainOperands(kerneltest.Rand(t))
	want, models := chainBy(modelled, a, b), map[tensorCore][]float32{}
	for _, m := range others() {
		if models[m] = chainBy(m, a, b); slices.Equal(models[m], want) {
			t.Fatalf("%v gives what %v does: the numbers tell nothing", m, modelled)
		}
	}
	for _, form := range chainForms {
		t.Run(form.name, func(t *testing.T) {
			for _, d := range kerneltest.GPU(t) {
				M, N := form.many[0], form.many[1]
				if strings.Contains(d.Name(), "emulated") && form.few[0] > 0 {
					M, N = form.few[0], form.few[1]
					multiprocessors(t, "1")
					d = kerneltest.GPU(t)[0]
				}
				form.check(t, d.Name(), form.run(d, a, b, M, N), N, want, models)
			}
		})
	}
}

// check fails unless all of c, N columns wide, is what is wanted of its rows and columns.
func (form chainForm) check(t *testing.T, name string, c []float32, N int, want []float32, models map[tensorCore][]float32) {
	agree := func(model []float32) (n int) {
		model = kerneltest.Round(form.dtype, model)
		for i, x := range c {
			if x == model[i/N%chainRows*chainCols+i%N%chainCols] {
				n++
			}
		}
		return n
	}
	n := agree(want)
	if n == len(c) {
		return
	}
	best, most := modelled, n
	for m, model := range models {
		if other := agree(model); other > most {
			best, most = m, other
		}
	}
	t.Errorf("%s: %d of %d sums are those of %v; %d are those of %v", name, n, len(c), modelled, most, best)
}

func chainBy(m tensorCore, a, b []float32) []float32 {
	out := make([]float32, 0, chainRows*chainCols)
	for i := range chainRows {
		for j := range chainCols {
			out = append(out, m.dot(a[i*chainLength:][:chainLength], b[j*chainLength:][:chainLength]))
		}
	}
	return out
}
