package kernels_test

import (
	"fmt"
	"testing"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// TestSampleCUDA compares draws under random filters and lists with the CPU's, which are held to float64. A draw within
// rounding of a boundary may go either way: none of the many here usually is.
func TestSampleCUDA(t *testing.T) {
	for _, V := range []int{1, 2, 28, 127, 128, 129, 1000, 4097, 151936} {
		t.Run(fmt.Sprint(V), func(t *testing.T) {
			r := kerneltest.Rand(t)
			R := min(100, max(2, 1<<15/V))
			var logits []float32
			var params []kernels.SampleParams
			var edits []kernels.Edit
			var allowed []int32
			for range R {
				c := changedRow{logits: kerneltest.Normal(r, V, 1), s: randomParams(r, V)}
				shape(r, c.logits)
				if r.IntN(2) == 0 {
					randomLists(r, &c)
				}
				c.s.FirstEdit, c.s.Edits = int32(len(edits)), int32(len(c.edits))
				c.s.FirstAllowed, c.s.Allowed = int32(len(allowed)), int32(len(c.allowed))
				c.s.Top = int32(r.IntN(6))
				logits, params = append(logits, c.logits...), append(params, c.s)
				edits, allowed = append(edits, c.edits...), append(allowed, c.allowed...)
			}
			idle := r.IntN(R)
			params[idle].Pos = -1
			cpu := kerneltest.CPU(t, kernels.CPUConfig{Workers: 1})
			run := func(d *kerneltest.Device) (tokens, ids []int32, logp, top []float32) {
				z := d.Put(kernels.F32, logits, R, V)
				tokens, logp = sampleLists(d, z, params, edits, allowed)
				ids, top = topLogProbs(d, z, params, 5)
				return tokens, ids, logp, top
			}
			tokens, ids, logp, top := run(cpu)
			for _, d := range kerneltest.GPU(t) {
				gotTokens, gotIDs, gotLogp, gotTop := run(d)
				other := 0
				for i := range tokens {
					if gotTokens[i] != tokens[i] {
						other++
						t.Logf("row %d, %+v: token %d, the CPU's is %d", i, params[i], gotTokens[i], tokens[i])
						gotLogp[i] = logp[i]
					}
				}
				if other > 1 {
					t.Errorf("%d of %d tokens are not the CPU's", other, R)
				}
				// u is exact; the sums have other orders.
				tol := kerneltest.Tol{Abs: 0x1p-24 * 200, Rel: 0x1p-22}
				kerneltest.Near(t, "logp", gotLogp, kerneltest.F64(logp), tol)
				kerneltest.Near(t, "top log-probs", gotTop, kerneltest.F64(top), tol)
				for i := range ids {
					if gotIDs[i] != ids[i] {
						t.Fatalf("top %d of row %d is %d, want %d", i%5, i/5, gotIDs[i], ids[i])
					}
				}
			}
		})
	}
}
