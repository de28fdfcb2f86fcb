package bench

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"tandem/engine"
	"tandem/kernels"
	"tandem/kernels/kerneltest"
	"tandem/trainer"
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
		for _, offload := range []bool{false, true} {
			s, err := Step(d.Device, w, "tiny", StepSizes{Prompts: 2, Samples: 3, Prompt: 5, Tokens: 6, Rows: 128, Offload: offload})
			if err != nil || !(s.Rate["trained_s"] > 0) || s.Rate["mismatch"] != 0 {
				t.Errorf("step, offloaded %v: %v, %+v", offload, err, s)
			}
		}
	}
}

// TestRandomModelCUDA samples from a random 0.6B on a real card and holds every log-prob to the trainer's, bit for bit.
func TestRandomModelCUDA(t *testing.T) {
	if os.Getenv(kerneltest.GPUVariable) != "1" {
		t.Skip(kerneltest.GPUVariable + " is not set: a 0.6B is too much for an emulated card")
	}
	const context, temperature = 600, 0.7
	for _, d := range kerneltest.GPU(t) {
		if strings.Contains(d.Name(), "Emulated") {
			continue
		}
		w, err := RandomWeights(d.Device, "0.6b", context)
		if err != nil {
			t.Fatal(err)
		}
		e, err := engine.New(d.Device, w, engine.Config{Pages: 120, Seqs: 16, Rows: 256, Context: context})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		sc, err := trainer.NewScorer(d.Device, w, 1024, context)
		if err != nil {
			t.Fatal(err)
		}
		var prompts [][]int32
		var sessions []*engine.Session
		for i := range 24 { // more than there is room for at once
			prompt := make([]int32, 1+i*17)
			for j := range prompt {
				prompt[j] = int32((i/3*1000 + j) * 7919 % w.Config.Live) // groups of three share their beginning
			}
			s, err := e.Open(engine.Request{Tokens: prompt, Seed: uint64(i), Params: engine.Params{MaxTokens: 150, Temperature: temperature}})
			if err != nil {
				t.Fatal(err)
			}
			prompts, sessions = append(prompts, prompt), append(sessions, s)
		}
		for i, s := range sessions {
			got, err := s.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			s.Close()
			want, err := sc.LogProbs([][]int32{append(prompts[i], got.Tokens...)}, 1/float32(temperature))
			if err != nil {
				t.Fatal(err)
			}
			kerneltest.Same(t, "log-probs", got.LogProbs, want[0][len(prompts[i])-1:][:len(got.LogProbs)])
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
	if seen != len(r.Results) || seen != 27+2*7 || r.CopyGBs <= 0 {
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
