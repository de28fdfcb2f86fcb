package kernels

// elems is a run of elements of either dtype of activations, so that one body serves both; one of the two is nil.
type elems struct {
	bf16 []uint16
	f32  []float32
}

// elems is n elements of dtype d at element off of p.
func (m *Memory) elems(p Ptr, d DType, off, n int) elems {
	p += Ptr(off * d.Size())
	if d == BF16 {
		return elems{bf16: m.BF16(p, n)}
	}
	return elems{f32: m.F32(p, n)}
}

// scratchElems is n elements of the worker's own, not zeroed.
func (m *Memory) scratchElems(d DType, n int) elems {
	if d == BF16 {
		return elems{bf16: m.ScratchBF16(n)}
	}
	return elems{f32: m.ScratchF32(n)}
}

// from is the elements from i on.
func (x elems) from(i int) elems {
	if x.bf16 != nil {
		return elems{bf16: x.bf16[i:]}
	}
	return elems{f32: x.f32[i:]}
}

// copy overwrites the first elements of x with all of src.
func (x elems) copy(src elems) {
	copy(x.bf16, src.bf16)
	copy(x.f32, src.f32)
}

// zero overwrites all of x.
func (x elems) zero() {
	clear(x.bf16)
	clear(x.f32)
}

// round overwrites the first elements of x with all of src, rounded to x's dtype.
func (x elems) round(m *Memory, src []float32) {
	if x.bf16 != nil {
		m.vec.pack(x.bf16[:len(src)], src)
		return
	}
	copy(x.f32, src)
}

// dots is vec's for either dtype: out (M, N) = x (M, K)·w (N, K)ᵀ.
func (m *Memory) dots(out []float32, ldo int, x elems, ldx int, w elems, ldw int, M, N, K int) {
	if x.bf16 != nil {
		m.vec.dotsBF16(out, ldo, x.bf16, ldx, w.bf16, ldw, M, N, K)
		return
	}
	m.vec.dotsF32(out, ldo, x.f32, ldx, w.f32, ldw, M, N, K)
}

// chain is vec's for either dtype: acc (M, N) += a (M, K)·b (K, N).
func (m *Memory) chain(acc []float32, ldc int, a elems, lda int, b elems, ldb int, M, N, K int) {
	if a.bf16 != nil {
		m.vec.chainBF16(acc, ldc, a.bf16, lda, b.bf16, ldb, M, N, K)
		return
	}
	m.vec.chainF32(acc, ldc, a.f32, lda, b.f32, ldb, M, N, K)
}

// column overwrites every ld-th element of x with the first n of src.
func (x elems) column(ld int, src elems, n int) {
	if x.bf16 != nil {
		for j, v := range src.bf16[:n] {
			x.bf16[j*ld] = v
		}
		return
	}
	for j, v := range src.f32[:n] {
		x.f32[j*ld] = v
	}
}
