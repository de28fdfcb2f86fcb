// Tiles of bfloat16 in shared memory: how they lie there, how they come from global memory, and how a warp takes its
// mma fragments out of them.
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

// Eight elements to a chunk of a tile, of which n exist, without regard to alignment. Visible to others after a barrier.
DEVICE void copy_elements(char* dst, const bf16* src, int n) {
	u32 pair[4];
	for (int i = 0; i < 4; i++) {
		u32 lo = 2 * i < n ? src[2 * i].bits : 0, hi = 2 * i + 1 < n ? src[2 * i + 1].bits : 0;
		pair[i] = lo | hi << 16;
	}
	*(uint4*)dst = make_uint4(pair[0], pair[1], pair[2], pair[3]);
}

// Brings a tile of ROWS×8·CHUNKS: row r is the first `cols` elements at from(r), for r below `rows`; everything else is
// zero. `whole` says that all rows begin at multiples of 16 bytes. The copies
// belong to the thread's current group.
template <int ROWS, int CHUNKS, int THREADS, class From>
DEVICE void fetch_rows(char* tile, int rows, int cols, bool whole, From from) {
	static_assert(ROWS * CHUNKS % THREADS == 0, "the threads do not divide the tile");
#pragma unroll 2
	for (int i = threadIdx.x; i < ROWS * CHUNKS; i += THREADS) {
		int r = i / CHUNKS, c = i % CHUNKS, n = r < rows ? max(0, min(8, cols - 8 * c)) : 0;
		char* dst = tile + swizzled<CHUNKS>(r, c);
		const bf16* src = from(r) + 8 * c;
		if (whole)
			cp_async16(dst, src, 2 * n);
		else
			copy_elements(dst, src, n);
	}
}

// A Loader brings ROWS×COLS tiles of a matrix to shared memory, one behind the other in direction of k: down the rows if
// DOWN, else along them. A thread has one column of chunks and every STEP-th row.
template <int ROWS, int COLS, int THREADS, bool DOWN>
struct Loader {
	static constexpr int CHUNKS = COLS / 8, STEP = THREADS / CHUNKS, N = ROWS / STEP, BYTES = ROWS * COLS * 2;
	static_assert(THREADS % CHUNKS == 0 && ROWS % STEP == 0, "the threads do not divide the tile");

	const bf16* at;  // of the thread's first chunk in the next tile
	int rows, cols;  // left of the matrix from there on
	int ld, row, chunk;
	bool whole;  // chunks are aligned

	// The first tile begins at (r, c).
	DEVICE Loader(Matrix m, int r, int c) {
		row = threadIdx.x / CHUNKS;
		chunk = threadIdx.x % CHUNKS;
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
			int n = i * STEP < rows + PLANT(tile_rows) ? max(0, min(8, cols)) : 0;
			if (whole)
				cp_async16(dst, src, 2 * n);
			else
				copy_elements(dst, src, n);
		}
		at += DOWN ? (i64)ROWS * ld : COLS;
		if (DOWN)
			rows -= ROWS;
		else
			cols -= COLS;
	}
};

// The fragment of a 16×16 part of the left operand at (row, k): rows by row, or with k down the tile if DOWN.
template <int CHUNKS, bool DOWN>
DEVICE void fragment_a(u32 (&r)[4], const char* tile, int row, int k) {
	int l = threadIdx.x % 32;
	if (PLANT(tile_swizzle))
		ldmatrix_x4(r, tile + ((row + (l & 15)) * CHUNKS + k / 8 + (l >> 4)) * 16);
	else if (DOWN)
		ldmatrix_x4_trans(r, tile + swizzled<CHUNKS>(k + (l & 7) + (l >> 4) * 8, row / 8 + (l >> 3 & 1)));
	else
		ldmatrix_x4(r, tile + swizzled<CHUNKS>(row + (l & 15), k / 8 + (l >> 4)));
}

// The fragments of a 16×16 part of the right operand at (k, col): r[0], r[1] for columns 0 to 7, r[2], r[3] for the others.
template <int CHUNKS, bool DOWN>
DEVICE void fragment_b(u32 (&r)[4], const char* tile, int col, int k) {
	int l = threadIdx.x % 32;
	if (DOWN)
		ldmatrix_x4_trans(r, tile + swizzled<CHUNKS>(k + (l & 7) + (l >> 3 & 1) * 8, col / 8 + (l >> 4)));
	else
		ldmatrix_x4(r, tile + swizzled<CHUNKS>(col + (l & 7) + (l >> 4) * 8, k / 8 + (l >> 3 & 1)));
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

// Where tile `id` of c (M, N) begins. Tiles of 8 rows of tiles go together, so that what runs at once shares its operands in
// the L2 cache.
DEVICE void tile_at(int id, int M, int N, int BM, int BN, int& m, int& n) {
	const int group = 8;
	int rows = blocks(M, BM), cols = blocks(N, BN), g = id / (group * cols), first = g * group, height = min(group, rows - first);
	id -= g * group * cols;
	m = (first + id % height) * BM;
	n = id / height * BN;
}
