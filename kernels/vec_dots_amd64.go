package kernels

import "unsafe"

// dotsLoops names the assembly of one element type and instruction set.
type dotsLoops struct {
	bf16, avx512 bool
}

// What the assembly does with the lanes of its outputs: nothing, or both, or one.
const (
	resumeLanes = 1 // start from the lanes in memory instead of zero
	spillLanes  = 2 // leave the lanes in memory instead of folding them
)

const (
	groupBytes   = 64      // of a row: one step of 16 lanes (F32) or of 16 pairs (BF16)
	dotsBlock    = 2 << 10 // bytes of a row that are walked at a time: a tile of 8 such rows stays in the first-level cache
	dotsRows     = 64      // rows of x that w meets at a time: they stay in the second-level cache
	dotsSpill    = 32      // likewise where lanes wait in memory
	dotsTileCols = 6
	panelRows    = 64 // the most that the panel loop takes
	panelMin     = 8  // rows for which it pays to copy w
)

func dots[T uint16 | float32](l dotsLoops, out []float32, ldo int, x []T, ldx int, w []T, ldw int, M, N, K int) {
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
	a := dotsArgs{l, &out[0], 4 * ldo, unsafe.Pointer(&x[0]), size * ldx, unsafe.Pointer(&w[0]), size * ldw}
	ragged := size*K%groupBytes != 0
	switch {
	case M == 1 && !ragged:
		l.row(a.out, a.x, a.w, a.ldw, nil, N, size*K/groupBytes, 0)
	case !ragged && M >= panelMin && N >= dotsTileCols:
		a.panels(M, N, size*K/groupBytes)
	case ragged || size*K > dotsBlock:
		a.spilled(M, N, size*K)
	default:
		a.direct(M, N, size*K/groupBytes)
	}
}

// dotsArgs is where the operands lie; strides are in bytes.
type dotsArgs struct {
	dotsLoops
	out *float32
	ldo int
	x   unsafe.Pointer
	ldx int
	w   unsafe.Pointer
	ldw int
}

func (a *dotsArgs) at(m, n int) *float32 {
	return (*float32)(unsafe.Add(unsafe.Pointer(a.out), m*a.ldo+4*n))
}

func (a *dotsArgs) panels(M, N, groups int) {
	for m, rows := 0, 0; m < M; m += rows {
		rows = min(panelRows, (M-m)&^1)
		if rows == 0 {
			m, rows = m-1, 2 // the last two rows again, for the bits of the odd one
		}
		for n := 0; n < N; n += dotsTileCols {
			n = min(n, N-dotsTileCols) // the last tile goes back over columns that are there: they get the same bits
			a.panel(a.at(m, n), a.ldo, unsafe.Add(a.x, m*a.ldx), a.ldx, unsafe.Add(a.w, n*a.ldw), a.ldw, rows, groups)
		}
	}
}

func (a *dotsArgs) direct(M, N, groups int) {
	for m := 0; m < M; m += dotsRows {
		rows := min(dotsRows, M-m)
		if rows == 1 || N < dotsTileCols {
			for i := m; i < m+rows; i++ {
				a.row(a.at(i, 0), unsafe.Add(a.x, i*a.ldx), a.w, a.ldw, nil, N, groups, 0)
			}
			continue
		}
		for n := 0; n < N; n += dotsTileCols {
			n = min(n, N-dotsTileCols) // the last tile goes back over columns that are there: they get the same bits
			w := unsafe.Add(a.w, n*a.ldw)
			a.tile(a.at(m, n), a.ldo, unsafe.Add(a.x, m*a.ldx), a.ldx, w, a.ldw, nil, rows&^1, groups, 0)
			if rows%2 != 0 {
				i := m + rows - 2
				a.tile(a.at(i, n), a.ldo, unsafe.Add(a.x, i*a.ldx), a.ldx, w, a.ldw, nil, 2, groups, 0)
			}
		}
	}
}

