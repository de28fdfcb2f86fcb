package kernels

import (
	"fmt"

	"golang.org/x/sys/cpu"
)

//go:generate go run ./gen

// vecs is the sets of inner loops of this processor, fastest first.
func vecs() []*vec {
	var sets []*vec
	x := &cpu.X86
	if x.HasAVX2 && x.HasFMA && x.HasF16C {
		if x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasBMI2 {
			if x.HasAVX512BF16 {
				sets = append(sets, &avx512DotVec)
			}
			sets = append(sets, &avx512Vec)
		}
		sets = append(sets, &avx2Vec)
	}
	return append(sets, &goVec)
}

var (
	avx512DotVec = simd("avx512bf16", bf16DotAVX512, f32AVX512)
	avx512Vec    = simd("avx512", bf16AVX512, f32AVX512)
	avx2Vec      = simd("avx2", bf16AVX2, f32AVX2)
)

// simd is a set with the given sums. The elementwise loops wait for memory or for a division, so AVX2 does for all.
func simd(name string, bf16, f32 loops) vec {
	return vec{
		name: name,
		dotsBF16: func(out []float32, ldo int, x []uint16, ldx int, w []uint16, ldw int, M, N, K int) {
			dots(bf16, out, ldo, x, ldx, w, ldw, M, N, K)
		},
		dotsF32: func(out []float32, ldo int, x []float32, ldx int, w []float32, ldw int, M, N, K int) {
			dots(f32, out, ldo, x, ldx, w, ldw, M, N, K)
		},
		chainBF16: func(acc []float32, ldc int, a []uint16, lda int, b []uint16, ldb int, M, N, K int) {
			chain(bf16, acc, ldc, a, lda, b, ldb, M, N, K)
		},
		chainF32: func(acc []float32, ldc int, a []float32, lda int, b []float32, ldb int, M, N, K int) {
			chain(f32, acc, ldc, a, lda, b, ldb, M, N, K)
		},
		exp2Sum:      exp2SumSIMD,
		silu:         siluSIMD,
		siluBackward: siluBackwardSIMD,
		unpack:       unpackSIMD,
		pack:         packSIMD,
		scale:        scaleSIMD,
		split:        splitSIMD,
		join:         joinSIMD,
		halve:        halveSIMD,
		unhalve:      unhalveSIMD,
		adamW:        adamWSIMD,
	}
}

// covers panics unless n elements hold rows rows of cols elements that start ld apart.
func covers(op, name string, n, ld, rows, cols int) {
	if ld < 0 || cols < 0 || n < (rows-1)*ld+cols {
		panic(fmt.Sprintf("%s: %s has %d elements, %d rows of %d, %d apart, want %d", op, name, n, rows, cols, ld, (rows-1)*ld+cols))
	}
}
