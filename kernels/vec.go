package kernels

import "fmt"

// vec is the set of inner loops that the CPU bodies are written with. The sets (plain Go, AVX2, AVX-512) give the same
// bits; doc.go says which sums they form, and what a NaN's payload is nobody says. Row r of x starts at r*ldx; a slice
// that does not hold its rows is a panic.
type vec struct {
	name string

	// out[m*ldo+n] = Σ_k x[m*ldx+k]·w[n*ldw+k], for M rows of x and N rows of w.
	dotsBF16 func(out []float32, ldo int, x []uint16, ldx int, w []uint16, ldw int, M, N, K int)
	dotsF32  func(out []float32, ldo int, x []float32, ldx int, w []float32, ldw int, M, N, K int)

	// acc[m*ldc+n] += Σ_k a[m*lda+k]·b[k*ldb+n], as a chain from the accumulator's value on.
	chainBF16 func(acc []float32, ldc int, a []uint16, lda int, b []uint16, ldb int, M, N, K int)
	chainF32  func(acc []float32, ldc int, a []float32, lda int, b []float32, ldb int, M, N, K int)

	// p[j] = exp2(fma(s[j], c, b)) and sum[j%16] += p[j], j ascending. p may be s.
	exp2Sum func(p, s []float32, c, b float32, sum *[16]float32)

	// out = (gate / (1 + exp2(-log2e·gate)))·up. out may be gate or up.
	silu func(out, gate, up []float32)

	// With s = 1 / (1 + exp2(-log2e·gate)): dup = dout·(gate·s) and dgate = (dout·up)·(s·fma(gate, 1-s, 1)). The outputs
	// may be the inputs.
	siluBackward func(dgate, dup, dout, gate, up []float32)

	unpack func(dst []float32, src []uint16)    // exact
	pack   func(dst []uint16, src []float32)    // BF16Of
	scale  func(out, x, w []float32, r float32) // (x·r)·w; out may be x

	split   func(w, low []uint16, x []float32)           // SplitMaster
	join    func(x []float32, w, low []uint16)           // JoinMaster; exact
	halve   func(dst []uint16, src []float32, r float32) // src·r as float16, to nearest even
	unhalve func(dst []float32, src []uint16, r float32) // src·r

	// One step of torch.optim.AdamW: d = g·scale; m = m + rest1·(d-m); v = v·beta2 + (rest2·d)·d;
	// w = w·decay - (step·m) / (√v/bias2 + eps).
	adamW func(w, m, v, g []float32, c *adamWCoeffs)
}

// adamWCoeffs is what AdamW's body takes, rounded to float32 from float64: every operation on them rounds to float32.
type adamWCoeffs struct {
	scale float32 // of the gradient
	decay float32 // 1 - lr·weight decay
	rest1 float32 // 1 - beta1
	beta2 float32
	rest2 float32 // 1 - beta2
	bias2 float32 // √(1 - beta2^step)
	eps   float32
	step  float32 // lr / (1 - beta1^step)
}

// chooseVec is the named set, or the fastest one that gives the plain body's bits on this processor.
func chooseVec(name string) (*vec, error) {
	for _, v := range vecs() {
		if name == "" || name == v.name {
			if err := v.check(); err != nil {
				if name != "" {
					return nil, fmt.Errorf("cpu: %s loops: %w", name, err)
				}
				continue
			}
			return v, nil
		}
	}
	return nil, fmt.Errorf("cpu: no %q loops on this processor; there are %v", name, Vecs())
}

// Vecs names the sets of inner loops that this processor can run, fastest first.
func Vecs() []string {
	var names []string
	for _, v := range vecs() {
		names = append(names, v.name)
	}
	return names
}
