package kernels_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// matrix is a random tensor; it repeats after 1 Mi elements, since the host's random numbers are slow.
func matrix(d *kerneltest.Device, dtype kernels.DType, rows, cols int) kernels.Tensor {
	x := kerneltest.Normal(rand.New(rand.NewPCG(1, 1)), 1<<20, 1)
	all := make([]float32, 0, rows*cols)
	for len(all) < rows*cols {
		all = append(all, x[:min(len(x), rows*cols-len(all))]...)
	}
	return d.Put(dtype, all, rows, cols)
}

// linearShapes are (N, K) of Qwen3-0.6B's products and of the demo's.
var linearShapes = []struct {
	name string
	N, K int
}{
	{"qkv", 4096, 1024},
	{"down", 1024, 3072},
	{"demo", 192, 64},
}

func benchmarkWorkers(bm *testing.B, f func(bm *testing.B, d *kerneltest.Device)) {
	for workers := 1; workers <= 2; workers++ {
		bm.Run(fmt.Sprintf("workers=%d", workers), func(bm *testing.B) { f(bm, kerneltest.CPU(bm, kernels.CPUConfig{Workers: workers})) })
	}
}

// BenchmarkLinear is decoding at a few rows, where the reading of w counts, and training at many.
func BenchmarkLinear(bm *testing.B) {
	for _, dtype := range kerneltest.DTypes {
		for _, s := range linearShapes {
			for _, T := range []int{1, 4, 8, 64, 512} {
				bm.Run(fmt.Sprintf("%v/%s/T=%d", dtype, s.name, T), func(bm *testing.B) {
					benchmarkWorkers(bm, func(bm *testing.B, d *kerneltest.Device) {
						x, w, y := matrix(d, dtype, T, s.K), matrix(d, dtype, s.N, s.K), d.Tensor(dtype, T, s.N)
						for bm.Loop() {
							kernels.Linear(d.Q, y, x, w)
						}
						reportRate(bm, 2*T*s.N*s.K, "GFLOP/s")
						reportRate(bm, w.Bytes(), "GB/s")
					})
				})
			}
		}
	}
}

// BenchmarkLinearHead is decoding's largest product, which no cache holds: it reads w at the memory's rate.
func BenchmarkLinearHead(bm *testing.B) {
	const V, D = 151936, 1024
	for _, T := range []int{1, 4, 8} {
		bm.Run(fmt.Sprintf("T=%d", T), func(bm *testing.B) {
			benchmarkWorkers(bm, func(bm *testing.B, d *kerneltest.Device) {
				x, w, y := matrix(d, kernels.BF16, T, D), d.Zeros(kernels.BF16, V, D), d.Tensor(kernels.F32, T, V)
				for bm.Loop() {
					kernels.Linear(d.Q, y, x, w)
				}
				reportRate(bm, 2*T*V*D, "GFLOP/s")
				reportRate(bm, w.Bytes(), "GB/s")
			})
		})
	}
}

// BenchmarkLinearBackward is dx and dw of training, apart.
func BenchmarkLinearBackward(bm *testing.B) {
	var none kernels.Tensor
	for _, dtype := range kerneltest.DTypes {
		for _, s := range linearShapes {
			for _, T := range []int{64, 512} {
				for _, part := range []string{"dx", "dw"} {
					bm.Run(fmt.Sprintf("%v/%s/T=%d/%s", dtype, s.name, T, part), func(bm *testing.B) {
						benchmarkWorkers(bm, func(bm *testing.B, d *kerneltest.Device) {
							x, w, dy := matrix(d, dtype, T, s.K), matrix(d, dtype, s.N, s.K), matrix(d, dtype, T, s.N)
							dx, dw := d.Tensor(dtype, T, s.K), none
							if part == "dw" {
								dx, dw = none, d.Zeros(kernels.F32, s.N, s.K)
							}
							for bm.Loop() {
								kernels.LinearBackward(d.Q, dx, dw, dy, x, w)
							}
							reportRate(bm, 2*T*s.N*s.K, "GFLOP/s")
						})
					})
				}
			}
		}
	}
}
