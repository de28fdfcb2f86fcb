package kernels_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// plain is params without filters at temperature 1.
func plain(seed uint64, pos int) kernels.SampleParams {
	return kernels.SampleParams{Seed: seed, Pos: int32(pos), InvT: 1, TopP: 1}
}

// sample is Sample on one device, without lists.
func sample(d *kerneltest.Device, logits kernels.Tensor, params []kernels.SampleParams) (tokens []int32, logp []float32) {
	return sampleLists(d, logits, params, nil, nil)
}

// draws is sample for host logits of V columns on every device, one params a row.
func draws(t *testing.T, logits []float32, V int, params []kernels.SampleParams) (tokens []int32, logp []float32) {
	got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
		tok, lp := sample(d, d.Put(kernels.F32, logits, len(params), V), params)
		f := make([]float32, len(tok)) // exact
		for i, j := range tok {
			f[i] = float32(j)
		}
		return kerneltest.Results{"tokens": f, "logp": lp}
	})
	for _, f := range got["tokens"] {
		tokens = append(tokens, int32(f))
	}
	return tokens, got["logp"]
}

// repeat is n rows of the same logits.
func repeat(logits []float32, n int) []float32 {
	return slices.Repeat(logits, n)
}

// kept is the tokens that the filters leave of logits, by sorting, in float64. Comparisons that float32 decides are on
// the side of keeping.
func kept(logits []float32, s kernels.SampleParams) []int {
	ids := make([]int, len(logits))
	for j := range ids {
		ids[j] = j
	}
	slices.SortStableFunc(ids, func(a, b int) int { // ties keep ids ascending
		switch {
		case logits[a] > logits[b]:
			return -1
		case logits[a] < logits[b]:
			return 1
		}
		return 0
	})
	if s.Greedy != 0 {
		return ids[:1]
	}
	top := float64(logits[ids[0]])
	p := func(j int) float64 { return math.Exp((float64(logits[j]) - top) * float64(s.InvT)) }
	if s.TopK > 0 {
		ids = ids[:min(len(ids), int(s.TopK))]
	}
	if s.TopP < 1 {
		total, sum, n := 0.0, 0.0, 0
		for _, j := range ids {
			total += p(j)
		}
		for n < len(ids) && (n == 0 || sum < (float64(s.TopP)-1e-6)*total) {
			sum += p(ids[n])
			n++
		}
		ids = ids[:n]
	}
	n := 0
	for n < len(ids) && (n == 0 || p(ids[n]) >= float64(s.MinP)*(1-1e-6)) && p(ids[n]) > 0 {
		n++
	}
	return slices.Sorted(slices.Values(ids[:n]))
}

// cdf is the token at which the cumulated probability of the given ones exceeds u, and how near u is to a boundary.
func cdf(logits []float32, ids []int, invT float32, u float64) (token int, margin float64) {
	top := math.Inf(-1)
	for _, j := range ids {
		top = max(top, float64(logits[j]))
	}
	p, total := make([]float64, len(ids)), 0.0
	for i, j := range ids {
		p[i] = math.Exp((float64(logits[j]) - top) * float64(invT))
		total += p[i]
	}
	sum := 0.0
	for i, j := range ids {
		if sum+p[i] > u*total {
			return j, min(u-sum/total, (sum+p[i])/total-u)
		}
		sum += p[i]
	}
	return ids[len(ids)-1], 0
}

func uniformOf(s kernels.SampleParams) float64 {
	r := kernels.Philox(s.Seed, uint32(s.Pos), 0, 0, 0)
	return float64((uint64(r[0])<<32|uint64(r[1]))>>11) / (1 << 53)
}

var sampleSizes = []int{1, 2, 28, 1000, 1023, 1024, 1025, 4097, 151936}

