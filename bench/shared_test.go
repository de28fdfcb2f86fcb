package bench

import (
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"tandem/kernels"
	"tandem/model"
)

var writeShared = flag.Bool("write", false, "write bench/shared.txt")

const sharedHead = `# Bytes of dynamic shared memory that a block of each kernel is launched with, at the most: at the shapes of Qwen3-8B and
# 0.6B and at awkward ones. go test ./bench -run Shared -write makes it, make kernels puts it into ptxas.txt.
`

// A paper card computes nothing. It notes how much dynamic shared memory each kernel is launched with.
type paperCard struct {
	gpu  kernels.GPU
	next kernels.Ptr
	most map[string]int
}

func (p *paperCard) Name() string { return "paper" }

func (p *paperCard) Alloc(bytes int) (kernels.Ptr, error) {
	at := p.next
	p.next += kernels.Ptr(bytes+255) &^ 255
	return at, nil
}

func (p *paperCard) Pinned(bytes int) (kernels.Ptr, []byte, error) {
	at, err := p.Alloc(bytes)
	return at, make([]byte, bytes), err
}

func (p *paperCard) NewQueue() (kernels.Queue, error) { return p, nil }
func (p *paperCard) Close() error                     { return nil }

func (p *paperCard) Launch(l kernels.Launch) {
	g := l.Op.CUDA(p.gpu, unsafe.Pointer(&l.Args[0]))
	name := g.Kernel
	if name == "" {
		name = l.Op.Name
	}
	if g.Threads > 0 { // else there is no kernel for the arguments
		p.most[name] = max(p.most[name], g.Shared)
	}
}

func (p *paperCard) Copy(dst, src kernels.Ptr, bytes int) {}
func (p *paperCard) Mark() kernels.Event                  { return nil }
func (p *paperCard) After(kernels.Event)                  {}
func (p *paperCard) Host(f func())                        { f() }
func (p *paperCard) Repeat(_ int, f func())               { f() }
func (p *paperCard) Sync() error                          { return nil }

// launches are those of every kernel of a model, with what the benches leave out.
func launches(c model.Config, z Sizes) []Case {
	D, H, K, E, T, V := c.Hidden, c.Heads, c.KVHeads, c.HeadDim, z.Rows, c.Live
	more := func(f func(b *bed)) Case { return Case{setup: func(b *bed) func() { return func() { f(b) } }} }
	return append(Cases(c, z),
		more(func(b *bed) { kernels.Add(b.q, b.zeros(f32, T, D), b.zeros(f32, T, D)) }),
		more(func(b *bed) {
			kv, batch := cache(b, 1, z.Context, z.Context, K, E)
			kernels.Append(b.q, kv, b.zeros(bf16, z.Context, H+K, E), b.zeros(bf16, z.Context, H+2*K, E), batch, 0)
			kernels.CopyPages(b.q, kv, b.zeros(kernels.I32, 1, 2))
		}),
		more(func(b *bed) {
			few, all, rows := b.zeros(bf16, 2, D), b.zeros(bf16, T, D), b.zeros(kernels.I32, 2)
			kernels.Gather(b.q, few, all, rows)
			kernels.GatherBackward(b.q, all, few, rows)
		}),
		more(func(b *bed) { kernels.RoundScaled(b.q, b.zeros(bf16, z.Elements), b.zeros(f32, z.Elements), 1) }),
		more(func(b *bed) { // what does not begin where 16 bytes do
			n := z.Elements
			w, x, moment := b.zeros(bf16, n), b.zeros(f32, n), kernels.Moment{Mean: b.zeros(f32, n)}
			w.Ptr, x.Ptr = w.Ptr+2, x.Ptr+4
			kernels.RoundScaled(b.q, w, x, 1)
			kernels.AdamW(b.q, w, b.zeros(f32, n), moment, moment, x, kernels.AdamWConfig{LR: 1, Beta1: 0.9, Beta2: 0.9, Eps: 1, Scale: 1, Step: 1})
		}),
		more(func(b *bed) {
			const n = 5
			kernels.TopLogProbs(b.q, b.zeros(kernels.I32, 2, n), b.zeros(f32, 2, n), b.zeros(f32, 2, V), b.zeros(kernels.U8, 2, kernels.SampleParamsBytes))
		}),
	)
}

// asked adds how much dynamic shared memory the kernels ask for on a card.
func asked(t *testing.T, gpu kernels.GPU, most map[string]int) {
	t.Helper()
	p := &paperCard{gpu: gpu, next: 1 << 20, most: most}
	host, err := kernels.NewTransfer(p)
	if err != nil {
		t.Fatal(err)
	}
	b := &bed{q: p, host: host, arena: 1 << 32, bytes: 1 << 46, seed: 1 << 31}
	run := func(all []Case) {
		for _, k := range all {
			b.used = 0
			k.setup(b)()
		}
	}
	small := Sizes{Rows: 64, Context: 16, Decode: []int{1, 5, 40}, Elements: 1003}
	for _, name := range []string{"8b", "0.6b", "tiny"} {
		c, err := model.Shape(name)
		if err != nil {
			t.Fatal(err)
		}
		if name != "tiny" {
			run(launches(c, DefaultSizes()))
			continue
		}
		run(launches(c, small))
		c.HeadDim = 64
		run(launches(c, small))
		c.Hidden, c.MLP, c.Live, c.Heads, c.KVHeads, c.HeadDim = 100, 90, 1003, 6, 3, 42
		run(launches(c, small))
	}
	for E := 2; E <= 128; E += 2 {
		run([]Case{qkNormRopeBackward(16, 4, 2, E)})
	}
}

// bench/shared.txt is what launches ask for, of every kernel in ptxas.txt.
func TestSharedMemory(t *testing.T) {
	facts, err := os.ReadFile("ptxas.txt")
	if err != nil {
		t.Fatal(err)
	}
	var rows []string
	const block = 227 << 10 // what it may have on both cards
	for card, gpus := range map[string][]kernels.GPU{
		"sm_90a":  {{Major: 9, SMs: 132, Shared: block, Hopper: true}, {Major: 9, SMs: 132, Shared: block}},
		"sm_100a": {{Major: 10, SMs: 148, Shared: block}},
	} {
		most := map[string]int{}
		for _, gpu := range gpus {
			asked(t, gpu, most)
		}
		for name, bytes := range most {
			rows = append(rows, fmt.Sprintf("%s %s %d\n", name, card, bytes))
			if bytes > block {
				t.Errorf("%s wants %d bytes of shared memory on %s, which has %d", name, bytes, card, block)
			}
		}
		for l := range strings.Lines(string(facts)) {
			f := strings.Fields(l)
			if _, ok := most[f[0]]; !ok && f[1] == card {
				t.Errorf("no launch of this test runs %s on %s: give it one", f[0], card)
			}
		}
	}
	slices.Sort(rows)
	want := sharedHead + strings.Join(rows, "")
	if *writeShared {
		if err := os.WriteFile("shared.txt", []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile("shared.txt")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("bench/shared.txt is not what launches ask for: go test ./bench -run Shared -write, then make kernels\n%s", want)
	}
}
