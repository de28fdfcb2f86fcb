package kernels_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

var attentionCases = []struct {
	name    string
	H, K, E int
	lengths []int
}{
	{"one row", 2, 1, 16, []int{1}},
	{"two rows", 4, 2, 32, []int{2}},
	{"around a block of rows", 3, 1, 64, []int{15, 16, 17}},
	{"around a page", 2, 2, 80, []int{63, 64, 65}},
	{"around a tile", 2, 1, 32, []int{127, 128, 129}},
	{"more than a tile", 8, 1, 16, []int{200}},
	{"five heads a key", 10, 2, 16, []int{66, 3}},
	{"empty sequences", 5, 1, 16, []int{0, 7, 0, 33, 0}},
	{"Qwen3-4B's heads", 4, 1, 128, []int{130, 1}},
}

// TestAttention compares whole sequences, forward and backward, with the float64 reference.
func TestAttention(t *testing.T) {
	for _, c := range attentionCases {
		for _, dtype := range kerneltest.DTypes {
			t.Run(fmt.Sprint(c.name, " ", dtype), func(t *testing.T) {
				skipInShort(t, slices.Max(c.lengths) > 40)
				r := kerneltest.Rand(t)
				var seqs []*sequence
				for _, n := range c.lengths {
					s := randomSequence(r, dtype, n, c.H, c.K, c.E)
					s.solve()
					seqs = append(seqs, s)
				}
				seed := r.Uint64()
				pieces := wholeSequences(seqs)
				got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
					cache := newCache(d, seqs, rand.New(rand.NewPCG(seed, 0)))
					b := cache.pack(seqs, pieces)
					cache.forward(b, seqs[0].scale)
					return kerneltest.Results{"out": b.outputs, "lse": b.logSumExps, "dqkv": cache.backward(b, seqs[0].scale), "delta": d.Get(b.delta)}
				})
				compareBatch(t, seqs, pieces, got)
			})
		}
	}
}

// skipInShort leaves large cases out of -short, which is how the race detector runs: it slows the plain loops tenfold,
// and what workers share does not depend on the size.
func skipInShort(t *testing.T, large bool) {
	t.Helper()
	if large && testing.Short() {
		t.Skip("large")
	}
}

// compareBatch holds the pieces of a batch to their references.
func compareBatch(t *testing.T, seqs []*sequence, pieces []piece, got kerneltest.Results) {
	t.Helper()
	H, K, E, at := seqs[0].H, seqs[0].K, seqs[0].E, 0
	for _, p := range pieces {
		n := p.hi - p.lo
		out, lse, dqkv := rowsOf(got["out"], H*E, at, n), rowsOf(got["lse"], H, at, n), rowsOf(got["dqkv"], (H+2*K)*E, at, n)
		at += n
		if p.seq < 0 {
			wantZeros(t, "out of padding", out)
			wantZeros(t, "lse of padding", lse)
			wantZeros(t, "dqkv of padding", dqkv)
			continue
		}
		compareAttention(t, seqs[p.seq], out, lse, dqkv)
	}
}

func compareAttention(t *testing.T, s *sequence, out, lse, dqkv []float32) {
	t.Helper()
	name := func(x string) string { return fmt.Sprintf("%s of %d rows", x, s.n) }
	W := s.H + 2*s.K
	kerneltest.Near(t, name("out"), out, s.out, kerneltest.Tol{Abs: s.outTol})
	kerneltest.Near(t, name("lse"), lse, s.lse, kerneltest.Tol{Abs: s.lseTol})
	kerneltest.Near(t, name("dq"), headsOf(dqkv, s.n, W, s.E, 0, s.H), s.dq, kerneltest.Tol{Abs: s.dqTol})
	kerneltest.Near(t, name("dk"), headsOf(dqkv, s.n, W, s.E, s.H, s.H+s.K), s.dk, kerneltest.Tol{Abs: s.dkTol})
	kerneltest.Near(t, name("dv"), headsOf(dqkv, s.n, W, s.E, s.H+s.K, W), s.dv, kerneltest.Tol{Abs: s.dvTol})
}

// TestAttentionGradient holds the reference's gradients, to which the kernels are held, to finite differences.
func TestAttentionGradient(t *testing.T) {
	r := kerneltest.Rand(t)
	s := randomSequence(r, kernels.F32, 5, 4, 2, 16)
	s.solve()
	dq, dk, dv := s.dq, s.dk, s.dv
	loss := func() float64 {
		s.solve()
		return kerneltest.Dot(s.out, s.dout)
	}
	for _, c := range []struct {
		name string
		x    []float64
		want []float64
	}{{"dq", s.q, dq}, {"dk", s.k, dk}, {"dv", s.v, dv}} {
		// The differences' truncation is h² and their rounding 2⁻⁵³/h, with h = 1e-5.
		kerneltest.Near(t, c.name, float32s(kerneltest.Gradient(loss, c.x)), c.want, kerneltest.Tol{Abs: 1e-8, Rel: 0x1p-23})
	}
}