// TestSample compares draws under random filters with sorting and cumulating in float64.
func TestSample(t *testing.T) {
	for _, V := range sampleSizes {
		t.Run(fmt.Sprint(V), func(t *testing.T) {
			r := kerneltest.Rand(t)
			R := min(200, max(3, 1<<16/V))
			logits := kerneltest.Normal(r, R*V, 1)
			params := make([]kernels.SampleParams, R)
			for i := range params {
				row := logits[i*V:][:V]
				shape(r, row)
				params[i] = randomParams(r, V)
			}
			tokens, logp := draws(t, logits, V, params)
			near := 0
			for i, s := range params {
				row := logits[i*V:][:V]
				want, margin := cdf(row, kept(row, s), s.InvT, uniformOf(s))
				if int(tokens[i]) != want {
					if margin > 1e-5 {
						t.Errorf("row %d, %+v: token %d, want %d (u is %g from the boundary)", i, s, tokens[i], want, margin)
					}
					near++
				}
				invT := s.InvT
				if s.Greedy != 0 {
					invT = 1
				}
				lp, size := logSoftmaxAt(row, int(tokens[i]), invT)
				tol := kerneltest.Tol{Abs: 0x1p-24 * (2*size + 80)} // u, and 64 roundings of a lane's sum
				kerneltest.Near(t, fmt.Sprintf("logp of row %d", i), logp[i:i+1], []float64{lp}, tol)
			}
			if near > 1+R/100 {
				t.Errorf("%d of %d draws lie within rounding of a boundary", near, R)
			}
		})
	}
}

// shape makes a row one of the kinds that models give.
func shape(r *rand.Rand, row []float32) {
	scale := []float32{0, 0.5, 3, 10}[r.IntN(4)]
	for j := range row {
		row[j] *= scale
		if r.IntN(8) == 0 {
			row[j] = float32(math.Round(float64(row[j]))) // ties
		}
	}
	if r.IntN(4) == 0 {
		row[r.IntN(len(row))] += 12
	}
	if r.IntN(4) == 0 && len(row) > 2 {
		for range len(row) / 3 {
			row[1+r.IntN(len(row)-1)] = -inf
		}
	}
}

func randomParams(r *rand.Rand, V int) kernels.SampleParams {
	s := plain(r.Uint64(), r.IntN(1<<20))
	s.InvT = []float32{1, 1, 0.5, 1.4, 3}[r.IntN(5)]
	if r.IntN(3) == 0 {
		s.TopK = int32(1 + r.IntN(min(2*V, 60)))
	}
	if r.IntN(3) == 0 {
		s.TopP = []float32{0, 0.1, 0.5, 0.9, 0.95, 0.999}[r.IntN(6)]
	}
	if r.IntN(4) == 0 {
		s.MinP = []float32{0.01, 0.1, 0.5, 1}[r.IntN(4)]
	}
	if r.IntN(8) == 0 {
		s.Greedy = 1
	}
	return s
}

// logSoftmaxAt is in float64; size is the largest |u|.
func logSoftmaxAt(logits []float32, token int, invT float32) (logp, size float64) {
	top := math.Inf(-1)
	for _, z := range logits {
		top = max(top, float64(z))
	}
	sum := 0.0
	for _, z := range logits {
		sum += math.Exp((float64(z) - top) * float64(invT))
	}
	d := (float64(logits[token]) - top) * float64(invT)
	return d - math.Log(sum), math.Abs(d) + math.Abs(top*float64(invT))
}

// TestSampleLogProb holds the sampler to the trainer: the bits of LogProb for the same rows, and not those of the batch.
func TestSampleLogProb(t *testing.T) {
	const R, D = 7, 40
	for _, V := range []int{28, 1024, 2050} {
		for _, dtype := range kerneltest.DTypes {
			for _, invT := range []float32{1, 0.7, 1 / float32(0.6)} {
				t.Run(fmt.Sprint(V, dtype, invT), func(t *testing.T) {
					r := kerneltest.Rand(t)
					x := newOperand(dtype, kerneltest.Normal(r, R*D, 1), R, D)
					w := newOperand(dtype, kerneltest.Normal(r, V*D, 0.5), V, D)
					params := make([]kernels.SampleParams, R)
					for i := range params {
						params[i] = randomParams(r, V)
						params[i].InvT, params[i].Greedy = invT, 0
					}
					kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
						x, w, logits := x.on(d, dtype), w.on(d, dtype), d.Tensor(kernels.F32, R, V)
						kernels.Linear(d.Q, logits, x, w)
						tokens, sampled := sample(d, logits, params)
						logp, lse := d.Tensor(kernels.F32, R), d.Tensor(kernels.F32, R)
						kernels.LogProb(d.Q, logp, kernels.Tensor{}, lse, x, w, d.PutI32(tokens, R), invT, d.Tensor(kernels.F32, R, kernels.LogProbParts(V), 4))
						kerneltest.Same(t, "sampled", sampled, d.Get(logp))
						for i := range params {
							alone := d.Tensor(kernels.F32, 1, V)
							kernels.Linear(d.Q, alone, x.Rows(i, i+1), w)
							token, lp := sample(d, alone, params[i:i+1])
							if token[0] != tokens[i] {
								t.Errorf("row %d alone: token %d, want %d", i, token[0], tokens[i])
							}
							kerneltest.Same(t, "alone", lp, sampled[i:i+1])
						}
						return kerneltest.Results{"logp": sampled}
					})
				})
			}
		}
	}
}

