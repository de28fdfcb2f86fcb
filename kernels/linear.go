package kernels

import "unsafe"

// Linear is y = x·wᵀ, with the weights as they lie in a model's file. Every y is one dot, so a row does not depend on
// the batch.
//
//	y (T, N) =   x's dtype, or F32 for logits
//	x (T, K)     BF16 or F32
//	w (N, K)     x's dtype
func Linear(q Queue, y, x, w Tensor) {
	d := dims{op: "Linear"}
	d.want(x, "x", "T K", BF16, F32)
	d.want(w, "w", "N K", x.DType)
	d.want(y, "y", "T N", x.DType, F32)
	T, N, K := x.Shape[0], w.Shape[0], x.Shape[1]
	rows := linearRows(T, K, x.DType)
	cols := linearCols(rows, N, K)
	launch(q, &linearOp, blocks(T, rows)*blocks(N, cols), linearArgs{
		y: y.Ptr, x: x.Ptr, w: w.Ptr,
		T: int32(T), N: int32(N), K: int32(K), rows: int32(rows), cols: int32(cols),
		in: int32(x.DType), out: int32(y.DType),
	})
}

// LinearBackward is the gradient of Linear. Nothing is saved: it takes Linear's own inputs. dx is a chain over N, dw a
// chain over T from its value on, both ascending. dx or dw may be the zero Tensor and is then left out.
//
//	dx (T, K) =    dy's dtype
//	dw (N, K) +=   F32
//	dy (T, N)      BF16 or F32
//	x  (T, K)      dy's dtype
//	w  (N, K)      dy's dtype
func LinearBackward(q Queue, dx, dw, dy, x, w Tensor) {
	d := dims{op: "LinearBackward"}
	d.want(dy, "dy", "T N", BF16, F32)
	d.want(x, "x", "T K", dy.DType)
	d.want(w, "w", "N K", dy.DType)
	if dx.Ptr != 0 {
		d.want(dx, "dx", "T K", dy.DType)
		linearDX(q, dx, Tensor{}, dy, w.Shape[0], w, true)
	}
	if dw.Ptr != 0 {
		d.want(dw, "dw", "N K", F32)
		linearDW(q, dw, dy, w.Shape[0], x)
	}
}

// linearDX is dx = round(acc + dy·w). A chain over more columns than dy holds at a time keeps its accumulator in acc
// (T, K) F32: start says that it begins here, and all but the last piece have no dx. dy's rows are ld elements apart.
func linearDX(q Queue, dx, acc, dy Tensor, ld int, w Tensor, start bool) {
	T, N, K := dy.Shape[0], dy.Shape[1], w.Shape[1]
	cols := min(256, K)
	rows := linearRows(T, cols, dy.DType)
	a := linearDXArgs{
		dx: dx.Ptr, acc: acc.Ptr, dy: dy.Ptr, w: w.Ptr,
		T: int32(T), N: int32(N), K: int32(K), ld: int32(ld), rows: int32(rows), cols: int32(cols), dtype: int32(dy.DType),
	}
	if start {
		a.start = 1
	}
	launch(q, &linearDXOp, blocks(T, rows)*blocks(K, cols), a)
}

// linearDW is dw += dyᵀ·x. dy's rows are ld elements apart.
func linearDW(q Queue, dw, dy Tensor, ld int, x Tensor) {
	T, N, K := dy.Shape[0], dy.Shape[1], x.Shape[1]
	rows := min(N, 64, max(16, blocks(N, 32)*4)) // eight items or more where N allows
	launch(q, &linearDWOp, blocks(N, rows), linearDWArgs{
		dw: dw.Ptr, dy: dy.Ptr, x: x.Ptr,
		T: int32(T), N: int32(N), K: int32(K), ld: int32(ld), rows: int32(rows), dtype: int32(dy.DType),
	})
}

const (
	blockBytes = 128 << 10 // a quarter of a core's second-level cache: two operands and what passes by
	dwStep     = 256       // tokens that are transposed at a time; even, so that pairs stay pairs
)

// linearRows is how many rows of x an item takes. w is read once per item's rows, so more rows mean less traffic, as
// long as they stay in the cache; blocks of equal size mean that no last row reads all of w for itself.
func linearRows(T, K int, d DType) int {
	rows := min(64, max(16, blockBytes/(K*d.Size())))
	n := blocks(T, rows)
	return min(T, (blocks(T, n)+3)&^3)
}

// linearCols is how many rows of w an item takes: about 20 µs of work, which is a million products, or for few rows a
// quarter of a mebibyte of w. A multiple of 48 suits loops that take 4, 6 or 16 at a time.
func linearCols(rows, N, K int) int {
	return min(N, 48*max(1, blocks(1<<20/(K*max(8, rows)), 48)))
}

type linearArgs struct {
	y, x, w    Ptr
	T, N, K    int32
	rows, cols int32 // of an item's part of y
	in, out    int32 // dtypes
	_          int32
}

var linearOp = Op{Name: "linear", Size: unsafe.Sizeof(linearArgs{}), CPU: linearGo, CUDA: linearGrid}

func linearGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*linearArgs)(args)
	T, N, K := int(a.T), int(a.N), int(a.K)
	across := blocks(N, int(a.cols))
	for i := lo; i < hi; i++ {
		t, n := i/across*int(a.rows), i%across*int(a.cols)
		R, C := min(int(a.rows), T-t), min(int(a.cols), N-n)
		y := m.elems(a.y, DType(a.out), t*N+n, (R-1)*N+C)
		x, w := m.elems(a.x, DType(a.in), t*K, R*K), m.elems(a.w, DType(a.in), n*K, C*K)
		if y.f32 != nil {
			m.dots(y.f32, N, x, K, w, K, R, C, K)
			continue
		}
		keep := m.Keep()
		z := m.ScratchF32(R * C)
		m.dots(z, C, x, K, w, K, R, C, K)
		for r := range R {
			y.from(r*N).round(m, z[r*C:][:C])
		}
		m.Reset(keep)
	}
}

type linearDXArgs struct {
	dx, acc, dy, w Ptr
	T, N, K        int32
	ld             int32 // between rows of dy
	rows, cols     int32 // of an item's part of dx
	dtype          int32
	start          int32 // the chain starts from 0, not from acc
}

var linearDXOp = Op{Name: "linear_dx", Size: unsafe.Sizeof(linearDXArgs{}), CPU: linearDXGo, CUDA: linearDXGrid}

func linearDXGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*linearDXArgs)(args)
	T, N, K, ldy, d := int(a.T), int(a.N), int(a.K), int(a.ld), DType(a.dtype)
	across := blocks(K, int(a.cols))
	for i := lo; i < hi; i++ {
		keep := m.Keep()
		t, k := i/across*int(a.rows), i%across*int(a.cols)
		R, C := min(int(a.rows), T-t), min(int(a.cols), K-k)
		acc, ld := []float32(nil), K
		if a.acc != 0 {
			acc = m.F32(a.acc+Ptr(4*(t*K+k)), (R-1)*K+C)
		} else {
			acc, ld = m.ScratchF32(R*C), C
		}
		if a.start != 0 {
			for r := range R {
				clear(acc[r*ld:][:C])
			}
		}
		dy, w := m.elems(a.dy, d, t*ldy, (R-1)*ldy+N), m.elems(a.w, d, k, (N-1)*K+C)
		m.chain(acc, ld, dy, ldy, w, K, R, C, N)
		if a.dx != 0 {
			dx := m.elems(a.dx, d, t*K+k, (R-1)*K+C)
			for r := range R {
				dx.from(r*K).round(m, acc[r*ld:][:C])
			}
		}
		m.Reset(keep)
	}
}

type linearDWArgs struct {
	dw, dy, x Ptr
	T, N, K   int32
	ld        int32 // between rows of dy
	rows      int32 // of dw per item
	dtype     int32
}

var linearDWOp = Op{Name: "linear_dw", Size: unsafe.Sizeof(linearDWArgs{}), CPU: linearDWGo, CUDA: linearDWGrid}

// linearDWGo gives an item whole rows of dw, so that dy is transposed once.
func linearDWGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*linearDWArgs)(args)
	T, N, K, ld, d := int(a.T), int(a.N), int(a.K), int(a.ld), DType(a.dtype)
	dyT := m.scratchElems(d, int(a.rows)*dwStep)
	for i := lo; i < hi; i++ {
		n := i * int(a.rows)
		R := min(int(a.rows), N-n)
		dw := m.F32(a.dw+Ptr(4*n*K), R*K)
		for t := 0; t < T; t += dwStep {
			S := min(dwStep, T-t)
			dy, x := m.elems(a.dy, d, t*ld+n, (S-1)*ld+R), m.elems(a.x, d, t*K, S*K)
			if d == BF16 {
				transpose(dyT.bf16, dy.bf16, ld, S, R)
			} else {
				transpose(dyT.f32, dy.f32, ld, S, R)
			}
			m.chain(dw, K, dyT, dwStep, x, K, R, K, S)
		}
	}
}

// The tiles of linear.cu: their shared memory is that of gemm.cuh's ring.
var (
	gemm128 = gemmTile{suffix: "_128", rows: 128, cols: 128, threads: 256, shared: 3 * (128 + 128) * 64 * 2}
	gemm64  = gemmTile{suffix: "_64", rows: 64, cols: 64, threads: 128, shared: 4 * (64 + 64) * 64 * 2}
	gemm32  = gemmTile{suffix: "_32", rows: 32, cols: 32, threads: 128, shared: 4 * (32 + 32) * 128 * 2}
	gemm16  = gemmTile{suffix: "_16", rows: 16, cols: 32, threads: 64, shared: 5 * (16 + 32) * 128 * 2}
)

type gemmTile struct {
	suffix                      string
	rows, cols, threads, shared int
}

func (t gemmTile) blocks(M, N int32) int { return blocks(int(M), t.rows) * blocks(int(N), t.cols) }

func (t gemmTile) grid(name string, M, N int32) Grid {
	return Grid{Kernel: name + t.suffix, X: t.blocks(M, N), Y: 1, Threads: t.threads, Shared: t.shared}
}