// TestAttentionRowAlone computes the same rows in whole sequences, in chunks of random sizes packed with other
// sequences' chunks, and one by one as decoding does, each through another layout of pages: the bits must not differ.
func TestAttentionRowAlone(t *testing.T) {
	for _, dtype := range kerneltest.DTypes {
		for _, shape := range [][3]int{{4, 2, 32}, {5, 1, 16}, {2, 2, 48}} {
			H, K, E := shape[0], shape[1], shape[2]
			t.Run(fmt.Sprint(dtype, " ", shape), func(t *testing.T) {
				skipInShort(t, E > 16)
				r := kerneltest.Rand(t)
				var seqs []*sequence
				for i, n := range []int{1, 20, 60, 120} { // across a block, a page, a tile
					seqs = append(seqs, randomSequence(r, dtype, n+r.IntN(30), H, K, E))
					if i%2 == 1 {
						seqs[i].cancel(r)
					}
				}
				for _, d := range kerneltest.Devices(t) {
					want := attendIn(d, seqs, r, [][]piece{wholeSequences(seqs)})
					for _, c := range []struct {
						name  string
						steps [][]piece
					}{{"chunks", chunkSteps(seqs, r)}, {"decode", decodeSteps(seqs)}} {
						got := attendIn(d, seqs, r, c.steps)
						for i := range seqs {
							kerneltest.Same(t, fmt.Sprintf("%s: %s: out of sequence %d", d.Name(), c.name, i), got[i].out, want[i].out)
							kerneltest.Same(t, fmt.Sprintf("%s: %s: lse of sequence %d", d.Name(), c.name, i), got[i].lse, want[i].lse)
						}
					}
				}
			})
		}
	}
}

// cancel makes all keys count the same and random ones huge, of alternating sign: what remains of a row's sum shows the
// order in which it was added even after rounding to bfloat16.
func (s *sequence) cancel(r *rand.Rand) {
	clear(s.q)
	huge := 0x1p18
	for j := range s.n {
		if r.IntN(8) == 0 {
			for i := range s.K * s.E {
				s.v[j*s.K*s.E+i] = huge
			}
			huge = -huge
		}
	}
}

type attended struct{ out, lse []float32 }

// attendIn runs the steps through a fresh cache and collects every sequence's rows.
func attendIn(d *kerneltest.Device, seqs []*sequence, r *rand.Rand, steps [][]piece) []attended {
	c := newCache(d, seqs, r)
	got := make([]attended, len(seqs))
	for _, pieces := range steps {
		b := c.pack(seqs, pieces)
		c.forward(b, seqs[0].scale)
		for i, p := range pieces {
			if p.seq < 0 {
				continue
			}
			g := &got[p.seq]
			g.out = append(g.out, rowsOf(b.outputs, c.H*c.E, b.rowOfPiece[i], p.hi-p.lo)...)
			g.lse = append(g.lse, rowsOf(b.logSumExps, c.H, b.rowOfPiece[i], p.hi-p.lo)...)
		}
	}
	return got
}

// chunkSteps cuts the sequences into random pieces; a step takes the next one of some of them, in random order, with
// padding between.
func chunkSteps(seqs []*sequence, r *rand.Rand) [][]piece {
	var steps [][]piece
	done := make([]int, len(seqs))
	for left := true; left; {
		left = false
		var step []piece
		for _, i := range r.Perm(len(seqs)) {
			lo, n := done[i], seqs[i].n
			left = left || lo < n
			if lo == n || r.IntN(3) == 0 {
				step = append(step, piece{-1, 0, 1 + r.IntN(3)})
				continue
			}
			hi := min(n, lo+1+r.IntN(70))
			step = append(step, piece{i, lo, hi})
			done[i] = hi
		}
		steps = append(steps, step)
	}
	return steps
}

// decodeSteps takes all of every sequence but its last rows at once, and then one of them at a time; a sequence that has
// ended leaves an idle row.
func decodeSteps(seqs []*sequence) [][]piece {
	const last = 20
	var prompts []piece
	for i, s := range seqs {
		prompts = append(prompts, piece{i, 0, max(s.n-last, 1)})
	}
	steps := [][]piece{prompts}
	for row := range last {
		var step []piece
		for i, s := range seqs {
			if at := prompts[i].hi + row; at < s.n {
				step = append(step, piece{i, at, at + 1})
			} else {
				step = append(step, piece{-1, 0, 1})
			}
		}
		steps = append(steps, step)
	}
	return steps
}