// TestSampleSupport has the cases of filters that bug reports ask for: exactly these tokens are drawn.
func TestSampleSupport(t *testing.T) {
	half := []float32{-0.693147, -1.203973, -1.609438} // 0.5, 0.3, 0.2
	with := func(f func(*kernels.SampleParams)) kernels.SampleParams {
		s := plain(7, 0)
		f(&s)
		return s
	}
	for _, c := range []struct {
		name   string
		logits []float32
		s      kernels.SampleParams
		want   []int
	}{
		{"no filter", half, plain(1, 0), []int{0, 1, 2}},
		{"top-k 2", half, with(func(s *kernels.SampleParams) { s.TopK = 2 }), []int{0, 1}},
		{"top-k over the vocabulary", half, with(func(s *kernels.SampleParams) { s.TopK = 50 }), []int{0, 1, 2}},
		{"top-k -1", half, with(func(s *kernels.SampleParams) { s.TopK = -1 }), []int{0, 1, 2}},
		{"top-p 0.5, exactly the first", half, with(func(s *kernels.SampleParams) { s.TopP = 0.5 }), []int{0}},
		{"top-p 0.51", half, with(func(s *kernels.SampleParams) { s.TopP = 0.51 }), []int{0, 1}},
		{"top-p 0.8, exactly two", half, with(func(s *kernels.SampleParams) { s.TopP = 0.8 }), []int{0, 1}},
		{"top-p 0", half, with(func(s *kernels.SampleParams) { s.TopP = 0 }), []int{0}},
		{"top-p under 0", half, with(func(s *kernels.SampleParams) { s.TopP = -1 }), []int{0}},
		{"top-p 0.6 of ten equal", make([]float32, 10), with(func(s *kernels.SampleParams) { s.TopP = 0.6 }), []int{0, 1, 2, 3, 4, 5}},
		{"min-p 0.5", half, with(func(s *kernels.SampleParams) { s.MinP = 0.5 }), []int{0, 1}},
		{"min-p 0.6, exactly the second", half, with(func(s *kernels.SampleParams) { s.MinP = 0.6 }), []int{0, 1}},
		{"min-p 1", half, with(func(s *kernels.SampleParams) { s.MinP = 1 }), []int{0}},
		{"min-p over 1", half, with(func(s *kernels.SampleParams) { s.MinP = 2 }), []int{0}},
		{"min-p 1 keeps equals", []float32{3, 1, 3}, with(func(s *kernels.SampleParams) { s.MinP = 1 }), []int{0, 2}},
		{"temperature before min-p", half, with(func(s *kernels.SampleParams) { s.InvT, s.MinP = 0.5, 0.7 }), []int{0, 1}},
		{
			"top-p of what top-k left", []float32{-0.916291, -1.203973, -1.609438, -2.302585},
			with(func(s *kernels.SampleParams) { s.TopK, s.TopP = 2, 0.5 }), []int{0},
		},
		{"top-k 1 of equals", []float32{5, 5, 1}, with(func(s *kernels.SampleParams) { s.TopK = 1 }), []int{0}},
		{"top-k 1 of zeros of both signs", []float32{-1, float32(math.Copysign(0, -1)), 0}, with(func(s *kernels.SampleParams) { s.TopK = 1 }), []int{1}},
		{"top-k of equals", []float32{1, 5, 5, 5}, with(func(s *kernels.SampleParams) { s.TopK = 2 }), []int{1, 2}},
		{"top-k 1 at a temperature that makes equals", []float32{1, 1.0000001}, with(func(s *kernels.SampleParams) { s.InvT, s.TopK = 1e-38, 1 }), []int{1}},
		{"greedy of equals", []float32{1, 5, 5}, with(func(s *kernels.SampleParams) { s.Greedy = 1 }), []int{1}},
		{"greedy has no temperature", []float32{1, 5}, with(func(s *kernels.SampleParams) { s.Greedy, s.InvT = 1, 0 }), []int{1}},
		{"greedy with -Inf", []float32{-inf, -7, -inf}, with(func(s *kernels.SampleParams) { s.Greedy = 1 }), []int{1}},
		{"tiny temperature", []float32{2, 1, -inf}, with(func(s *kernels.SampleParams) { s.InvT = 1e8 }), []int{0}},
		{"tiny temperature, filters", []float32{2, 1, -inf, 2}, with(func(s *kernels.SampleParams) { s.InvT, s.TopK, s.TopP, s.MinP = 1e8, 3, 0.99, 0.1 }), []int{0, 3}},
		{"large", []float32{1e30, 1e30, -1e30}, plain(1, 0), []int{0, 1}},
		{"one-hot", []float32{0, 1e30, 0}, plain(1, 0), []int{1}},
		{"top-k among the impossible", []float32{0, -inf, 0, -inf}, with(func(s *kernels.SampleParams) { s.TopK = 3 }), []int{0, 2}},
		{"top-p 0.999 among the impossible", []float32{-inf, 0, -inf}, with(func(s *kernels.SampleParams) { s.TopP = 0.999 }), []int{1}},
	} {
		t.Run(c.name, func(t *testing.T) { wantSupport(t, c.logits, c.s, c.want) })
	}
}

