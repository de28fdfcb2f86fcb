package kernels_test

import (
	"maps"
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/emu"
	"tandem/kernels/kerneltest"
)

// The kernels whose sums have an order of their own give the same bits whichever thread comes first.
func TestSchedulesCUDA(t *testing.T) {
	file := emu.Find(emu.Plain)
	if file == "" {
		t.Skipf("there is no %s, which make emu builds", emu.Plain)
	}
	lib, err := emu.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	set := func(seed, schedule string) {
		for name, value := range map[string]string{"seed": seed, "schedule": schedule} {
			if err := lib.Set(name, value); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Cleanup(func() { set("1", "random") })

	r, c := kerneltest.Rand(t), rowCase{33, 1032, kernels.BF16}
	x, w, dout, rstd := values(r, c.DType, c.T*c.D), values(r, c.DType, c.D), values(r, c.DType, c.T*c.D), values(r, kernels.F32, c.T)
	heads := newRopeCase(r, 33, 5, 2, 128, kernels.BF16)
	runs := map[string]func(*kerneltest.Device) kerneltest.Results{
		"rmsnorm": c.rmsNorm(t, x, w), "rmsnorm_backward": c.rmsNormBackward(t, dout, x, rstd, x, w, values(r, kernels.F32, c.D)),
		"qknormrope": heads.run(t), "qknormrope_backward": heads.runBackward(t),
		"gradnorm": func(d *kerneltest.Device) kerneltest.Results {
			norm, n := d.Tensor(kernels.F32, 1), c.T*c.D
			kernels.GradNorm(d.Q, norm, d.Tensor(kernels.U64, (n+kernels.NormLeaf-1)/kernels.NormLeaf), d.Put(kernels.F32, x, n))
			return kerneltest.Results{"norm": d.Get(norm)}
		},
	}
	first := map[string]kerneltest.Results{}
	for _, s := range [][2]string{{"1", "random"}, {"2", "random"}, {"3", "ahead"}} {
		set(s[0], s[1])
		for _, name := range slices.Sorted(maps.Keys(runs)) {
			d := kerneltest.GPU(t)[0]
			got := runs[name](d)
			d.Close()
			if first[name] == nil {
				first[name] = got
			}
			for _, result := range slices.Sorted(maps.Keys(got)) {
				kerneltest.Same(t, name+": "+result+" with seed "+s[0]+", "+s[1], got[result], first[name][result])
			}
		}
	}
}