// TestAttentionBackwardAlone: a sequence's gradient has the same bits alone and among others.
func TestAttentionBackwardAlone(t *testing.T) {
	for _, dtype := range kerneltest.DTypes {
		t.Run(dtype.String(), func(t *testing.T) {
			r := kerneltest.Rand(t)
			H, K, E := 6, 2, 32
			W := (H + 2*K) * E
			var seqs []*sequence
			for range 4 {
				seqs = append(seqs, randomSequence(r, dtype, 1+r.IntN(100), H, K, E))
			}
			for _, d := range kerneltest.Devices(t) {
				c := newCache(d, seqs, r)
				all := c.pack(seqs, wholeSequences(seqs))
				c.forward(all, seqs[0].scale)
				got := c.backward(all, seqs[0].scale)
				for i, s := range seqs {
					alone := newCache(d, seqs[i:i+1], r)
					b := alone.pack(seqs[i:i+1], []piece{{0, 0, s.n}})
					alone.forward(b, s.scale)
					want := alone.backward(b, s.scale)
					at := 0
					for j := range i {
						at += (seqs[j].n + 15) &^ 15
					}
					kerneltest.Same(t, fmt.Sprintf("%s: dqkv of sequence %d", d.Name(), i), rowsOf(got, W, at, s.n), want)
				}
			}
		})
	}
}

// TestAttentionMasksSelect puts NaN into the last row of a sequence: rows before it do not see its key, and its gradient
// goes to nothing that it does not see.
func TestAttentionMasksSelect(t *testing.T) {
	for _, dtype := range kerneltest.DTypes {
		for _, at := range []int{0, 5, 16, 63, 64, 70} {
			t.Run(fmt.Sprintf("%v row %d", dtype, at), func(t *testing.T) {
				skipInShort(t, at != 64)
				r := kerneltest.Rand(t)
				const n, H, K, E = 75, 3, 1, 16
				s := randomSequence(r, dtype, n, H, K, E)
				seqs := []*sequence{s}
				run := func(d *kerneltest.Device) (out, dkv []float32) {
					c := newCache(d, seqs, rand.New(rand.NewPCG(1, 1)))
					b := c.pack(seqs, wholeSequences(seqs))
					c.forward(b, s.scale)
					return b.outputs, headsOf(c.backward(b, s.scale), n, H+2*K, E, H, H+2*K)
				}
				for _, d := range kerneltest.Devices(t) {
					wantOut, wantKV := run(d)
					key, grad := s.k[at*E], s.dout[at*H*E]
					s.k[at*E] = math.NaN()
					gotOut, _ := run(d)
					s.k[at*E], s.dout[at*H*E] = key, math.NaN()
					_, gotKV := run(d)
					s.dout[at*H*E] = grad
					kerneltest.Same(t, d.Name()+": out before the NaN key", gotOut[:at*H*E], wantOut[:at*H*E])
					after := (at + 1) * 2 * E
					kerneltest.Same(t, d.Name()+": dk, dv after the NaN row", gotKV[after:], wantKV[after:])
					if x := gotOut[at*H*E]; x == x {
						t.Errorf("%s: out of the row with the NaN key is %v, want NaN", d.Name(), x)
					}
					if x := gotKV[0]; x == x {
						t.Errorf("%s: dk of row 0 is %v, want NaN from row %d", d.Name(), x, at)
					}
				}
			})
		}
	}
}

// TestAttentionLargeScores: the largest score is subtracted before the exponential, whatever its size and wherever it is.
func TestAttentionLargeScores(t *testing.T) {
	const n, E = 140, 16
	for _, at := range []int{0, 100, 139} {
		s := &sequence{n: n, H: 1, K: 1, E: E, dtype: kernels.F32, scale: 1}
		s.q, s.k, s.v = make([]float64, n*E), make([]float64, n*E), make([]float64, n*E)
		s.dout = make([]float64, n*E)
		for j := range n {
			s.q[j*E], s.k[j*E] = 1000, -1000
			s.v[j*E] = float64(j)
		}
		s.k[at*E] = 1000
		got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
			c := newCache(d, []*sequence{s}, rand.New(rand.NewPCG(1, 1)))
			b := c.pack([]*sequence{s}, wholeSequences([]*sequence{s}))
			c.forward(b, 1)
			return kerneltest.Results{"out": b.outputs, "lse": b.logSumExps}
		})
		for j := range n {
			want := float64(at)
			if j < at {
				want = float64(j) / 2 // all scores are equal: the mean
			}
			kerneltest.Near(t, fmt.Sprintf("row %d", j), got["out"][j*E:][:1], []float64{want}, kerneltest.Tol{Abs: 1e-4})
		}
	}
}