func wantSupport(t *testing.T, logits []float32, s kernels.SampleParams, want []int) {
	t.Helper()
	const R = 200
	params := make([]kernels.SampleParams, R)
	for i := range params {
		params[i] = s
		params[i].Pos = int32(i)
	}
	tokens, logp := draws(t, repeat(logits, R), len(logits), params)
	seen := map[int]bool{}
	for i, j := range tokens {
		seen[int(j)] = true
		if math.IsNaN(float64(logp[i])) || math.IsInf(float64(logp[i]), 0) {
			t.Fatalf("token %d: logp %v", j, logp[i])
		}
	}
	var got []int
	for j := range seen {
		got = append(got, j)
	}
	if slices.Sort(got); !slices.Equal(got, want) {
		t.Errorf("%+v of %v: drew %v, want %v", s, logits, got, want)
	}
}

// TestSampleCases runs the collected cases of filters and of reported log-probs where they are at hand.
func TestSampleCases(t *testing.T) {
	b, err := os.ReadFile("../../shared/cases/cases.jsonl")
	if err != nil {
		t.Skipf("no collected cases: %v", err)
	}
	ran := 0
	for line := range bytes.Lines(b) {
		var c struct {
			ID, Kind string
			Input    struct {
				Logits      []any
				Temperature *float64
				TopK        int32    `json:"top_k"`
				TopP        *float32 `json:"top_p"`
				MinP        float32  `json:"min_p"`
			}
			Expect struct {
				Kept []int
				Raw  *float64 `json:"raw_logprob"`
			}
		}
		if json.Unmarshal(line, &c) != nil || c.Kind != "filter_support" && c.Kind != "sampled_logprob" {
			continue
		}
		ran++
		s := plain(3, 0)
		s.TopK, s.MinP = c.Input.TopK, c.Input.MinP
		if c.Input.TopP != nil {
			s.TopP = *c.Input.TopP
		}
		if T := c.Input.Temperature; T != nil && *T == 0 {
			s.Greedy = 1
		} else if T != nil {
			s.InvT = float32(1 / *T)
		}
		var logits []float32
		for _, z := range c.Input.Logits {
			f, ok := z.(float64)
			if !ok {
				f = math.Inf(-1)
			}
			logits = append(logits, float32(f))
		}
		t.Run(c.ID, func(t *testing.T) {
			if c.Expect.Raw == nil {
				wantSupport(t, logits, s, c.Expect.Kept)
				return
			}
			_, logp := draws(t, logits, len(logits), []kernels.SampleParams{s})
			kerneltest.Near(t, "logp", logp, []float64{*c.Expect.Raw}, kerneltest.Tol{Abs: 1e-5})
		})
	}
	if ran == 0 {
		t.Error("no case ran")
	}
}

