package kernels_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

const gathered = 9 // rows to pick from

func TestGather(t *testing.T) {
	eachRowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		x, rows := values(r, c.DType, gathered*c.D), someRows(r, c.T, gathered)
		got := kerneltest.Agree(t, c.gather(x, rows))
		kerneltest.Same(t, "out", got["out"], pickRows(x, rows, c.D))
	})
}

func (c rowCase) gather(x []float32, rows []int32) func(d *kerneltest.Device) kerneltest.Results {
	return func(d *kerneltest.Device) kerneltest.Results {
		out := d.Tensor(c.DType, c.T, c.D)
		kernels.Gather(d.Q, out, d.Put(c.DType, x, gathered, c.D), d.PutI32(rows, c.T))
		return kerneltest.Results{"out": d.Get(out)}
	}
}

func TestGatherBackward(t *testing.T) {
	eachRowCase(t, func(t *testing.T, c rowCase, r *rand.Rand) {
		R := (c.T + 1) / 2
		dout, rows, want := values(r, c.DType, R*c.D), make([]int32, R), make([]float32, c.T*c.D)
		for i, row := range r.Perm(c.T)[:R] { // in any order, some left out, some padding
			if rows[i] = int32(row); i%5 == 4 {
				rows[i] = -1
				continue
			}
			copy(want[row*c.D:][:c.D], dout[i*c.D:])
		}
		got := kerneltest.Agree(t, c.gatherBackward(dout, rows))
		kerneltest.Same(t, "dx", got["dx"], want)
	})
}

func (c rowCase) gatherBackward(dout []float32, rows []int32) func(d *kerneltest.Device) kerneltest.Results {
	R := len(rows)
	return func(d *kerneltest.Device) kerneltest.Results {
		dx := d.Tensor(c.DType, c.T, c.D)
		kernels.GatherBackward(d.Q, dx, d.Put(c.DType, dout, R, c.D), d.PutI32(rows, R))
		return kerneltest.Results{"dx": d.Get(dx)}
	}
}

func TestGatherOutside(t *testing.T) {
	for _, bad := range []int32{-2, 4} {
		for _, d := range kerneltest.Devices(t) {
			kernels.Gather(d.Q, d.Tensor(kernels.BF16, 1, 3), d.Zeros(kernels.BF16, 4, 3), d.PutI32([]int32{bad}, 1))
			if err := d.Q.Sync(); err == nil || !strings.Contains(err.Error(), "kernel gather: row") {
				t.Errorf("%s: error for row %d is %v", d.Name(), bad, err)
			}
		}
	}
}

func BenchmarkGather(b *testing.B) {
	for _, c := range normBenchmarks {
		b.Run(c.name, func(b *testing.B) {
			d := kerneltest.CPU(b, kernels.CPUConfig{})
			rows := make([]int32, c.T)
			for i := range rows {
				rows[i] = int32(c.T - 1 - i)
			}
			out, x, at := d.Zeros(kernels.BF16, c.T, c.D), d.Zeros(kernels.BF16, c.T, c.D), d.PutI32(rows, c.T)
			for b.Loop() {
				kernels.Gather(d.Q, out, x, at)
			}
			reportGBs(b, 2*out.Bytes())
		})
	}
}
