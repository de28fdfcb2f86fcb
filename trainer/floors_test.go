package trainer

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/model"
)

func shape(t *testing.T, name string) model.Config {
	t.Helper()
	c, err := model.Shape(name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// within fails unless got is want within what its digits say.
func within(t *testing.T, what string, got, want, digit float64) {
	t.Helper()
	if math.Abs(got-want) > 0.51*digit {
		t.Errorf("%s: %.5g, want %.5g", what, got, want)
	}
}

// TestModelConstants holds parameters, bytes of a decode step and bytes of a token's keys and values to the table of numbers
// that the kernels are designed by.
func TestModelConstants(t *testing.T) {
	for _, g := range []struct {
		shape         string
		params, bytes float64 // 1e9
		kv            int
	}{
		{"0.6b", 0.596, 1.192, 114688},
		{"1.7b", 1.721, 3.441, 114688},
		{"4b", 4.022, 8.045, 147456},
		{"8b", 8.191, 15.136, 147456},
		{"14b", 14.768, 27.98, 163840},
		{"32b", 32.762, 63.97, 262144},
	} {
		c := shape(t, g.shape)
		k := newCost(c, kernels.BF16)
		within(t, g.shape+" parameters", float64(model.Count(c))/1e9, g.params, 0.001)
		digit := 0.001
		if g.bytes > 20 {
			digit = 0.01
		}
		within(t, g.shape+" bytes of a step", k.w/1e9, g.bytes, digit)
		within(t, g.shape+" bytes of a token", k.kv, float64(g.kv), 1)
	}
}

// TestDecodeFloors compares single decode steps with the same table: GB read, and milliseconds on each card.
func TestDecodeFloors(t *testing.T) {
	for _, g := range []struct {
		shape          string
		batch, context int
		gb             float64
		ms             [4]float64 // h100-80g, h100-nvl, h200, b200
	}{
		{"8b", 128, 1024, 34.46, [4]float64{10.29, 8.84, 7.18, 4.31}},
		{"8b", 128, 4096, 92.45, [4]float64{27.60, 23.70, 19.26, 11.56}},
		{"8b", 1, 1024, 15.29, [4]float64{4.56, 3.92, 3.18, 1.91}},
		{"4b", 128, 1024, 27.37, [4]float64{8.17, 7.02, 5.70, 3.42}},
		{"0.6b", 1, 1024, 1.31, [4]float64{0.39, 0.34, 0.27, 0.16}},
		{"32b", 128, 1024, 98.33, [4]float64{29.35, 25.21, 20.48, 12.29}},
	} {
		bytes, flops := newCost(shape(t, g.shape), kernels.BF16).decode(g.batch, g.batch, Workload{Prompt: g.context, Reply: 1})
		within(t, fmt.Sprintf("%s, %d at %d: GB", g.shape, g.batch, g.context), bytes/1e9, g.gb, 0.01)
		for i, c := range Cards() {
			f := Machine{Card: &c}.floor("", bytes, flops)
			within(t, fmt.Sprintf("%s, %d at %d on %s", g.shape, g.batch, g.context, c.Name), f.Seconds*1e3, g.ms[i], 0.01)
			if f.Limit != "memory" {
				t.Errorf("a decode step waits for %s", f.Limit)
			}
		}
	}
}

// stepRecipe is 16 prompts of 8 samples, with room for prompts of 150 and replies of 950 tokens.
func stepRecipe() Recipe {
	r := testRecipe()
	r.Model.Context, r.Rollout.MaxTokens, r.Rollout.Prompts, r.Rollout.Samples = 1100, 950, 16, 8
	r.Train.Rows = 8192
	return r
}

// TestStepFloors compares a step on 128 replies with the table: operations, and seconds of rollout and training.
func TestStepFloors(t *testing.T) {
	const tokens, reply, samples = 1100, 950, 128
	for _, g := range []struct {
		shape             string
		forward, backward float64 // 1e15
		rollout           [4]float64
	}{
		{"8b", 2.153, 4.329, [4]float64{7.63, 6.56, 5.33, 3.20}},
		{"4b", 1.163, 2.350, [4]float64{5.62, 4.83, 3.93, 2.36}},
		{"0.6b", 0.180, 0.368, [4]float64{2.94, 2.52, 2.05, 1.23}},
	} {
		c := shape(t, g.shape)
		k := newCost(c, kernels.BF16)
		within(t, g.shape+" forward", samples*k.forward(tokens, reply)/1e15, g.forward, 0.001)
		within(t, g.shape+" backward", samples*k.backward(tokens, reply)/1e15, g.backward, 0.001)
		for i, card := range Cards() {
			p := NewPlan(stepRecipe(), c, kernels.BF16, Machine{Card: &card})
			floors := p.Floors(Workload{150, reply})
			bytes, _ := k.decode(samples, samples, Workload{150, reply})
			within(t, g.shape+" rollout on "+card.Name, bytes/card.Bandwidth, g.rollout[i], 0.01)
			if floors[0].Phase != "rollout" || floors[0].Bytes < bytes || floors[0].Bytes > bytes+k.w {
				t.Errorf("%s: rollout is %+v, want %g bytes and one pass over the weights for the prompts", g.shape, floors[0], bytes)
			}
			train := floors[1]
			want := samples * (k.forward(tokens, reply) + k.backward(tokens, reply) + 2*reply*k.head)
			within(t, g.shape+" train on "+card.Name, train.Seconds, want/card.Flops, 0.001)
			if train.Phase != "train" || train.Limit != "arithmetic" {
				t.Errorf("%s: %+v", g.shape, train)
			}
		}
	}
}

// TestOptimizerFloors: bytes a parameter, and seconds at the host.
func TestOptimizerFloors(t *testing.T) {
	bf16 := StatesConfig{"float32", "bf16", "bf16", true}
	full := StatesConfig{"float32", "float32", "float32", true}
	for _, g := range []struct {
		name             string
		sc               StatesConfig
		weights          kernels.DType
		gradient         int
		traffic, resides float64
	}{
		{"float32, bf16 gradients", full, kernels.BF16, 2, 28, 12},
		{"bf16 moments", bf16, kernels.BF16, 2, 20, 8},
		{"on the card", full, kernels.BF16, 4, 30, 12},
		{"low halves, float32 gradients", StatesConfig{splitMaster, "bf16", "float32", false}, kernels.BF16, 4, 4 + 4 + 4 + 4 + 8, 8},
		{"float32 weights", full, kernels.F32, 4, 4 + 8 + 16, 8},
		{"float16 moments", StatesConfig{"float32", "float16", "float16", false}, kernels.BF16, 4, 4 + 2 + 8 + 8 + 4.0/64, 8 + 2.0/64},
	} {
		within(t, g.name+": traffic", g.sc.traffic(g.weights, g.gradient), g.traffic, 1e-9)
		within(t, g.name+": resident", float64(g.sc.bytes(kernels.NormLeaf, g.weights))/kernels.NormLeaf, g.resides, 1e-9)
	}
	p := float64(model.Count(shape(t, "8b")))
	within(t, "8b at 300 GB/s", p*full.traffic(kernels.BF16, 2)/300e9, 0.76, 0.01)
	within(t, "8b at 250 GB/s", p*bf16.traffic(kernels.BF16, 2)/250e9, 0.66, 0.01)
}

// TestOffloadedFloors: half the states' bytes over PCIe, and what the host's memory limits.
func TestOffloadedFloors(t *testing.T) {
	r := stepRecipe()
	r.States.Offload = true
	on, err := NewMachine("h100-nvl", 1)
	if err != nil {
		t.Fatal(err)
	}
	c := shape(t, "8b")
	p := NewPlan(r, c, kernels.BF16, on)
	by := make(map[string]Floor)
	for _, f := range p.Floors(Workload{150, 950}) {
		by[f.Phase] = f
	}
	within(t, "PCIe", by["offload"].Seconds, 0.30, 0.01)
	within(t, "optimizer", by["optimizer"].Seconds, 28*8.191e9/307e9, 0.01)
	for _, i := range p.Items {
		if i.Name == "optimizer" {
			t.Errorf("%+v lies on the card", i)
		}
	}
	within(t, "host GB", float64(p.Host[0].Bytes)/1e9, 98.3, 0.1)
	if s := p.FloorTable(Workload{150, 950}); !strings.Contains(s, "derived") || !strings.Contains(s, "what limits is train, by arithmetic") {
		t.Error(s)
	}
	cpu := NewPlan(r, c, kernels.BF16, Machine{Workers: 2})
	if s := cpu.FloorTable(Workload{150, 950}); strings.Contains(s, " s ") || !strings.Contains(s, "no datasheet") || !strings.Contains(s, "6.6") {
		t.Errorf("on the CPU: %s", s)
	}
}

// TestShardedPlan: eight cards hold the weights each, a slice of the states and a share of the sequences.
func TestShardedPlan(t *testing.T) {
	c := shape(t, "8b")
	n := model.ArenaLen(model.Params(c))
	one, eight := Machine{}, Machine{}
	for _, m := range []struct {
		to *Machine
		n  int
	}{{&one, 1}, {&eight, 8}} {
		var err error
		if *m.to, err = NewMachine("h200", m.n); err != nil {
			t.Fatal(err)
		}
	}
	a, b := NewPlan(stepRecipe(), c, kernels.BF16, one), NewPlan(stepRecipe(), c, kernels.BF16, eight)
	of := func(p Plan, name string) int {
		for _, i := range p.Items {
			if i.Name == name {
				return i.Bytes
			}
		}
		t.Fatalf("no %s in %v", name, p)
		return 0
	}
	for _, name := range []string{"weights", "gradients", "activations"} {
		if of(a, name) != of(b, name) {
			t.Errorf("%s: %d and %d bytes", name, of(a, name), of(b, name))
		}
	}
	if of(a, "cache pages") != 8*of(b, "cache pages") {
		t.Errorf("pages: %d and %d", of(a, "cache pages"), of(b, "cache pages"))
	}
	slice := of(b, "optimizer") / 12
	if slice%kernels.NormLeaf != 0 || slice*8 < n || (slice-kernels.NormLeaf)*8 >= n {
		t.Errorf("a rank steps %d of %d parameters", slice, n)
	}
	for _, f := range b.Floors(Workload{150, 950}) {
		if f.Phase == "between cards" { // 7/8 of gradients in float32 and of weights in bf16
			within(t, "links", f.Seconds, 7.0/8*float64(n)*6/450e9, 1e-6)
			return
		}
	}
	t.Error("nothing moves between the cards")
}

func TestMachines(t *testing.T) {
	for _, c := range []struct {
		card string
		n    int
		want string
	}{{"h100", 1, "h100-80g"}, {"cpu", 2, "one CPU device"}, {"b200", 0, "at least 1"}} {
		if _, err := NewMachine(c.card, c.n); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d %s: %v", c.n, c.card, err)
		}
	}
}

func TestDecaySaysWhichParameters(t *testing.T) {
	s := Decay(shape(t, "8b"), OptimizerConfig{WeightDecay: 0.1})
	for _, want := range []string{"0.1 on", "254 matrices, embedding and head included", "in 145 norms"} {
		if !strings.Contains(s, want) {
			t.Errorf("%q lacks %q", s, want)
		}
	}
}
