// A block's tile of a matrix product c (M, N) += a·b, over k ascending in groups of 16: the chain of doc.go. Operands are
// bfloat16, either with k along its rows or with k down its columns (transposed), so that forward, dx and dw are one body.
// Tiles arrive by cp.async in a ring of STAGES; a warp has WM×WN of c in registers. What lies beyond an operand's edge is
// zero.
#pragma once

#include "kernel.cuh"

// A matrix as it lies in memory: element (r, c) at r·ld + c.
struct Matrix {
	const bf16* at;
	int rows, cols, ld;
};

// Where 16-byte chunk `chunk` of a row lies in a tile whose rows have CHUNKS of them, 8 or more: eight rows of one column of
// chunks are in different banks, which is what ldmatrix reads at a time.
template <int CHUNKS>
DEVICE int swizzled(int row, int chunk) {
	static_assert(CHUNKS >= 8, "a row is shorter than the 32 banks");
	return (row * CHUNKS + (chunk ^ (row & 7))) * 16;
}

// A Loader brings ROWS×COLS tiles of a matrix to shared memory, one behind the other in direction of k: down the rows if
// DOWN, else along them. A thread has one column of chunks and every STEP-th row.
template <int ROWS, int COLS, int THREADS, bool DOWN>
struct Loader {
	static constexpr int CHUNKS = COLS / 8, STEP = THREADS / CHUNKS, N = ROWS / STEP, BYTES = ROWS * COLS * 2;
	static_assert(THREADS % CHUNKS == 0 && ROWS % STEP == 0, "the threads do not divide the tile");

	const bf16* any;  // an address for copies of nothing
	const bf16* at;   // of the thread's first chunk in the next tile
	int rows, cols;  // left of the matrix from there on
	int ld, row, chunk;
	bool whole;  // chunks are aligned

	// The first tile begins at (r, c).
	DEVICE Loader(Matrix m, int r, int c) {
		row = threadIdx.x / CHUNKS;
		chunk = threadIdx.x % CHUNKS;
		any = m.at;
		at = m.at + (i64)(r + row) * m.ld + c + 8 * chunk;
		rows = m.rows - r - row;
		cols = m.cols - c - 8 * chunk;
		ld = m.ld;
		whole = m.ld % 8 == 0 && (u64)m.at % 16 == 0;
	}

	DEVICE void next(char* tile) {
#pragma unroll
		for (int i = 0; i < N; i++) {
			char* dst = tile + swizzled<CHUNKS>(row + i * STEP, chunk);
			const bf16* src = at + (i64)i * STEP * ld;
			int n = i * STEP < rows ? max(0, min(8, cols)) : 0;
			if (whole)
				cp_async16(dst, n > 0 ? src : any, 2 * n);
			else
				by_element(dst, src, n);
		}
		at += DOWN ? (i64)ROWS * ld : COLS;
		if (DOWN)
			rows -= ROWS;
		else
			cols -= COLS;
	}

	DEVICE void by_element(char* dst, const bf16* src, int n) {
		u32 pair[4];
		for (int i = 0; i < 4; i++) {
			u32 lo = 2 * i < n ? src[2 * i].bits : 0, hi = 2 * i + 1 < n ? src[2 * i + 1].bits : 0;
			pair[i] = lo | hi << 16;
		}
		*(uint4*)dst = make_uint4(pair[0], pair[1], pair[2], pair[3]);
	}
};

template <int BM, int BN, int BK, int WM, int WN, int STAGES, bool AT, bool BT>
struct Gemm {
	static constexpr int WARPS_N = BN / WN, THREADS = BM / WM * WARPS_N * 32;
	typedef Loader<AT ? BK : BM, AT ? BM : BK, THREADS, AT> LoadA;
	typedef Loader<BT ? BK : BN, BT ? BN : BK, THREADS, BT> LoadB;
	static constexpr int STAGE = LoadA::BYTES + LoadB::BYTES, SHARED_BYTES = STAGES * STAGE;
	static_assert(WM % 16 == 0 && WN % 16 == 0 && BK % 16 == 0, "ldmatrix takes 16 by 16");

	float c[WM / 16][WN / 8][4];  // fragments as mma_bf16 has them

	// The warp's first row and column in the block's tile.
	DEVICE static int warp_row() { return threadIdx.x / 32 / WARPS_N * WM; }
	DEVICE static int warp_col() { return threadIdx.x / 32 % WARPS_N * WN; }

	DEVICE void zero() {
#pragma unroll
		for (int i = 0; i < WM / 16; i++)
#pragma unroll
			for (int j = 0; j < WN / 8; j++)
#pragma unroll
				for (int e = 0; e < 4; e++) c[i][j][e] = 0;
	}

