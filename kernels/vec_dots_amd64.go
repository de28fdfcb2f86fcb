package kernels

import "unsafe"

// loops names the assembly for an element type.
type loops uint8

const (
	f32AVX2 loops = iota
	bf16AVX2
	f32AVX512
	bf16AVX512
	bf16DotAVX512 // by vdpbf16ps
)

// size is that of an element in bytes.
func (l loops) size() int {
	if l == f32AVX2 || l == f32AVX512 {
		return 4
	}
	return 2
}

func (l loops) avx512() bool { return l >= f32AVX512 }

// What the assembly does with the lanes of its outputs: nothing, or both, or one.
const (
	resumeLanes = 1 // start from the lanes in memory instead of zero
	spillLanes  = 2 // leave the lanes in memory instead of folding them
)

const (
	groupBytes = 64       // of a row: one step of 16 lanes (F32) or of 16 pairs (BF16)
	panelCols  = 6        // rows of w that the panel loop takes
	panelRows  = 64       // and the most rows of x
	panelMin   = 6        // rows of x for which it pays to copy those of w
	rowsBytes  = 32 << 10 // of w, that the rows of x meet in turn
	rowsChunk  = 32       // rows of w whose lanes may wait in memory
	raggedRows = 8        // and rows of x
)

func dots[T uint16 | float32](l loops, out []float32, ldo int, x []T, ldx int, w []T, ldw int, M, N, K int) {
	if M <= 0 || N <= 0 {
		return
	}
	covers("dots", "out", len(out), ldo, M, N)
	covers("dots", "x", len(x), ldx, M, K)
	covers("dots", "w", len(w), ldw, N, K)
	if K == 0 {
		for m := range M {
			clear(out[m*ldo:][:N])
		}
		return
	}
	size := int(unsafe.Sizeof(x[0]))
	a := dotsArgs{l, unsafe.Pointer(&out[0]), 4 * ldo, unsafe.Pointer(&x[0]), size * ldx, unsafe.Pointer(&w[0]), size * ldw}
	K *= size
	switch {
	case K%groupBytes != 0:
		a.ragged(M, N, K)
	case M >= panelMin && N >= panelCols:
		a.panels(M, N, K/groupBytes)
	default:
		cols := max(4, rowsBytes/K&^3)
		for n := 0; n < N; n += cols {
			a.cols(n).rows(M, min(cols, N-n), K/groupBytes, nil, 0)
		}
	}
}

// dotsArgs is where the operands lie; strides are in bytes, and so is K below.
type dotsArgs struct {
	loops
	out unsafe.Pointer
	ldo int
	x   unsafe.Pointer
	ldx int
	w   unsafe.Pointer
	ldw int
}

// below is a from row m of x on, cols from row n of w on.
func (a dotsArgs) below(m int) dotsArgs {
	a.out, a.x = unsafe.Add(a.out, m*a.ldo), unsafe.Add(a.x, m*a.ldx)
	return a
}

func (a dotsArgs) cols(n int) dotsArgs {
	a.out, a.w = unsafe.Add(a.out, 4*n), unsafe.Add(a.w, n*a.ldw)
	return a
}

func (a dotsArgs) panels(M, N, groups int) {
	tile := 2
	if a.avx512() {
		tile = 4
	}
	for m, rows := 0, 0; m < M; m += rows {
		rows = min(panelRows, (M-m)/tile*tile)
		if rows == 0 {
			m, rows = M-tile, tile // the last tile goes back over rows that are there: they get the same bits
		}
		b := a.below(m)
		for n := 0; n < N; n += panelCols {
			n = min(n, N-panelCols) // and over columns
			b.cols(n).panel(rows, groups)
		}
	}
}

// rows takes the rows of x in pairs. The lanes of a pair follow those of the one before.
func (a dotsArgs) rows(M, N, groups int, lanes *[raggedRows * rowsChunk * 16]float32, mode int) {
	for m := 0; m < M; m += 2 {
		var l *float32
		if lanes != nil {
			l = &lanes[m*rowsChunk*16]
		}
		a.below(m).pair(min(2, M-m), N, groups, l, mode)
	}
}