// spilled walks k in blocks and keeps the lanes in memory between them. A last piece of less than a group is copied to
// where zeros follow it.
func (a *dotsArgs) spilled(M, N, K int) {
	var s dotsSpills
	for m := 0; m < M; m += dotsSpill {
		rows := min(dotsSpill, M-m)
		b := *a
		b.x, b.out = unsafe.Add(a.x, m*a.ldx), a.at(m, 0)
		s.copyTails(&s.x, b.x, a.ldx, rows, K)
		if rows == 1 || N < dotsTileCols {
			for n := 0; n < N; n += dotsSpill {
				cols := min(dotsSpill, N-n)
				w := unsafe.Add(a.w, n*a.ldw)
				s.copyTails(&s.w, w, a.ldw, cols, K)
				for i := range rows {
					b.spilledRow(&s, i, n, cols, K)
				}
			}
			continue
		}
		for n := 0; n < N; n += dotsTileCols {
			n = min(n, N-dotsTileCols)
			s.copyTails(&s.w, unsafe.Add(a.w, n*a.ldw), a.ldw, dotsTileCols, K)
			b.spilledTile(&s, 0, n, rows&^1, K)
			if rows%2 != 0 {
				b.spilledTile(&s, rows-2, n, 2, K)
			}
		}
	}
}

type dotsSpills struct {
	lanes [dotsSpill * dotsTileCols * 16]float32
	x, w  [dotsSpill * groupBytes]byte
}

func (s *dotsSpills) copyTails(dst *[dotsSpill * groupBytes]byte, src unsafe.Pointer, ld, rows, K int) {
	tail := K % groupBytes
	if tail == 0 {
		return
	}
	for i := range rows {
		copy(dst[i*groupBytes:], unsafe.Slice((*byte)(unsafe.Add(src, i*ld+K-tail)), tail))
	}
}

func (a *dotsArgs) spilledTile(s *dotsSpills, m, n, rows, K int) {
	tail := K % groupBytes
	out, x, w := a.at(m, n), unsafe.Add(a.x, m*a.ldx), unsafe.Add(a.w, n*a.ldw)
	mode := 0
	for at := 0; at < K-tail; at += dotsBlock {
		n := min(dotsBlock, K-tail-at)
		if at+n < K {
			mode |= spillLanes
		} else {
			mode &^= spillLanes
		}
		a.tile(out, a.ldo, unsafe.Add(x, at), a.ldx, unsafe.Add(w, at), a.ldw, &s.lanes[0], rows, n/groupBytes, mode)
		mode |= resumeLanes
	}
	if tail != 0 {
		a.tile(out, a.ldo, unsafe.Pointer(&s.x[m*groupBytes]), groupBytes, unsafe.Pointer(&s.w[0]), groupBytes, &s.lanes[0], rows, 1, mode&resumeLanes)
	}
}

func (a *dotsArgs) spilledRow(s *dotsSpills, m, n, cols, K int) {
	tail := K % groupBytes
	x, mode := unsafe.Add(a.x, m*a.ldx), 0
	if K > tail {
		if tail != 0 {
			mode = spillLanes
		}
		a.row(a.at(m, n), x, unsafe.Add(a.w, n*a.ldw), a.ldw, &s.lanes[0], cols, K/groupBytes, mode)
		mode = resumeLanes
	}
	if tail != 0 {
		a.row(a.at(m, n), unsafe.Pointer(&s.x[m*groupBytes]), unsafe.Pointer(&s.w[0]), groupBytes, &s.lanes[0], cols, 1, mode)
	}
}

func (l dotsLoops) tile(out *float32, ldo int, x unsafe.Pointer, ldx int, w unsafe.Pointer, ldw int, lanes *float32, rows, groups, mode int) {
	if l.bf16 {
		dotsBF16TileAVX2(out, ldo, (*byte)(x), ldx, (*byte)(w), ldw, lanes, rows, groups, mode)
	} else {
		dotsF32TileAVX2(out, ldo, (*byte)(x), ldx, (*byte)(w), ldw, lanes, rows, groups, mode)
	}
}

func (l dotsLoops) row(out *float32, x, w unsafe.Pointer, ldw int, lanes *float32, N, groups, mode int) {
	if l.bf16 {
		dotsBF16RowAVX2(out, (*byte)(x), (*byte)(w), ldw, lanes, N, groups, mode)
	} else {
		dotsF32RowAVX2(out, (*byte)(x), (*byte)(w), ldw, lanes, N, groups, mode)
	}
}

func (l dotsLoops) panel(out *float32, ldo int, x unsafe.Pointer, ldx int, w unsafe.Pointer, ldw int, rows, groups int) {
	if l.bf16 {
		dotsBF16PanelAVX2(out, ldo, (*byte)(x), ldx, (*byte)(w), ldw, rows, groups)
	} else {
		dotsF32PanelAVX2(out, ldo, (*byte)(x), ldx, (*byte)(w), ldw, rows, groups)
	}
}