// TestSampleRows has the rows that draw nothing.
func TestSampleRows(t *testing.T) {
	nan := float32(math.NaN())
	idle := plain(1, -1)
	greedy := plain(1, 5)
	greedy.Greedy = 1
	filtered := plain(1, 5)
	filtered.TopK, filtered.TopP, filtered.MinP = 1, 0.5, 0.5
	logits := []float32{nan, nan, 1, nan, 1, nan, 1, nan, inf, 1, -inf, -inf, 3e38, 3e38}
	hot := plain(1, 5)
	hot.InvT = 10
	params := []kernels.SampleParams{idle, plain(1, 5), greedy, filtered, plain(1, 5), plain(1, 5), hot}
	tokens, logp := draws(t, logits, 2, params)
	if want := []int32{-1, -1, -1, -1, -1, -1, -1}; !slices.Equal(tokens, want) {
		t.Errorf("tokens %v, want %v", tokens, want)
	}
	kerneltest.Same(t, "logp", logp, []float32{0, nan, nan, nan, nan, nan, nan})
}

// TestSampleFrequencies draws at many positions and compares the counts with the distribution by chi-square: the
// statistic has mean n-1 and deviation √(2(n-1)), and the seeds are fixed.
func TestSampleFrequencies(t *testing.T) {
	const draw = 8000
	top := func(s kernels.SampleParams) kernels.SampleParams { s.TopK, s.TopP = 20, 0.9; return s }
	d := kerneltest.CPU(t, kernels.CPUConfig{})
	for _, c := range []struct {
		name  string
		V     int
		scale float32
		s     kernels.SampleParams
	}{
		{"the demo's vocabulary", 28, 1, plain(11, 0)},
		{"filtered", 28, 1, top(plain(12, 0))},
		{"two tiles", 1040, 1, plain(13, 0)},
		{"equal", 64, 0, plain(14, 0)},
		{"cold", 28, 1, kernels.SampleParams{Seed: 15, InvT: 2, TopP: 1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(c.s.Seed, 1))
			logits := make([]float32, c.V)
			for j := range logits {
				logits[j] = c.scale * float32(r.NormFloat64())
				if j > 20 && j < c.V-30 {
					logits[j] = -inf
				}
			}
			counts := make([]int, c.V)
			const R = 500
			rows := d.Put(kernels.F32, repeat(logits, R), R, c.V)
			params := make([]kernels.SampleParams, R)
			for at := 0; at < draw; at += R {
				for i := range params {
					params[i] = c.s
					params[i].Pos = int32(at + i)
				}
				tokens, _ := sample(d, rows, params)
				for _, j := range tokens {
					counts[j]++
				}
			}
			ids := kept(logits, c.s)
			total := 0.0
			for _, j := range ids {
				total += math.Exp(float64(logits[j]) * float64(c.s.InvT))
			}
			chi, drawn := 0.0, 0
			for _, j := range ids {
				want := draw * math.Exp(float64(logits[j])*float64(c.s.InvT)) / total
				chi += (float64(counts[j]) - want) * (float64(counts[j]) - want) / want
				drawn += counts[j]
			}
			if drawn != draw {
				t.Errorf("%d of %d draws are outside the support %v", draw-drawn, draw, ids)
			}
			n := float64(len(ids) - 1)
			if most := n + 4*math.Sqrt(2*n); chi > most {
				t.Errorf("chi-square %.1f with %v degrees of freedom, want at most %.1f", chi, n, most)
			}
		})
	}
}

// TestSampleUniform says that a draw is a function of seed and position.
func TestSampleUniform(t *testing.T) {
	const V = 997
	logits := repeat(make([]float32, V), 4)
	params := []kernels.SampleParams{plain(1, 1), plain(1, 2), plain(2, 1), plain(1, 1)}
	tokens, _ := draws(t, logits, V, params)
	for i, s := range params {
		if want := int32(uniformOf(s) * V); tokens[i] != want {
			t.Errorf("row %d: token %d, want %d", i, tokens[i], want)
		}
	}
}