// gemmSM90 is the tile of gemm_sm90.cuh. Its blocks, one for each multiprocessor, take tiles in turns.
var gemmSM90 = gemmTile{rows: 128, cols: 256, threads: 384, shared: 1024 + 4*(128+256)*64*2}

// boxed is a launch of entry `kernel`, for a product (M, N) of operands in boxes a and b. It reports false where there is no such
// form: on other cards, for small products, and if a line of an operand, or one of the matrices at `more`, whose lines are as
// long as one of b, is not at a multiple of 16 bytes. A product is small if it leaves a multiprocessor without a tile, unless
// the tiles of gemm128, half as large, are more than multiprocessors: then some of those have two, and mma.sync takes longer
// for them than wgmma for one of these.
func (t gemmTile) boxed(gpu GPU, kernel string, M, N int32, a, b Box, more ...Ptr) (Grid, bool) {
	at := a.Ptr | b.Ptr | Ptr(2*a.Line) | Ptr(2*b.Line)
	for _, p := range more {
		at |= p
	}
	small := t.blocks(M, N) < gpu.SMs && gemm128.blocks(M, N) <= gpu.SMs
	if !gpu.Hopper || small || at%16 != 0 {
		return Grid{}, false
	}
	return Grid{Kernel: kernel, X: min(t.blocks(M, N), gpu.SMs), Y: 1, Threads: t.threads, Shared: t.shared, Boxes: [2]Box{a, b}}, true
}

// alongBox is an operand (rows, k) of which a tile takes boxRows rows.
func alongBox(p Ptr, rows, k, line int32, boxRows int) Box {
	return Box{Ptr: p, Rows: int(rows), Cols: int(k), Line: int(line), BoxRows: boxRows}
}

// downBox is an operand (k, cols), of which a tile takes several boxes of 64 columns.
func downBox(p Ptr, k, cols, line int32) Box {
	return Box{Ptr: p, Rows: int(k), Cols: int(cols), Line: int(line), BoxRows: 64}
}

// gemmFor is the largest tile that gives every multiprocessor one.
func gemmFor(gpu GPU, M, N int32) gemmTile {
	if gemm128.blocks(M, N) >= gpu.SMs {
		return gemm128
	}
	return gemm64
}

func linearGrid(gpu GPU, args unsafe.Pointer) Grid {
	a := (*linearArgs)(args)
	switch {
	case DType(a.in) != BF16:
		return Grid{}
	case a.T <= 16:
		return gemm16.grid("linear", a.T, a.N)
	case a.T <= 32 && gemm64.blocks(a.T, a.N) < gpu.SMs:
		return gemm32.grid("linear", a.T, a.N)
	}
	x, w := alongBox(a.x, a.T, a.K, a.K, gemmSM90.rows), alongBox(a.w, a.N, a.K, a.K, gemmSM90.cols)
	if g, ok := gemmSM90.boxed(gpu, "linear_sm90", a.T, a.N, x, w); ok && a.N%2 == 0 && a.y%8 == 0 {
		return g
	}
	return gemmFor(gpu, a.T, a.N).grid("linear", a.T, a.N)
}

func linearDXGrid(gpu GPU, args unsafe.Pointer) Grid {
	a := (*linearDXArgs)(args)
	if DType(a.dtype) != BF16 {
		return Grid{}
	}
	dy, w := alongBox(a.dy, a.T, a.N, a.ld, gemmSM90.rows), downBox(a.w, a.N, a.K, a.K)
	if g, ok := gemmSM90.boxed(gpu, "linear_dx_sm90", a.T, a.K, dy, w, a.dx, a.acc); ok {
		return g
	}
	return gemmFor(gpu, a.T, a.K).grid("linear_dx", a.T, a.K)
}

func linearDWGrid(gpu GPU, args unsafe.Pointer) Grid {
	a := (*linearDWArgs)(args)
	if DType(a.dtype) != BF16 {
		return Grid{}
	}
	dy, x := downBox(a.dy, a.T, a.N, a.ld), downBox(a.x, a.T, a.K, a.K)
	if g, ok := gemmSM90.boxed(gpu, "linear_dw_sm90", a.N, a.K, dy, x, a.dw); ok {
		return g
	}
	return gemmFor(gpu, a.N, a.K).grid("linear_dw", a.N, a.K)
}

// transpose writes S rows of R elements of src, ld apart, as R rows of S elements of dst, dwStep apart. Four rows go
// together so that the writes, which are far apart, are few.
func transpose[E uint16 | float32](dst, src []E, ld, S, R int) {
	s := 0
	for ; s+4 <= S; s += 4 {
		r0, r1, r2, r3 := src[s*ld:][:R], src[(s+1)*ld:][:R], src[(s+2)*ld:][:R], src[(s+3)*ld:][:R]
		for r := range r0 {
			d := dst[r*dwStep+s:][:4]
			d[0], d[1], d[2], d[3] = r0[r], r1[r], r2[r], r3[r]
		}
	}
	for ; s < S; s++ {
		for r, v := range src[s*ld:][:R] {
			dst[r*dwStep+s] = v
		}
	}
}
