package kernels_test

import (
	"fmt"
	"math"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// TestSplitMaster tries every lower half under upper halves of each kind.
func TestSplitMaster(t *testing.T) {
	for _, c := range []struct {
		name  string
		upper uint32
	}{
		{"zero and the least subnormals", 0},
		{"odd subnormals", 1},
		{"up to the least normal number", 0x007f},
		{"least normal number", 0x0080},
		{"even", 0x3f80},
		{"odd", 0x3f81},
		{"mantissa that rounds into the exponent", 0x3fff},
		{"largest numbers, that round to infinity", 0x7f7f},
		{"infinity and NaN", 0x7f80},
		{"signalling NaN", 0x7f81},
		{"quiet NaN", 0x7fc0},
		{"NaN of all ones", 0x7fff},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, sign := range []uint32{0, 0x8000} {
				for lower := range uint32(1 << 16) {
					checkSplit(t, (sign|c.upper)<<16|lower)
				}
			}
		})
	}
	t.Run("random", func(t *testing.T) {
		r := kerneltest.Rand(t)
		for range 1 << 18 {
			checkSplit(t, r.Uint32())
		}
	})
}

func checkSplit(t *testing.T, bits uint32) {
	t.Helper()
	x := math.Float32frombits(bits)
	w, low := kernels.SplitMaster(x)
	got, weight := kernels.JoinMaster(w, low), kernels.F32Of(w)
	if x != x {
		if math.Float32bits(got) != bits|0x400000 || weight == weight {
			t.Fatalf("%#08x: weight %v, back as %#08x, want a NaN and the same made quiet", bits, weight, math.Float32bits(got))
		}
		return
	}
	if math.Float32bits(got) != bits {
		t.Fatalf("%#08x comes back as %#08x", bits, math.Float32bits(got))
	}
	want := kernels.BF16Of(x)
	if tie := bits&0xffff == 0x8000; tie {
		want = uint16(bits>>16) + 1 // away from zero
	}
	if w != want {
		t.Fatalf("%#08x: weight %#04x, want %#04x", bits, w, want)
	}
}

// TestAdamWMasters takes the same steps with whole masters and with low halves, from masters of all kinds, ties among them.
func TestAdamWMasters(t *testing.T) {
	for _, n := range []int{1, 17, 4096 + 80} {
		for _, moments := range []kernels.DType{kernels.F32, kernels.BF16, kernels.F16} {
			t.Run(fmt.Sprint(n, moments), func(t *testing.T) {
				r := kerneltest.Rand(t)
				w := values(r, kernels.F32, n)
				for i := range w {
					switch i % 4 {
					case 1: // a tie
						w[i] = math.Float32frombits(math.Float32bits(w[i])&^0xffff | 0x8000)
					case 2: // as loaded
						w[i] = kernels.F32Of(kernels.BF16Of(w[i]))
					}
				}
				var grads [][]float32
				for range 12 {
					g := values(r, kernels.F32, n)
					for i := 0; i < n; i += 3 {
						g[i] = 0 // with no decay the master stays where it is, be it a tie
					}
					grads = append(grads, g)
				}
				kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
					whole, split := newOptimizer(d, kernels.BF16, moments, w), splitOptimizer(d, moments, w)
					for i, g := range grads {
						c := kernels.AdamWConfig{LR: 1e-3, Beta1: 0.9, Beta2: 0.95, Eps: 1e-8, Scale: 1, Step: i + 1}
						if i > 5 {
							c.Decay = 0.1
						}
						whole.step(g, c)
						split.step(g, c)
						want := whole.results()
						for name, got := range split.results() {
							kerneltest.Same(t, fmt.Sprintf("%s after step %d", name, i+1), got, want[name])
						}
					}
					return whole.results()
				})
			})
		}
	}
}