	// f(row, col, c0, c1) for every pair of neighbouring outputs, relative to the block's tile; col is even.
	template <class F>
	DEVICE void pairs(F f) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
		for (int i = 0; i < WM / 16; i++)
#pragma unroll
			for (int h = 0; h < 2; h++)
#pragma unroll
				for (int j = 0; j < WN / 8; j++) f(warp_row() + 16 * i + 8 * h + g, warp_col() + 8 * j + 2 * q, c[i][j][2 * h], c[i][j][2 * h + 1]);
	}

	// c += a·b for the tile at (m, n); a is (M, K), or (K, M) if AT; b is (N, K), or (K, N) if BT. All threads call it, and
	// shared memory is free when it returns.
	DEVICE void add(char* shared, Matrix a, Matrix b, int m, int n, int K) {
		LoadA load_a(a, AT ? 0 : m, AT ? m : 0);
		LoadB load_b(b, BT ? 0 : n, BT ? n : 0);
		int steps = blocks(K, BK);
#pragma unroll
		for (int s = 0; s < STAGES - 1; s++) {
			if (s < steps) fetch(load_a, load_b, shared + s * STAGE);
			cp_async_commit();
		}
		for (int s = 0; s < steps; s++) {
			cp_async_wait<STAGES - 2>();
			sync_block();  // stage s is there for all, and nobody reads the stage before it any more
			if (s + STAGES - 1 < steps) fetch(load_a, load_b, shared + (s + STAGES - 1) % STAGES * STAGE);
			cp_async_commit();
			multiply(shared + s % STAGES * STAGE);
		}
		sync_block();
	}

	DEVICE static void fetch(LoadA& a, LoadB& b, char* stage) {
		a.next(stage);
		b.next(stage + LoadA::BYTES);
	}

	DEVICE void multiply(const char* stage) {
		const char *ta = stage, *tb = stage + LoadA::BYTES;
#pragma unroll
		for (int k = 0; k < BK; k += 16) {
			u32 a[WM / 16][4];
#pragma unroll
			for (int i = 0; i < WM / 16; i++) fragment_a(a[i], ta, warp_row() + 16 * i, k);
#pragma unroll
			for (int j = 0; j < WN / 16; j++) {
				u32 b[4];
				fragment_b(b, tb, warp_col() + 16 * j, k);
#pragma unroll
				for (int i = 0; i < WM / 16; i++) {
					mma_bf16(c[i][2 * j], a[i], b[0], b[1]);
					mma_bf16(c[i][2 * j + 1], a[i], b[2], b[3]);
				}
			}
		}
	}

	// The four 8×8 matrices of a 16×16 part of a: rows 0 and 8 at k, then at k+8.
	DEVICE static void fragment_a(u32 (&r)[4], const char* tile, int row, int k) {
		int l = threadIdx.x % 32;
		if (AT)
			ldmatrix_x4_trans(r, tile + swizzled<LoadA::CHUNKS>(k + (l & 7) + (l >> 4) * 8, row / 8 + (l >> 3 & 1)));
		else
			ldmatrix_x4(r, tile + swizzled<LoadA::CHUNKS>(row + (l & 15), k / 8 + (l >> 4)));
	}

	// Those of a 16×16 part of b: columns 0 at k and k+8, then columns 8.
	DEVICE static void fragment_b(u32 (&r)[4], const char* tile, int col, int k) {
		int l = threadIdx.x % 32;
		if (BT)
			ldmatrix_x4_trans(r, tile + swizzled<LoadB::CHUNKS>(k + (l & 7) + (l >> 3 & 1) * 8, col / 8 + (l >> 4)));
		else
			ldmatrix_x4(r, tile + swizzled<LoadB::CHUNKS>(col + (l & 7) + (l >> 4) * 8, k / 8 + (l >> 3 & 1)));
	}
};

// The tile of a block. Blocks of 8 rows of tiles go together, so that what runs at once shares its operands in the L2 cache.
DEVICE void tile_of_block(int M, int N, int BM, int BN, int& m, int& n) {
	const int group = 8;
	int rows = blocks(M, BM), cols = blocks(N, BN);
	int id = blockIdx.x, g = id / (group * cols), first = g * group, height = min(group, rows - first);
	id -= g * group * cols;
	m = (first + id % height) * BM;
	n = id / height * BN;
}

// Two neighbouring elements, the second only if `both`. An even address takes them in one access.
DEVICE void put_pair(float* at, float x0, float x1, bool both) {
	if (both && (u64)at % 8 == 0) {
		*(float2*)at = make_float2(x0, x1);
		return;
	}
	at[0] = x0;
	if (both) at[1] = x1;
}

DEVICE void put_pair(bf16* at, float x0, float x1, bool both) {
	u32 pair = cvt_bf16x2(x1, x0);
	if (both && (u64)at % 4 == 0) {
		*(u32*)at = pair;
		return;
	}
	at[0].bits = (u16)pair;
	if (both) at[1].bits = (u16)(pair >> 16);
}

DEVICE void get_pair(const float* at, float& x0, float& x1, bool both) {
	if (both && (u64)at % 8 == 0) {
		float2 pair = *(const float2*)at;
		x0 = pair.x, x1 = pair.y;
		return;
	}
	x0 = at[0];
	if (both) x1 = at[1];
}
