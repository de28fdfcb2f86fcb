package bench

import (
	"encoding/json"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// TestKernels runs every case of a tiny model and reads the report back with yardsticks.
func TestKernels(t *testing.T) { reports(t, kerneltest.CPU(t, kernels.CPUConfig{})) }

func TestKernelsCUDA(t *testing.T) {
	for _, d := range kerneltest.GPU(t) {
		reports(t, d)
		w, err := RandomWeights(d.Device, "tiny", 128)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Decode(d.Device, w, 3, 20, 4)
		if err != nil || !(s.Rate["tokens_s"] > 0) {
			t.Errorf("decode: %v, %+v", err, s)
		}
	}
}

func reports(t *testing.T, d *kerneltest.Device) {
	t.Helper()
	seen := 0
	r, err := Kernels(d.Device, []string{"tiny"}, Sizes{Rows: 64, Context: 32, Decode: []int{1, 3}, Elements: 5000}, 64<<20, func(Result) { seen++ })
	if err != nil {
		t.Fatal(err)
	}
	if seen != len(r.Results) || seen != 23+2*7 || r.CopyGBs <= 0 {
		t.Errorf("%d of %d results were told, a copy moves %v GB/s", seen, len(r.Results), r.CopyGBs)
	}
	for _, x := range r.Results {
		if !(x.Micros > 0) || x.Bytes <= 0 {
			t.Errorf("%s %s: %v µs, %d bytes", x.Kernel, x.Shape, x.Micros, x.Bytes)
		}
	}
	shape, err := json.Marshal(r.Results[0].Shape)
	if err != nil {
		t.Fatal(err)
	}
	err = r.Yardsticks(strings.NewReader(`{"fact":"torch"}
{"kernel":"matrix","tflop_s":700}
{"kernel":"linear","shape":` + string(shape) + `,"by":"cuBLAS","us":7}`))
	if err != nil || r.Results[0].Against != 7 || r.Matrix != 700 || r.Results[1].Against != 0 {
		t.Errorf("yardsticks: %v, %+v", err, r.Results[0])
	}
	if table := r.Table(); !strings.Contains(table, "| tiny | linear | T=64 N=256 K=128 |") || !strings.Contains(table, "| cuBLAS | 7.0 |") {
		t.Errorf("table:\n%s", table)
	}
	if err := r.Yardsticks(strings.NewReader("{")); err == nil {
		t.Error("half an object is a yardstick")
	}
}
