package kernels

import (
	"fmt"

	"golang.org/x/sys/cpu"
)

//go:generate go run ./gen

// vecs is the sets of inner loops of this processor, fastest first.
func vecs() []*vec {
	if cpu.X86.HasAVX2 && cpu.X86.HasFMA {
		return []*vec{&avx2Vec, &goVec}
	}
	return []*vec{&goVec}
}

var avx2Vec = vec{
	name: "avx2",
	dotsBF16: func(out []float32, ldo int, x []uint16, ldx int, w []uint16, ldw int, M, N, K int) {
		dots(dotsLoops{bf16: true}, out, ldo, x, ldx, w, ldw, M, N, K)
	},
	dotsF32: func(out []float32, ldo int, x []float32, ldx int, w []float32, ldw int, M, N, K int) {
		dots(dotsLoops{}, out, ldo, x, ldx, w, ldw, M, N, K)
	},
	chainBF16: func(acc []float32, ldc int, a []uint16, lda int, b []uint16, ldb int, M, N, K int) {
		chain(chainLoops{bf16: true}, acc, ldc, a, lda, b, ldb, M, N, K)
	},
	chainF32: func(acc []float32, ldc int, a []float32, lda int, b []float32, ldb int, M, N, K int) {
		chain(chainLoops{}, acc, ldc, a, lda, b, ldb, M, N, K)
	},
	exp2Sum:      exp2SumAVX2Loop,
	silu:         siluAVX2Loop,
	siluBackward: siluBackwardAVX2Loop,
	unpack:       unpackAVX2Loop,
	pack:         packAVX2Loop,
	scale:        scaleAVX2Loop,
	adamW:        adamWAVX2Loop,
}

// covers panics unless n elements hold rows rows of cols elements that start ld apart.
func covers(op, name string, n, ld, rows, cols int) {
	if ld < 0 || cols < 0 || n < (rows-1)*ld+cols {
		panic(fmt.Sprintf("%s: %s has %d elements, %d rows of %d, %d apart, want %d", op, name, n, rows, cols, ld, (rows-1)*ld+cols))
	}
}
