// A block's tile of a matrix product c (M, N) += a·b, over k ascending in groups of 16: the chain of doc.go. Operands are
// bfloat16, either with k along its rows or with k down its columns (transposed), so that forward, dx and dw are one body.
// Tiles arrive by cp.async in a ring of STAGES; a warp has WM×WN of c in registers. What lies beyond an operand's edge is
// zero.
#pragma once

#include "tile.cuh"

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
		if (PLANT(gemm_zero)) return;
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
			if (s + STAGES - 1 < steps) fetch(load_a, load_b, shared + (s + STAGES - (PLANT(gemm_stage) ? 0 : 1)) % STAGES * STAGE);
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
			for (int i = 0; i < WM / 16; i++) fragment_a<LoadA::CHUNKS, AT>(a[i], ta, warp_row() + 16 * i, k);
#pragma unroll
			for (int j = 0; j < WN / 16; j++) {
				u32 b[4];
				fragment_b<LoadB::CHUNKS, BT>(b, tb, warp_col() + 16 * j, k);
				mma_bf16_columns(c, 2 * j, a, b);
			}
		}
	}
};
