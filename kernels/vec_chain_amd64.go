package kernels

import "unsafe"

const (
	chainBlock = 256 // k that are walked at a time: 16 columns of b then stay in the first-level cache
	chainRows  = 64  // rows of a that meet them
	chainCols  = 16  // columns of a tile, or a multiple for few rows
	chainPack  = 12  // from so many rows on it pays to copy b and a
)

func chain[T uint16 | float32](l loops, acc []float32, ldc int, a []T, lda int, b []T, ldb int, M, N, K int) {
	if M <= 0 || N <= 0 || K <= 0 {
		return
	}
	covers("chain", "acc", len(acc), ldc, M, N)
	covers("chain", "a", len(a), lda, M, K)
	covers("chain", "b", len(b), ldb, K, N)
	size := int(unsafe.Sizeof(a[0]))
	c := chainArgs{l, unsafe.Pointer(&acc[0]), 4 * ldc, unsafe.Pointer(&a[0]), size * lda, unsafe.Pointer(&b[0]), size * ldb}
	block := chainBlock
	if l == f32AVX512 || l == bf16AVX512 {
		block /= 2 // 32 columns as float32 take as much room
	}
	for k, n := 0, 0; k < K; k += n {
		n = min(block, K-k)
		if n > 1 {
			n &^= 1 // an odd last k of BF16 comes alone and meets a zero
		}
		for m := 0; m < M; m += chainRows {
			d := c.rows(m)
			d.a, d.b = unsafe.Add(d.a, k*size), unsafe.Add(c.b, k*c.ldb)
			d.block(min(chainRows, M-m), N, n)
		}
	}
}

// chainArgs is where the operands lie; strides are in bytes.
type chainArgs struct {
	loops
	acc unsafe.Pointer
	ldc int
	a   unsafe.Pointer
	lda int
	b   unsafe.Pointer
	ldb int
}

// cols is c from column n on.
func (c *chainArgs) cols(n int) chainArgs {
	d := *c
	d.acc, d.b = unsafe.Add(c.acc, 4*n), unsafe.Add(c.b, n*c.size())
	return d
}

func (c *chainArgs) block(M, N, K int) {
	whole := N &^ (chainCols - 1)
	switch {
	case c.size() == 2 && K == 1:
		c.lone(M, whole)
	case M >= chainPack && c.avx512():
		c.panels(M, N, K)
		return
	case M >= chainPack && whole > 0:
		c.panels(M, whole, K)
	case whole > 0:
		c.direct(M, whole, K)
	}
	if whole < N {
		d := c.cols(whole)
		d.edge(M, N-whole, K)
	}
}

// lone does the last k of BF16 if their number is odd, as it often is for the keys of an attention, on copies that end
// in zeros.
func (c *chainArgs) lone(M, N int) {
	const width = 4 * chainCols
	var a [chainRows][2]uint16
	var b [2][width]uint16
	for m := range M {
		a[m][0] = *(*uint16)(unsafe.Add(c.a, m*c.lda))
	}
	for n := 0; n < N; n += width {
		d := c.cols(n)
		cols := min(width, N-n)
		copy(b[0][:cols], unsafe.Slice((*uint16)(d.b), cols))
		d.a, d.lda, d.b, d.ldb = unsafe.Pointer(&a), 4, unsafe.Pointer(&b), 2*width
		d.direct(M, cols, 1)
	}
}

// edge does columns that fill no tile, on copies with zeros around them.
func (c *chainArgs) edge(M, N, K int) {
	var b [chainBlock * chainCols]float32
	var acc [chainRows * chainCols]float32
	var a [chainRows][2]uint16
	size := c.size()
	for n := 0; n < N; n += chainCols {
		d := c.cols(n)
		cols := min(chainCols, N-n)
		for k := range K {
			copy(unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(&b[0]), k*chainCols*size)), cols*size),
				unsafe.Slice((*byte)(unsafe.Add(d.b, k*d.ldb)), cols*size))
		}
		for m := range M {
			copy(acc[m*chainCols:][:cols], unsafe.Slice((*float32)(unsafe.Add(d.acc, m*d.ldc)), cols))
		}
		e := chainArgs{c.loops, unsafe.Pointer(&acc[0]), 4 * chainCols, c.a, c.lda, unsafe.Pointer(&b[0]), size * chainCols}
		if size == 2 && K == 1 {
			for m := range M {
				a[m][0] = *(*uint16)(unsafe.Add(c.a, m*c.lda))
			}
			e.a, e.lda = unsafe.Pointer(&a[0]), 4
		}
		e.direct(M, chainCols, K)
		for m := range M {
			copy(unsafe.Slice((*float32)(unsafe.Add(d.acc, m*d.ldc)), cols), acc[m*chainCols:])
		}
	}
}

