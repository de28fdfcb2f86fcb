package kernels

import (
	"fmt"
	"math/rand/v2"
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

// BenchmarkDotsDecode reads weights that lie in memory, not in a cache, with few rows of x, next to a plain read of the
// same bytes.
func BenchmarkDotsDecode(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	K, N := 1024, 64<<10 // 128 MiB of bf16
	m, err := reserve()
	if err != nil {
		b.Fatal(err)
	}
	defer m.close()
	p, err := m.alloc(2 * K * N)
	if err != nil {
		b.Fatal(err)
	}
	mem := Memory{arenas: m}
	w := mem.BF16(p, K*N)
	copy(w, wildBF16(r, len(w), 0))
	words := mem.U64(p, len(w)/4)
	for _, v := range vecs()[:len(vecs())-1] {
		for _, M := range []int{1, 2, 4, 8} {
			x, out := wildBF16(r, M*K, 0), make([]float32, M*N)
			b.Run(fmt.Sprintf("%s/M%d", v.name, M), func(b *testing.B) {
				plain, ours := time.Hour, time.Hour
				var sum uint64
				for range b.N {
					at := time.Now()
					sum += plainRead(words)
					plain = min(plain, time.Since(at))
					at = time.Now()
					v.dotsBF16(out, N, x, K, w, K, M, N, K)
					ours = min(ours, time.Since(at))
				}
				b.ReportMetric(float64(2*len(w))/ours.Seconds()/1e9, "GB/s")
				b.ReportMetric(float64(2*len(w))/plain.Seconds()/1e9, "plainGB/s")
				b.ReportMetric(100*plain.Seconds()/ours.Seconds(), "%plain")
				if sum == 1 {
					b.Log(sum)
				}
			})
		}
	}
}

func plainRead(x []uint64) uint64 {
	return readAVX2((*byte)(unsafe.Pointer(&x[0])), len(x)*8/256)
}

func BenchmarkChainGEMM(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 0))
	for _, v := range vecs()[:len(vecs())-1] {
		for _, K := range []int{128, 256, 1024} {
			for _, M := range []int{1, 2, 4, 16, 64} {
				N := 256
				acc := make([]float32, M*1024)
				ah, bh := wildBF16(r, M*K, 0), wildBF16(r, 1024*K, 0)
				af, bf := wildF32(r, M*K, 0), wildF32(r, 1024*K, 0)
				b.Run(fmt.Sprintf("%s/bf16/K%d/M%d", v.name, K, M), func(b *testing.B) {
					reportGFLOPS(b, M*N*K, func() { v.chainBF16(acc, 1024, ah, K, bh, 1024, M, N, K) })
				})
				b.Run(fmt.Sprintf("%s/f32/K%d/M%d", v.name, K, M), func(b *testing.B) {
					reportGFLOPS(b, M*N*K, func() { v.chainF32(acc, 1024, af, K, bf, 1024, M, N, K) })
				})
			}
		}
	}
}
