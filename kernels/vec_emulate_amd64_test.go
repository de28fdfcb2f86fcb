package kernels

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"testing"
)

// emulated is one call of dots or chain. testdata/emulate.py fills it in an emulated machine's memory.
type emulated struct {
	Loops, Chain  int64 // a loops; 1 for chain
	Dst           []float32
	F32A, F32B    []float32
	BF16A, BF16B  []uint16
	Ldd, Lda, Ldb int
	M, N, K       int
}

//go:noinline
func emulate(c *emulated) {
	l := loops(c.Loops)
	switch {
	case c.Chain == 1 && l.size() == 2:
		chain(l, c.Dst, c.Ldd, c.BF16A, c.Lda, c.BF16B, c.Ldb, c.M, c.N, c.K)
	case c.Chain == 1:
		chain(l, c.Dst, c.Ldd, c.F32A, c.Lda, c.F32B, c.Ldb, c.M, c.N, c.K)
	case l.size() == 2:
		dots(l, c.Dst, c.Ldd, c.BF16A, c.Lda, c.BF16B, c.Ldb, c.M, c.N, c.K)
	default:
		dots(l, c.Dst, c.Ldd, c.F32A, c.Lda, c.F32B, c.Ldb, c.M, c.N, c.K)
	}
}

// TestEmulate writes cases with the plain bodies' results for testdata/emulate.py, which runs the loops of this very
// binary in an emulator: for processors that have no AVX-512. Without EMULATE it runs some cases on this processor.
func TestEmulate(t *testing.T) {
	out := os.Getenv("EMULATE")
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 1))
	var file []byte
	n := 0
	for l := f32AVX2; l <= bf16DotAVX512; l++ {
		for isChain := range int64(2) {
			for i := range 30 {
				c, want := emulateCase(r, l, isChain, i)
				if out != "" {
					file = appendCase(file, c, want)
				} else if !l.avx512() {
					emulate(c)
					sameBits(t, "emulate", c.Dst, want)
				}
				n++
			}
		}
	}
	if out == "" {
		return
	}
	if err := os.WriteFile(out, file, 0o644); err != nil {
		t.Fatal(err)
	}
	t.Logf("%d cases in %s", n, out)
}

func emulateCase(r *rand.Rand, l loops, isChain int64, i int) (*emulated, []float32) {
	c := &emulated{Loops: int64(l), Chain: isChain, M: 1 + r.IntN(14), N: 1 + r.IntN(20), K: 1 + r.IntN(100)}
	switch {
	case i%5 == 0:
		c.M, c.N, c.K = 12+r.IntN(60), 1+r.IntN(90), 2*r.IntN(60)
	case i%5 == 1:
		c.M, c.N, c.K = 1+r.IntN(20), 6+r.IntN(20), 32*(1+r.IntN(5))
	case i%10 == 2:
		c.M, c.N, c.K = 12+r.IntN(10), 6+r.IntN(4), 32*(30+r.IntN(8))
	}
	mix := r.IntN(4)
	c.Ldd, c.Lda, c.Ldb = c.N+r.IntN(3), c.K+r.IntN(3), c.K+r.IntN(3)
	lenA, lenB := max(0, (c.M-1)*c.Lda+c.K), max(0, (c.N-1)*c.Ldb+c.K)
	if isChain == 1 {
		c.Ldb = c.N + r.IntN(3)
		lenB = max(0, (c.K-1)*c.Ldb+c.N)
	}
	c.Dst = wildF32(r, (c.M-1)*c.Ldd+c.N, mix)
	want := append([]float32{}, c.Dst...)
	if l.size() == 2 {
		c.BF16A, c.BF16B = wildBF16(r, lenA, mix), wildBF16(r, lenB, mix)
		if isChain == 1 {
			goVec.chainBF16(want, c.Ldd, c.BF16A, c.Lda, c.BF16B, c.Ldb, c.M, c.N, c.K)
		} else {
			goVec.dotsBF16(want, c.Ldd, c.BF16A, c.Lda, c.BF16B, c.Ldb, c.M, c.N, c.K)
		}
		return c, want
	}
	c.F32A, c.F32B = wildF32(r, lenA, mix), wildF32(r, lenB, mix)
	if isChain == 1 {
		goVec.chainF32(want, c.Ldd, c.F32A, c.Lda, c.F32B, c.Ldb, c.M, c.N, c.K)
	} else {
		goVec.dotsF32(want, c.Ldd, c.F32A, c.Lda, c.F32B, c.Ldb, c.M, c.N, c.K)
	}
	return c, want
}

// appendCase writes the scalars and the lengths of the arrays, then the arrays and the wanted destination.
func appendCase(b []byte, c *emulated, want []float32) []byte {
	for _, v := range []int{int(c.Loops), int(c.Chain), c.Ldd, c.Lda, c.Ldb, c.M, c.N, c.K, len(c.Dst), len(c.F32A), len(c.F32B), len(c.BF16A), len(c.BF16B)} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	for _, v := range []any{c.Dst, c.F32A, c.F32B, c.BF16A, c.BF16B, want} {
		b, _ = binary.Append(b, binary.LittleEndian, v)
	}
	return b
}
