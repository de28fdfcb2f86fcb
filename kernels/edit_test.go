package kernels_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// sampleLists is Sample on one device.
func sampleLists(d *kerneltest.Device, logits kernels.Tensor, params []kernels.SampleParams, edits []kernels.Edit, allowed []int32) (tokens []int32, logp []float32) {
	R := len(params)
	p, tok, lp := d.Tensor(kernels.U8, R, kernels.SampleParamsBytes), d.Tensor(kernels.I32, R), d.Tensor(kernels.F32, R)
	d.PutBytes(p, bytesOf(params))
	var e, a kernels.Tensor
	if len(edits) > 0 {
		e = d.Tensor(kernels.U8, len(edits), kernels.EditBytes)
		d.PutBytes(e, bytesOf(edits))
	}
	if len(allowed) > 0 {
		a = d.PutI32(allowed, len(allowed))
	}
	kernels.Sample(d.Q, tok, lp, logits, p, e, a)
	return d.GetI32(tok), d.Get(lp)
}

func bytesOf(v any) []byte {
	var b bytes.Buffer
	if err := binary.Write(&b, binary.LittleEndian, v); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// A changedRow is a row with its own lists.
type changedRow struct {
	logits  []float32
	s       kernels.SampleParams
	edits   []kernels.Edit
	allowed []int32
}

// changed is what the row is drawn from, by definition.
func (c *changedRow) changed() []float32 {
	z := slices.Clone(c.logits)
	if len(c.allowed) > 0 {
		for j := range z {
			if !slices.Contains(c.allowed, int32(j)) {
				z[j] = -inf
			}
		}
	}
	for _, e := range c.edits {
		z[e.ID] = e.Apply(z[e.ID], &c.s)
	}
	return z
}

// drawChanged draws all rows in one call on every device, and each alone, which must be the same.
func drawChanged(t *testing.T, rows []changedRow) (tokens []int32, logp []float32) {
	t.Helper()
	V := len(rows[0].logits)
	var logits []float32
	var params []kernels.SampleParams
	edits, allowed := []kernels.Edit{{ID: -1}}, []int32{-1} // so that no list starts at 0
	for _, c := range rows {
		c.s.FirstEdit, c.s.Edits = int32(len(edits)), int32(len(c.edits))
		c.s.FirstAllowed, c.s.Allowed = int32(len(allowed)), int32(len(c.allowed))
		logits, params = append(logits, c.logits...), append(params, c.s)
		edits, allowed = append(edits, c.edits...), append(allowed, c.allowed...)
	}
	got := kerneltest.Agree(t, func(d *kerneltest.Device) kerneltest.Results {
		x := d.Put(kernels.F32, logits, len(rows), V)
		tok, lp := sampleLists(d, x, params, edits, allowed)
		for i := range min(len(rows), 4) {
			alone, one := sampleLists(d, x.Rows(i, i+1), params[i:i+1], edits, allowed)
			if alone[0] != tok[i] {
				t.Errorf("row %d alone: token %d, want %d", i, alone[0], tok[i])
			}
			kerneltest.Same(t, "alone", one, lp[i:i+1])
		}
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

// randomLists gives a row edits and allowed tokens, at the ends of tiles as well.
func randomLists(r *rand.Rand, c *changedRow) {
	V := len(c.logits)
	some := func(n int) []int32 {
		ids := []int32{0, int32(V - 1), int32(min(V-1, 1023)), int32(min(V-1, 1024))}
		for range n {
			ids = append(ids, int32(r.IntN(V)))
		}
		slices.Sort(ids)
		return slices.Compact(ids)
	}
	if r.IntN(4) > 0 {
		c.s.Repetition, c.s.Presence, c.s.Frequency = 0.5+r.Float32(), r.Float32()-0.3, r.Float32()-0.3
		for _, id := range some(r.IntN(60)) {
			c.edits = append(c.edits, kernels.Edit{ID: id, Count: int32(r.IntN(6) - 1), Bias: float32(r.IntN(3)) * float32(r.NormFloat64())})
		}
	}
	if r.IntN(3) == 0 {
		c.allowed = some(r.IntN(2 * V))
	}
}

// TestSampleEdits compares draws from rows with lists and filters with the definition in float64. The log-probs are
// those of the logits as they were, bit for bit.
func TestSampleEdits(t *testing.T) {
	for _, V := range []int{1, 2, 28, 1024, 1025, 4097} {
		t.Run(fmt.Sprint(V), func(t *testing.T) {
			r := kerneltest.Rand(t)
			rows := make([]changedRow, min(200, 1<<17/V))
			for i := range rows {
				rows[i] = changedRow{logits: kerneltest.Normal(r, V, 1), s: randomParams(r, V)}
				randomLists(r, &rows[i])
			}
			tokens, logp := drawChanged(t, rows)
			near := 0
			d := kerneltest.CPU(t, kernels.CPUConfig{})
			for i, c := range rows {
				z := c.changed()
				want, margin := cdf(z, kept(z, c.s), c.s.InvT, uniformOf(c.s))
				if int(tokens[i]) != want {
					if margin > 1e-5 {
						t.Errorf("row %d, %+v: token %d, want %d (u is %g from the boundary)", i, c.s, tokens[i], want, margin)
					}
					near++
				}
				// A row that only this token may follow has its log-prob, without lists.
				only := c.s
				only.TopK, only.TopP, only.MinP = 0, 1, 0
				token, lp := sampleLists(d, d.Put(kernels.F32, c.logits, 1, V), []kernels.SampleParams{withAllowed(only)}, nil, tokens[i:i+1])
				if token[0] != tokens[i] {
					t.Errorf("row %d: only token %d is allowed, got %d", i, tokens[i], token[0])
				}
				kerneltest.Same(t, fmt.Sprintf("logp of row %d", i), logp[i:i+1], lp)
			}
			if near > 1+len(rows)/50 {
				t.Errorf("%d of %d draws differ from float64", near, len(rows))
			}
		})
	}
}

func withAllowed(s kernels.SampleParams) kernels.SampleParams {
	s.FirstAllowed, s.Allowed = 0, 1
	return s
}

// TestEditApply has the definition's corners, among them those that bug reports ask for.
func TestEditApply(t *testing.T) {
	for _, c := range []struct {
		name    string
		e       kernels.Edit
		z, want float32
	}{
		{"a positive logit is divided", kernels.Edit{}, 2, 1},
		{"a negative one multiplied", kernels.Edit{}, -2, -4},
		{"zero stays", kernels.Edit{}, 0, 0},
		{"an impossible token stays so", kernels.Edit{Count: 3}, -inf, -inf},
		{"bias alone", kernels.Edit{Count: -1, Bias: 1.5}, 2, 3.5},
		{"bias first", kernels.Edit{Bias: -3}, 2, -2},
		{"banned", kernels.Edit{Count: -1, Bias: -inf}, 2, -inf},
		{"once", kernels.Edit{Count: 1}, 2, 1 - 0.25 - 0.5},
		{"three times: repetition and presence do not add up", kernels.Edit{Count: 3}, 2, 1 - 0.75 - 0.5},
	} {
		s := kernels.SampleParams{Repetition: 2, Frequency: 0.25, Presence: 0.5}
		if got := c.e.Apply(c.z, &s); got != c.want {
			t.Errorf("%s: %v of %v gives %v, want %v", c.name, c.e, c.z, got, c.want)
		}
	}
}

// TestSampleNothingLeft tells rows that have no distribution from those of which the lists leave none.
func TestSampleNothingLeft(t *testing.T) {
	ban := kernels.Edit{ID: 1, Count: -1, Bias: -inf}
	s := plain(1, 0)
	greedy := s
	greedy.Greedy = 1
	tokens, logp := drawChanged(t, []changedRow{
		{logits: []float32{0, 1, -inf}, s: s, edits: []kernels.Edit{ban}},
		{logits: []float32{0, 1, -inf}, s: s, edits: []kernels.Edit{ban}, allowed: []int32{1, 2}},
		{logits: []float32{0, 1, -inf}, s: greedy, allowed: []int32{2}},
		{logits: []float32{0, float32(math.NaN()), 0}, s: s, edits: []kernels.Edit{ban}},
		{logits: []float32{-inf, -inf, -inf}, s: s, allowed: []int32{1}},
	})
	if want := []int32{0, -1, -1, -1, -1}; !slices.Equal(tokens, want) {
		t.Errorf("tokens %v, want %v", tokens, want)
	}
	nan := float32(math.NaN())
	kerneltest.Same(t, "logp", logp[1:], []float32{-inf, -inf, nan, nan})
}

// TestSampleEditsTransformers holds draws and log-probs to transformers' processors.
func TestSampleEditsTransformers(t *testing.T) {
	var g struct {
		Cases []struct {
			Name                            string
			Logits                          []float32
			Before, Sampled, Allowed        []int32
			Repetition, Presence, Frequency float32
			Bias                            []struct {
				ID   int32
				Bias float32
			}
			Temperature float64
			Probs, Logp []float64
		}
	}
	kerneltest.Golden(t, "testdata/edit.json", &g)
	for _, c := range g.Cases {
		t.Run(c.Name, func(t *testing.T) {
			s := kernels.SampleParams{
				Seed: 3, InvT: float32(1 / c.Temperature), TopP: 1,
				Repetition: c.Repetition, Presence: c.Presence, Frequency: c.Frequency,
			}
			edits := make(map[int32]kernels.Edit)
			for _, b := range c.Bias {
				edits[b.ID] = kernels.Edit{ID: b.ID, Count: -1, Bias: b.Bias}
			}
			for i, id := range append(slices.Clone(c.Before), c.Sampled...) {
				e, known := edits[id]
				if !known {
					e = kernels.Edit{ID: id, Count: -1}
				}
				e.Count = max(0, e.Count)
				if i >= len(c.Before) {
					e.Count++
				}
				edits[id] = e
			}
			var list []kernels.Edit
			for id := range int32(len(c.Logits)) {
				if e, changed := edits[id]; changed {
					list = append(list, e)
				}
			}
			rows := make([]changedRow, 300)
			for i := range rows {
				s.Pos = int32(i)
				rows[i] = changedRow{logits: c.Logits, s: s, edits: list, allowed: c.Allowed}
			}
			tokens, logp := drawChanged(t, rows)
			for i, j := range tokens {
				kerneltest.Near(t, "logp", logp[i:i+1], []float64{c.Logp[j]}, goldenTol)
				u, sum := uniformOf(rows[i].s), 0.0
				for _, p := range c.Probs[:j] {
					sum += p
				}
				if u < sum-1e-5 || u > sum+c.Probs[j]+1e-5 {
					t.Errorf("draw %d at u = %g: token %d, which has %g to %g", i, u, j, sum, sum+c.Probs[j])
				}
			}
		})
	}
}

// TestSampleLikelihoodIsOfTheWhole has case e30: what is reported is the sampled token's log-prob before the filters.
func TestSampleLikelihoodIsOfTheWhole(t *testing.T) {
	s := plain(1, 0)
	s.TopK = 1
	tokens, logp := draws(t, []float32{-0.693147, -1.203973, -1.609438}, 3, []kernels.SampleParams{s})
	if tokens[0] != 0 {
		t.Errorf("token %d, want 0", tokens[0])
	}
	kerneltest.Near(t, "logp", logp, []float64{-0.693147}, kerneltest.Tol{Abs: 1e-5})
}