// heights cuts M rows into tall tiles and at most two lower ones, none so low that it waits for its own sums if M allows.
func heights(M, tall int) (n, h1, h2 int) {
	n, h1 = M/tall, M%tall
	if n > 0 && h1 > 0 && h1 < 4 {
		n--
		h1, h2 = (tall+h1+1)/2, (tall+h1)/2
	}
	return n, h1, h2
}

// rows is c from row m on.
func (c *chainArgs) rows(m int) chainArgs {
	d := *c
	d.acc, d.a = unsafe.Add(c.acc, m*c.ldc), unsafe.Add(c.a, m*c.lda)
	return d
}

// direct reads b where it is; the fewer rows, the more columns does a tile have.
func (c *chainArgs) direct(M, N, K int) {
	talls, h1, h2 := heights(M, 6)
	for i := range talls {
		c.across(6*i, 6, 1, N, K)
	}
	m := 6 * talls
	for _, h := range [2]int{h1, h2} {
		switch {
		case h > 3:
			c.across(m, h, 1, N, K)
		case h == 3:
			c.across(m, 2, 2, N, K)
			c.across(m+2, 1, 4, N, K)
		case h == 2:
			c.across(m, 2, 2, N, K)
		case h == 1:
			c.across(m, 1, 4, N, K)
		}
		m += h
	}
}

// across does h rows of N columns from row m on, in tiles of 16·units and, for what is left, of 16.
func (c *chainArgs) across(m, h, units, N, K int) {
	d := c.rows(m)
	d.tile(h, units, N/(chainCols*units), K)
	if left := N % (chainCols * units); left > 0 {
		d = d.cols(N - left)
		d.tile(h, 1, left/chainCols, K)
	}
}

// tile does h rows of 16·units columns, tiles times to the right. It is AVX2 in every set: few rows wait for memory.
func (c *chainArgs) tile(h, units, tiles, K int) {
	if tiles == 0 {
		return
	}
	if c.size() == 2 {
		c.tileBF16(h, units, tiles, (K+1)/2)
	} else {
		c.tileF32(h, units, tiles, K)
	}
}

func (c *chainArgs) tileBF16(h, units, tiles, steps int) {
	acc, a, b := (*float32)(c.acc), (*byte)(c.a), (*byte)(c.b)
	switch [2]int{h, units} {
	case [2]int{6, 1}:
		chainBF16Tile6x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{5, 1}:
		chainBF16Tile5x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{4, 1}:
		chainBF16Tile4x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{3, 1}:
		chainBF16Tile3x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{2, 1}:
		chainBF16Tile2x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{1, 1}:
		chainBF16Tile1x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{2, 2}:
		chainBF16Tile2x32AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{1, 4}:
		chainBF16Tile1x64AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	}
}

func (c *chainArgs) tileF32(h, units, tiles, steps int) {
	acc, a, b := (*float32)(c.acc), (*byte)(c.a), (*byte)(c.b)
	switch [2]int{h, units} {
	case [2]int{6, 1}:
		chainF32Tile6x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{5, 1}:
		chainF32Tile5x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{4, 1}:
		chainF32Tile4x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{3, 1}:
		chainF32Tile3x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{2, 1}:
		chainF32Tile2x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{1, 1}:
		chainF32Tile1x16AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{2, 2}:
		chainF32Tile2x32AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	case [2]int{1, 4}:
		chainF32Tile1x64AVX2(acc, c.ldc, a, c.lda, b, c.ldb, tiles, steps)
	}
}

func (c *chainArgs) panels(M, N, K int) {
	acc, a, b := (*float32)(c.acc), (*byte)(c.a), (*byte)(c.b)
	tall := 6
	if c.avx512() {
		tall = 8
	}
	n, h1, h2 := heights(M, tall)
	switch c.loops {
	case f32AVX2:
		chainF32PanelsAVX2(acc, c.ldc, a, c.lda, b, c.ldb, n, h1, h2, N/chainCols, K)
	case bf16AVX2:
		chainBF16PanelsAVX2(acc, c.ldc, a, c.lda, b, c.ldb, n, h1, h2, N/chainCols, K)
	case f32AVX512:
		chainF32PanelsAVX512(acc, c.ldc, a, c.lda, b, c.ldb, n, h1, h2, N, K)
	case bf16AVX512:
		chainBF16PanelsAVX512(acc, c.ldc, a, c.lda, b, c.ldb, n, h1, h2, N, K)
	case bf16DotAVX512:
		chainBF16DotPanelsAVX512(acc, c.ldc, a, c.lda, b, c.ldb, n, h1, h2, N, K)
	}
}
