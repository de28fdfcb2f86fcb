package kernels_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/emu"
	"tandem/kernels/kerneltest"
)

// Every kernel gives the same bits and no report whichever thread comes first, where every access to memory is looked at.
func TestSchedulesCUDA(t *testing.T) {
	file := emu.Find(emu.Checked)
	if file == "" {
		t.Skipf("there is no %s, which make emu builds", emu.Checked)
	}
	lib, set := steer(t, file)
	t.Cleanup(func() {
		for name, value := range map[string]string{"seed": "1", "schedule": "random", "capability": "9.0", "multiprocessors": "132"} {
			set(name, value)
		}
	})
	runs := smallRuns(t)
	lib.Stats()
	first := map[string]kerneltest.Results{}
	for i := range manySchedules() {
		schedule, seed := []string{"random", "ahead"}[i%2], fmt.Sprint(rand.Uint64())
		// Forms for few and for many multiprocessors, and with and without Hopper's instructions, have the same bits, too.
		set("multiprocessors", []string{"132", "1"}[i/2%2])
		set("capability", []string{"9.0", "9.0", "10.0"}[i%3])
		set("seed", seed)
		set("schedule", schedule)
		for _, name := range slices.Sorted(maps.Keys(runs)) {
			d := kerneltest.Emulated(t, file)
			got := runs[name](d)
			d.Close()
			if first[name] == nil {
				first[name] = got
			}
			for _, result := range slices.Sorted(maps.Keys(got)) {
				kerneltest.Same(t, name+": "+result+" with seed "+seed+", "+schedule, got[result], first[name][result])
			}
		}
	}
	ran := lib.Stats()
	for _, name := range entries(t) {
		if ran[name].Launches == 0 && !testing.Short() {
			t.Errorf("kernel %s has not run", name)
		}
	}
}

