package kernels

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
	"unsafe"
)

// peak is the GFLOP/s of one core in a loop of nothing but FMAs, the best of a few short runs.
func peak() float64 {
	best := time.Hour
	const n = 20000
	for range 50 {
		at := time.Now()
		fmaPeakAVX2(n)
		best = min(best, time.Since(at))
	}
	return float64(n*12*8*2) / best.Seconds() / 1e9
}

// reportGFLOPS gives the speed of b's loop, 2·M·N·K operations each time, and its share of peak, measured before and
// after.
func reportGFLOPS(b *testing.B, ops int, f func()) {
	f()
	p := peak()
	best := time.Hour // the machine is shared: the best run is the one that was left alone
	b.ResetTimer()
	for range b.N {
		at := time.Now()
		f()
		best = min(best, time.Since(at))
	}
	b.StopTimer()
	p = max(p, peak())
	g := float64(2*ops) / best.Seconds() / 1e9
	b.ReportMetric(g, "GFLOP/s")
	b.ReportMetric(p, "peak")
	b.ReportMetric(100*g/p, "%peak")
}

func BenchmarkDotsGEMM(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	for _, v := range vecs()[:len(vecs())-1] {
		for _, K := range []int{128, 256, 512, 1024, 2048, 4096} {
			M, N := 64, 192
			out := make([]float32, M*N)
			xh, wh := wildBF16(r, M*K, 0), wildBF16(r, N*K, 0)
			xf, wf := wildF32(r, M*K, 0), wildF32(r, N*K, 0)
			b.Run(fmt.Sprintf("%s/bf16/K%d", v.name, K), func(b *testing.B) {
				reportGFLOPS(b, M*N*K, func() { v.dotsBF16(out, N, xh, K, wh, K, M, N, K) })
			})
			b.Run(fmt.Sprintf("%s/f32/K%d", v.name, K), func(b *testing.B) {
				reportGFLOPS(b, M*N*K, func() { v.dotsF32(out, N, xf, K, wf, K, M, N, K) })
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
		copy(w[i:], wildBF16(r, 4096, 0))
		copy(w[i+4096:i+K*rows], w[i:])
	}
	for _, v := range vecs()[:len(vecs())-1] {
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