// ragged does rows that end in less than a group: those pieces are copied to where zeros follow them, and the lanes wait
// in memory in between.
func (a dotsArgs) ragged(M, N, K int) {
	var lanes [raggedRows * rowsChunk * 16]float32
	var x, w [rowsChunk * groupBytes]byte
	whole := K &^ (groupBytes - 1)
	for m := 0; m < M; m += raggedRows {
		rows := min(raggedRows, M-m)
		b := a.below(m)
		copyTails(&x, unsafe.Add(b.x, whole), a.ldx, rows, K-whole)
		for n := 0; n < N; n += rowsChunk {
			cols := min(rowsChunk, N-n)
			c := b.cols(n)
			mode := 0
			if whole > 0 {
				c.rows(rows, cols, whole/groupBytes, &lanes, spillLanes)
				mode = resumeLanes
			}
			copyTails(&w, unsafe.Add(c.w, whole), a.ldw, cols, K-whole)
			c.x, c.ldx, c.w, c.ldw = unsafe.Pointer(&x), groupBytes, unsafe.Pointer(&w), groupBytes
			c.rows(rows, cols, 1, &lanes, mode)
		}
	}
}

func copyTails(dst *[rowsChunk * groupBytes]byte, src unsafe.Pointer, ld, rows, bytes int) {
	for i := range rows {
		copy(dst[i*groupBytes:], unsafe.Slice((*byte)(unsafe.Add(src, i*ld)), bytes))
	}
}

func (a dotsArgs) panel(rows, groups int) {
	out, x, w := (*float32)(a.out), (*byte)(a.x), (*byte)(a.w)
	switch a.loops {
	case f32AVX2:
		dotsF32PanelAVX2(out, a.ldo, x, a.ldx, w, a.ldw, rows, groups)
	case bf16AVX2:
		dotsBF16PanelAVX2(out, a.ldo, x, a.ldx, w, a.ldw, rows, groups)
	case f32AVX512:
		dotsF32PanelAVX512(out, a.ldo, x, a.ldx, w, a.ldw, rows, groups)
	case bf16AVX512:
		dotsBF16PanelAVX512(out, a.ldo, x, a.ldx, w, a.ldw, rows, groups)
	case bf16DotAVX512:
		dotsBF16DotPanelAVX512(out, a.ldo, x, a.ldx, w, a.ldw, rows, groups)
	}
}

// pair is 1 or 2 rows of x with N of w, at most rowsChunk of them if mode is not 0.
func (a dotsArgs) pair(rows, N, groups int, lanes *float32, mode int) {
	if rows == 1 {
		a.single(N, groups, lanes, mode)
		return
	}
	out, x, w := (*float32)(a.out), (*byte)(a.x), (*byte)(a.w)
	switch a.loops {
	case f32AVX2:
		dotsF32Rows2AVX2(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	case bf16AVX2:
		dotsBF16Rows2AVX2(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	case f32AVX512:
		dotsF32Rows2AVX512(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	case bf16AVX512:
		dotsBF16Rows2AVX512(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	case bf16DotAVX512:
		dotsBF16DotRows2AVX512(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	}
}

func (a dotsArgs) single(N, groups int, lanes *float32, mode int) {
	out, x, w := (*float32)(a.out), (*byte)(a.x), (*byte)(a.w)
	switch a.loops {
	case f32AVX2:
		dotsF32Rows1AVX2(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	case bf16AVX2:
		dotsBF16Rows1AVX2(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	case f32AVX512:
		dotsF32Rows1AVX512(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	case bf16AVX512:
		dotsBF16Rows1AVX512(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	case bf16DotAVX512:
		dotsBF16DotRows1AVX512(out, a.ldo, x, a.ldx, w, a.ldw, lanes, N, groups, mode)
	}
}
