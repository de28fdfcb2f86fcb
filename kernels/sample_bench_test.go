package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// BenchmarkSample is a step of the demo and of a Qwen3, with and without filters. GB/s counts the logits once.
func BenchmarkSample(bm *testing.B) {
	top := func(s kernels.SampleParams) kernels.SampleParams { s.TopK, s.TopP = 20, 0.95; return s }
	for _, c := range []struct {
		name string
		R, V int
	}{{"demo", 256, 28}, {"one", 1, 151936}, {"many", 16, 151936}} {
		for _, f := range []struct {
			name string
			s    kernels.SampleParams
		}{
			{"plain", plain(1, 0)},
			{"top-p", kernels.SampleParams{InvT: 1, TopP: 0.95}},
			{"top-k top-p", top(plain(1, 0))},
		} {
			bm.Run(c.name+"/"+f.name, func(bm *testing.B) {
				benchmarkWorkers(bm, func(bm *testing.B, d *kerneltest.Device) {
					logits := matrix(d, kernels.F32, c.R, c.V)
					params := d.Tensor(kernels.U8, c.R, kernels.SampleParamsBytes)
					tokens, logp := d.Tensor(kernels.I32, c.R), d.Tensor(kernels.F32, c.R)
					var b bytes.Buffer
					for i := range c.R {
						f.s.Pos = int32(i)
						if err := binary.Write(&b, binary.LittleEndian, f.s); err != nil {
							bm.Fatal(err)
						}
					}
					d.PutBytes(params, b.Bytes())
					for bm.Loop() {
						kernels.Sample(d.Q, tokens, logp, logits, params, kernels.Tensor{}, kernels.Tensor{})
					}
					reportRate(bm, logits.Bytes(), "GB/s")
					bm.ReportMetric(bm.Elapsed().Seconds()*1e6/float64(bm.N*c.R), "µs/row")
				})
			})
		}
	}
}

// BenchmarkLogProb is the head of training, forward and backward, of the demo and of a Qwen3 with a part of its
// vocabulary.
func BenchmarkLogProb(bm *testing.B) {
	for _, dtype := range kerneltest.DTypes {
		for _, c := range []struct {
			name       string
			R, V, D, C int
		}{{"demo", 2048, 28, 64, 28}, {"0.6B", 128, 16384, 1024, 4096}} {
			bm.Run(fmt.Sprintf("%v/%s", dtype, c.name), func(bm *testing.B) {
				x := func(d *kerneltest.Device) kernels.Tensor { return matrix(d, dtype, c.R, c.D) }
				w := func(d *kerneltest.Device) kernels.Tensor {
					all := kerneltest.Normal(kerneltest.Rand(bm), c.V*c.D, 0.1)
					return d.Put(dtype, all, c.V, c.D)
				}
				for _, entropy := range []bool{false, true} {
					bm.Run(fmt.Sprintf("entropy=%v", entropy), func(bm *testing.B) {
						benchmarkWorkers(bm, func(bm *testing.B, d *kerneltest.Device) {
							x, w, target := x(d), w(d), d.PutI32(make([]int32, c.R), c.R)
							logp, lse := d.Tensor(kernels.F32, c.R), d.Tensor(kernels.F32, c.R)
							var e kernels.Tensor
							if entropy {
								e = d.Tensor(kernels.F32, c.R)
							}
							parts := d.Tensor(kernels.F32, c.R, kernels.LogProbParts(c.V), 4)
							for bm.Loop() {
								kernels.LogProb(d.Q, logp, e, lse, x, w, target, 1, parts)
							}
							reportRate(bm, 2*c.R*c.V*c.D, "GFLOP/s")
						})
					})
				}
				bm.Run("backward", func(bm *testing.B) {
					benchmarkWorkers(bm, func(bm *testing.B, d *kerneltest.Device) {
						x, w, target := x(d), w(d), d.PutI32(make([]int32, c.R), c.R)
						logp, lse := d.Tensor(kernels.F32, c.R), d.Tensor(kernels.F32, c.R)
						var none kernels.Tensor
						kernels.LogProb(d.Q, logp, none, lse, x, w, target, 1, d.Tensor(kernels.F32, c.R, kernels.LogProbParts(c.V), 4))
						dx, dw := d.Tensor(dtype, c.R, c.D), d.Zeros(kernels.F32, c.V, c.D)
						dz, acc := d.Tensor(dtype, c.R, c.C), d.Tensor(kernels.F32, c.R, c.D)
						for bm.Loop() {
							kernels.LogProbBackward(d.Q, dx, dw, logp, none, lse, none, x, w, target, 1, dz, acc)
						}
						reportRate(bm, 6*c.R*c.V*c.D, "GFLOP/s")
					})
				})
			})
		}
	}
}
