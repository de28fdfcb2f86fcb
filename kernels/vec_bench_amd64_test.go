package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// peak is the GFLOP/s of one core in a loop of nothing but the step of v's sums, the best of many short runs.
func peak(v *vec, t DType) float64 {
	const n = 20000
	loop, flops := func() { fmaPeakAVX2(n) }, 12*8*2
	switch {
	case v == &avx512DotVec && t == BF16:
		loop, flops = func() { dotPeakAVX512(n) }, 24*16*4
	case v != &avx2Vec:
		loop, flops = func() { fmaPeakAVX512(n) }, 24*16*2
	}
	best := time.Hour
	for range 50 {
		at := time.Now()
		loop()
		best = min(best, time.Since(at))
	}
	return float64(n*flops) / best.Seconds() / 1e9
}

// reportGFLOPS gives the speed of f, which does products multiplications and as many additions, and its share of the
// peak, measured before and after. The machine is shared: the best run is the one that was left alone.
func reportGFLOPS(b *testing.B, v *vec, t DType, products int, f func()) {
	f()
	p := peak(v, t)
	best := time.Hour
	b.ResetTimer()
	for range b.N {
		at := time.Now()
		f()
		best = min(best, time.Since(at))
	}
	b.StopTimer()
	p = max(p, peak(v, t))
	g := float64(2*products) / best.Seconds() / 1e9
	b.ReportMetric(g, "GFLOP/s")
	b.ReportMetric(p, "peak")
	b.ReportMetric(100*g/p, "%peak")
}

// assembled is the sets that are not the plain one.
func assembled() []*vec { return vecs()[:len(vecs())-1] }

func BenchmarkDotsGEMM(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	for _, v := range assembled() {
		for _, K := range []int{128, 256, 512, 1024, 2048, 4096} {
			M, N := 64, 192
			out := make([]float32, M*N)
			xh, wh := wildBF16(r, M*K, 0), wildBF16(r, N*K, 0)
			xf, wf := wildF32(r, M*K, 0), wildF32(r, N*K, 0)
			b.Run(fmt.Sprintf("%s/bf16/K%d", v.name, K), func(b *testing.B) {
				reportGFLOPS(b, v, BF16, M*N*K, func() { v.dotsBF16(out, N, xh, K, wh, K, M, N, K) })
			})
			b.Run(fmt.Sprintf("%s/f32/K%d", v.name, K), func(b *testing.B) {
				reportGFLOPS(b, v, F32, M*N*K, func() { v.dotsF32(out, N, xf, K, wf, K, M, N, K) })
			})
		}
	}
}

// BenchmarkDotsDecode reads weights that lie in memory, not in a cache, with few rows of x, next to a plain read. Pieces
// of 2 MiB are timed one by one, ours and plain ones in turn, and the fastest quarter of each counts: longer runs of both
// would mostly measure what else the machine does.
func BenchmarkDotsDecode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	const K, rows, pieces = 1024, 1024, 128
	m, err := reserve()
	if err != nil {
		b.Fatal(err)
	}
	defer m.close()
	p, err := m.alloc(2 * K * rows * pieces)
	if err != nil {
		b.Fatal(err)
	}
	mem := Memory{arenas: m}
	w := mem.BF16(p, K*rows*pieces)
	for i := 0; i < len(w); i += K * rows {
		copy(w[i:], wildBF16(r, K*rows/64, 0))
		for j := K * rows / 64; j < K*rows; j *= 2 {
			copy(w[i+j:i+2*j], w[i:])
		}
	}
	for _, v := range assembled() {
		for _, M := range []int{1, 2, 4, 8} {
			x, out := wildBF16(r, M*K, 0), make([]float32, M*rows)
			b.Run(fmt.Sprintf("%s/M%d", v.name, M), func(b *testing.B) {
				var plain, ours []time.Duration
				for n := range b.N {
					for i := range pieces {
						piece := w[i*K*rows:][:K*rows]
						at := time.Now()
						if (i+n)%2 == 0 {
							readAVX2((*byte)(unsafe.Pointer(&piece[0])), len(piece)*2/256)
							plain = append(plain, time.Since(at))
						} else {
							v.dotsBF16(out, rows, x, K, piece, K, M, rows, K)
							ours = append(ours, time.Since(at))
						}
					}
				}
				rate := func(t []time.Duration) float64 {
					slices.Sort(t)
					return 2 * K * rows / t[len(t)/8].Seconds() / 1e9
				}
				b.ReportMetric(rate(ours), "GB/s")
				b.ReportMetric(rate(plain), "plainGB/s")
				b.ReportMetric(100*rate(ours)/rate(plain), "%plain")
			})
		}
	}
}

// BenchmarkChainGEMM has b's rows 1,024 elements apart, as in a weight matrix.
func BenchmarkChainGEMM(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	const N, ldb = 256, 1024
	for _, v := range assembled() {
		for _, K := range []int{128, 256, 1024} {
			for _, M := range []int{1, 4, 16, 64} {
				acc := make([]float32, M*ldb)
				ah, bh := wildBF16(r, M*K, 0), wildBF16(r, ldb*K, 0)
				af, bf := wildF32(r, M*K, 0), wildF32(r, ldb*K, 0)
				b.Run(fmt.Sprintf("%s/bf16/K%d/M%d", v.name, K, M), func(b *testing.B) {
					reportGFLOPS(b, v, BF16, M*N*K, func() { v.chainBF16(acc, ldb, ah, K, bh, ldb, M, N, K) })
				})
				b.Run(fmt.Sprintf("%s/f32/K%d/M%d", v.name, K, M), func(b *testing.B) {
					reportGFLOPS(b, v, F32, M*N*K, func() { v.chainF32(acc, ldb, af, K, bf, ldb, M, N, K) })
				})
			}
		}
	}
}

// BenchmarkMaps is the elementwise loops in the first-level cache.
func BenchmarkMaps(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	const n = 1024
	x, y, z, u := wildF32(r, n, 0), wildF32(r, n, 0), wildF32(r, n, 0), make([]float32, n)
	h, low := make([]uint16, n), make([]uint16, n)
	var sum [16]float32
	co := adamWCoeffs{1, 0.999, 0.1, 0.95, 0.05, 0.3, 1e-8, 1e-3}
	for _, v := range vecs() {
		for _, loop := range []struct {
			name string
			f    func()
		}{
			{"exp2Sum", func() { v.exp2Sum(u, x, 1, 0, &sum) }},
			{"silu", func() { v.silu(u, x, y) }},
			{"siluBackward", func() { v.siluBackward(u, z, x, y, y) }},
			{"pack", func() { v.pack(h, x) }},
			{"unpack", func() { v.unpack(u, h) }},
			{"scale", func() { v.scale(u, x, y, 2) }},
			{"split", func() { v.split(h, low, x) }},
			{"join", func() { v.join(u, h, low) }},
			{"halve", func() { v.halve(h, x, 2) }},
			{"unhalve", func() { v.unhalve(u, h, 2) }},
			{"adamW", func() { v.adamW(u, z, y, x, &co) }},
		} {
			b.Run(v.name+"/"+loop.name, func(b *testing.B) {
				best := time.Hour
				for range b.N {
					at := time.Now()
					loop.f()
					best = min(best, time.Since(at))
				}
				b.ReportMetric(float64(best.Nanoseconds())/n, "ns/element")
			})
		}
	}
}