// TestAttentionGolden compares with PyTorch's scaled_dot_product_attention.
func TestAttentionGolden(t *testing.T) {
	var golden struct {
		Cases []struct {
			N, H, K, E           int
			Out, Lse, Dq, Dk, Dv []float64
		}
	}
	kerneltest.Golden(t, "testdata/attention.json", &golden)
	for _, g := range golden.Cases {
		for _, dtype := range kerneltest.DTypes {
			t.Run(fmt.Sprintf("n=%d H=%d K=%d E=%d %v", g.N, g.H, g.K, g.E, dtype), func(t *testing.T) {
				s := randomSequence(rand.New(rand.NewPCG(0, 0)), dtype, g.N, g.H, g.K, g.E)
				for i, x := range [][]float64{s.q, s.k, s.v, s.dout} {
					for j := range x {
						x[j] = goldenInput(i, j)
					}
				}
				s.solve()
				s.out, s.lse, s.dq, s.dk, s.dv = g.Out, g.Lse, g.Dq, g.Dk, g.Dv
				seqs := []*sequence{s}
				kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
					c := newCache(d, seqs, rand.New(rand.NewPCG(1, 1)))
					b := c.pack(seqs, []piece{{0, 0, g.N}})
					c.forward(b, s.scale)
					dqkv := c.backward(b, s.scale)
					compareAttention(t, s, b.outputs, b.logSumExps, dqkv)
					kernels.Attention(d.Q, b.out, kernels.Tensor{}, b.qk, c.kv, b.AttentionBatch, cacheLayer, float32(s.scale))
					kerneltest.Same(t, "out without lse", d.Get(b.out), b.outputs)
					return kerneltest.Results{"out": b.outputs, "dqkv": dqkv}
				})
			})
		}
	}
}

// goldenInput is element j of the generator's input i: exact in bfloat16.
func goldenInput(i, j int) float64 {
	x := uint32(j)*2654435761 + uint32(i)*40503
	x ^= x >> 15
	x *= 2246822519
	return float64(int(x>>25)-64) / 32
}

// TestAttentionMisuse: what is wrong is said with its numbers.
func TestAttentionMisuse(t *testing.T) {
	d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
	s := randomSequence(kerneltest.Rand(t), kernels.F32, 70, 4, 2, 16)
	seqs := []*sequence{s}
	c := newCache(d, seqs, rand.New(rand.NewPCG(1, 1)))
	b := c.pack(seqs, wholeSequences(seqs))
	attend := func(out, kv kernels.Tensor, layer int, scale float32) func() {
		return func() { kernels.Attention(d.Q, out, b.lse, b.qk, kv, b.AttentionBatch, layer, scale) }
	}
	for _, x := range []struct {
		name string
		f    func()
		want string
	}{
		{"heads", attend(d.Tensor(kernels.F32, b.T, 3, 16), c.kv, 0, 1), "H=3, K=2"},
		{"scale", attend(b.out, c.kv, 0, 0), "scale=0"},
		{"layer", attend(b.out, c.kv, 2, 1), "layer 2 of a cache of 2"},
		{"page size", attend(b.out, d.Tensor(kernels.F32, 2, 3, 4, 32*16), 0, 1), "kv is [2 3 4 512]"},
		{"dtype", attend(d.Tensor(kernels.BF16, b.T, 4, 16), c.kv, 0, 1), "qk is float32"},
	} {
		t.Run(x.name, func(t *testing.T) {
			defer func() {
				if got := fmt.Sprint(recover()); !strings.Contains(got, x.want) {
					t.Errorf("panic %q, want it to say %q", got, x.want)
				}
			}()
			x.f()
		})
	}
}

// TestAttentionPageMissing: a row whose page is not in the table is reported, not read from somewhere.
func TestAttentionPageMissing(t *testing.T) {
	s := randomSequence(kerneltest.Rand(t), kernels.F32, 70, 1, 1, 16)
	for _, page := range []int32{-1, 99} {
		d := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
		seqs := []*sequence{s}
		c := newCache(d, seqs, rand.New(rand.NewPCG(1, 1)))
		c.table[1] = page
		b := c.pack(seqs, wholeSequences(seqs))
		kernels.Attention(d.Q, b.out, b.lse, b.qk, c.kv, b.AttentionBatch, cacheLayer, 1)
		err := d.Q.Sync()
		if want := fmt.Sprintf("kernel attention: sequence 0, position 64: page %d of", page); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want it to say %q", err, want)
		}
	}
}