// entries are the names of all kernels.
func entries(t *testing.T) (names []string) {
	files, err := filepath.Glob("*.cu")
	if err != nil || len(files) == 0 {
		t.Fatalf("no kernels: %v", err)
	}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?m)^KERNEL\((\w+)`).FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

func manySchedules() int {
	switch {
	case os.Getenv("TANDEM_LONG") == "1":
		return 1000
	case testing.Short():
		return 1
	}
	return 5
}

// smallRuns runs every kernel on shapes that are small and odd.
func smallRuns(t *testing.T) map[string]func(*kerneltest.Device) kerneltest.Results {
	r, bf16 := kerneltest.Rand(t), kernels.BF16
	runs := map[string]func(*kerneltest.Device) kerneltest.Results{
		"linear":                  smallLinear(r, 65, 72, 104),
		"linear, odd":             smallLinear(r, 19, 35, 51),
		"linear, rows":            smallLinear(r, 3, 40, 72),
		"linear, Hopper":          smallLinear(r, 130, 264, 72),
		"attention":               smallAttention(r, 64, 130, 1, 20),
		"attention, wide":         smallAttention(r, 128, 40, 3),
		"attention, wide windows": smallWindows(r),
		"decode":                  smallDecode(r, 64),
		"decode, wide":            smallDecode(r, 128),
	}
	wide := rowCase{3, 1032, bf16}
	x, w := values(r, bf16, wide.T*wide.D), values(r, bf16, wide.D)
	runs["rmsnorm, several warps"] = wide.rmsNorm(t, x, w)
	for _, c := range []rowCase{{33, 136, bf16}, {17, 35, bf16}} {
		x, w, dout, rstd := values(r, bf16, c.T*c.D), values(r, bf16, c.D), values(r, bf16, c.T*c.D), values(r, kernels.F32, c.T)
		tokens, rows, gates := someRows(r, c.T, tokenKinds), []int32{int32(c.T - 1), -1, 3}, values(r, bf16, 2*c.T*c.D)
		for name, run := range map[string]func(*kerneltest.Device) kerneltest.Results{
			"rmsnorm":          c.rmsNorm(t, x, w),
			"rmsnorm, add":     c.addRMSNorm(t, x, dout, w),
			"rmsnorm back":     c.rmsNormBackward(t, dout, x, rstd, x, w, values(r, kernels.F32, c.D)),
			"embedding":        c.embedding(tokens, values(r, bf16, tokenKinds*c.D)),
			"embedding back":   c.embeddingBackward(t, dout, tokens, values(r, kernels.F32, tokenKinds*c.D)),
			"gather":           c.gather(values(r, bf16, gathered*c.D), someRows(r, c.T, gathered)),
			"gather back":      c.gatherBackward(values(r, bf16, len(rows)*c.D), rows),
			"swiglu":           c.swiglu(t, gates),
			"swiglu back":      c.swigluBackward(t, dout, gates),
			"pages":            smallPages(r, c.D),
			"elements, at odd": smallElements(r, c.T*c.D),
		} {
			runs[fmt.Sprint(name, ", ", c.D)] = run
		}
	}
	for _, E := range []int{128, 64, 20} {
		c := newRopeCase(r, 33, 5, 2, E, bf16)
		runs[fmt.Sprint("qknormrope, ", E)], runs[fmt.Sprint("qknormrope back, ", E)] = c.run(t), c.runBackward(t)
	}
	h := randomHead(t, bf16, 19, 300, 40, 1)
	dlogp, was := kerneltest.Normal(r, h.R, 1), kerneltest.Normal(r, h.V*h.D, 1)
	runs["logprob"] = func(d *kerneltest.Device) kerneltest.Results { return h.run(d, bf16) }
	runs["logprob back"] = func(d *kerneltest.Device) kerneltest.Results { return h.backward(d, bf16, dlogp, dlogp, was, 128) }
	runs["sample"] = smallSample(r)
	return runs
}

// smallElements is what goes through flat tensors element by element.
func smallElements(r *rand.Rand, n int) func(*kerneltest.Device) kerneltest.Results {
	x := values(r, kernels.F32, n)
	return func(d *kerneltest.Device) kerneltest.Results {
		o := newOptimizer(d, kernels.BF16, kernels.F16, x)
		o.step(x, kernels.AdamWConfig{LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Decay: 0.1, Scale: 0.5, Step: 1})
		got := o.results()
		o = newOptimizer(d, kernels.BF16, kernels.F32, x) // at addresses that 16 bytes don't divide
		for _, p := range []*kernels.Tensor{&o.w, &o.master, &o.m.Mean, &o.v.Mean, &o.g} {
			*p = p.Rows(1, n)
		}
		o.step(x[1:], kernels.AdamWConfig{LR: 0.01, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Scale: 1, Step: 1})
		for name, x := range o.results() {
			got[name+", odd"] = x
		}
		dst, src, norm := d.Put(kernels.F32, x, n), d.Put(kernels.F32, x, n), d.Tensor(kernels.F32, 1)
		kernels.Add(d.Q, dst.Rows(1, n), src.Rows(0, n-1))
		kernels.Zero(d.Q, src.Rows(3, n-2))
		kernels.GradNorm(d.Q, norm, d.Tensor(kernels.U64, (n+kernels.NormLeaf-1)/kernels.NormLeaf), dst)
		whole, odd := d.Zeros(kernels.BF16, n), d.Zeros(kernels.BF16, n)
		kernels.RoundScaled(d.Q, whole, dst, 0.5)
		kernels.RoundScaled(d.Q, odd.Rows(1, n), dst.Rows(0, n-1), 0.5)
		written := map[string]kernels.Tensor{"sum": dst, "zeroed": src, "norm": norm, "rounded": whole, "rounded, odd": odd}
		for _, name := range slices.Sorted(maps.Keys(written)) { // in one order, for kerneltest.BitsOut
			got[name] = d.Get(written[name])
		}
		return got
	}
}

// smallPages appends to pages and copies some; heads are as wide as D is a multiple of 8, or not.
func smallPages(r *rand.Rand, D int) func(*kerneltest.Device) kerneltest.Results {
	E := 32 + D%8/2*2
	kv, seed := values(r, kernels.BF16, 2*3*2*64*E), r.Uint64()
	return func(d *kerneltest.Device) kerneltest.Results {
		var table []int32
		got := appendSteps(appended(rand.New(rand.NewPCG(seed, 0)), kernels.BF16, 4, 2, E), seed, &table)(d)
		x := d.Put(kernels.BF16, kv, 2, 3, 2, 64*E)
		kernels.CopyPages(d.Q, x, d.PutI32([]int32{0, 2, -1, 1}, 2, 2))
		got["copied"] = d.Get(x)
		return got
	}
}

func smallSample(r *rand.Rand) func(*kerneltest.Device) kerneltest.Results {
	const V = 1100
	params := []kernels.SampleParams{randomParams(r, V), randomParams(r, V), randomParams(r, V)}
	for _, filter := range []struct {
		k    int32
		p    float32
		minP float32
	}{{5, 1, 0}, {0, 0.6, 0}, {40, 0.9, 0.01}} {
		s := plain(r.Uint64(), r.IntN(1<<20))
		s.TopK, s.TopP, s.MinP = filter.k, filter.p, filter.minP
		params = append(params, s)
	}
	R := len(params)
	for i := range params {
		params[i].Top = 3
	}
	logits := kerneltest.Normal(r, R*V, 1)
	return func(d *kerneltest.Device) kerneltest.Results {
		z := d.Put(kernels.F32, logits, R, V)
		tokens, logp := sampleLists(d, z, params, nil, nil)
		ids, top := topLogProbs(d, z, params, 5)
		all := make([]float32, 0, len(tokens)+len(ids))
		for _, id := range append(tokens, ids...) {
			all = append(all, float32(id))
		}
		return kerneltest.Results{"tokens": all, "logp": logp, "top": top}
	}
}

// smallLinear is a product forward and backward.
func smallLinear(r *rand.Rand, T, N, K int) func(*kerneltest.Device) kerneltest.Results {
	x, w, dy := values(r, kernels.BF16, T*K), values(r, kernels.BF16, N*K), values(r, kernels.BF16, T*N)
	before := values(r, kernels.F32, N*K)
	return func(d *kerneltest.Device) kerneltest.Results {
		x, w, dy := d.Put(kernels.BF16, x, T, K), d.Put(kernels.BF16, w, N, K), d.Put(kernels.BF16, dy, T, N)
		y, dx, dw := d.Tensor(kernels.BF16, T, N), d.Tensor(kernels.BF16, T, K), d.Put(kernels.F32, before, N, K)
		kernels.Linear(d.Q, y, x, w)
		kernels.LinearBackward(d.Q, dx, dw, dy, x, w)
		return kerneltest.Results{"y": d.Get(y), "dx": d.Get(dx), "dw": d.Get(dw)}
	}
}

// smallAttention is attention over whole sequences, forward and backward.
func smallAttention(r *rand.Rand, E int, lengths ...int) func(*kerneltest.Device) kerneltest.Results {
	var seqs []*sequence
	for _, n := range lengths {
		seqs = append(seqs, randomSequence(r, kernels.BF16, n, 4, 2, E))
	}
	seed := r.Uint64()
	return func(d *kerneltest.Device) kerneltest.Results {
		cache := newCache(d, seqs, rand.New(rand.NewPCG(seed, 0)))
		b := cache.pack(seqs, wholeSequences(seqs))
		cache.forward(b, seqs[0].scale)
		return kerneltest.Results{"out": b.outputs, "lse": b.logSumExps, "dqkv": cache.backward(b, seqs[0].scale)}
	}
}

// smallWindows has several chunks of queries begin within the rows of one block, after each other through the same memory:
// the first ends with a tile of keys, so that only the queries' own barrier says when they have been read.
func smallWindows(r *rand.Rand) func(*kerneltest.Device) kerneltest.Results {
	seqs := windowed(r)
	seed := r.Uint64()
	return func(d *kerneltest.Device) kerneltest.Results {
		got := kerneltest.Results{}
		for i, a := range attendIn(d, seqs, rand.New(rand.NewPCG(seed, 0)), windowSteps) {
			got[fmt.Sprint("out ", i)], got[fmt.Sprint("lse ", i)] = a.out, a.lse
		}
		return got
	}
}

// smallDecode is attention row by row.
func smallDecode(r *rand.Rand, E int) func(*kerneltest.Device) kerneltest.Results {
	seqs := []*sequence{randomSequence(r, kernels.BF16, 5, 4, 1, E), randomSequence(r, kernels.BF16, 3, 4, 1, E)}
	seed := r.Uint64()
	return func(d *kerneltest.Device) kerneltest.Results {
		got := kerneltest.Results{}
		for i, a := range attendIn(d, seqs, rand.New(rand.NewPCG(seed, 0)), decodeSteps(seqs)) {
			got[fmt.Sprint("out ", i)], got[fmt.Sprint("lse ", i)] = a.out, a.lse
		}
		return got
	}
}
