// The product of gemm.cuh in Hopper's form, c (M, N) += a·b: boxes come by TMA, sums are a warpgroup's (wgmma), and producer and
// consumers are different warps. Operands lie with k along their rows or, transposed, with k down their columns, which wgmma
// takes either way. Each sum is the same chain over k in groups of 16, so the bits are those of gemm.cuh; k beyond the edge is
// zeros, up to a multiple of 64 in both.
//
// A block has a tile of 128×256 at a time and goes through tiles in turns; the producer runs ahead, over the end of a tile as
// well. Warpgroup 0 asks for boxes, 1 and 2 have 64 rows of c each: 128 sums a thread. A box has 64 values of k, 128 bytes: those
// of all of an operand's rows in the tile, or, with k down, 64 lines of 64 columns, box behind box.
#pragma once

#include "tile.cuh"

// AT: a is (K, M), else (M, K). BT: b is (K, N), else (N, K).
template <bool AT, bool BT>
struct GemmSM90 {
	static constexpr int BM = 128, BN = 256, BK = 64, STAGES = 4, THREADS = 384;
	static constexpr int STRETCH = 64 * BK * 2;  // 64 rows or columns of an operand
	static constexpr int A_BYTES = BM / 64 * STRETCH, STAGE = A_BYTES + BN / 64 * STRETCH, SHARED_BYTES = 1024 + STAGES * STAGE;

	char* stages;
	u64 *full, *empty;  // (STAGES): what is there, and what all eight consumer warps have read

	DEVICE GemmSM90(char* shared) : stages(shared + 1024), full((u64*)shared), empty(full + STAGES) {
		if (threadIdx.x == 0) {
			for (int s = 0; s < STAGES; s++) mbarrier_init(&full[s], 1), mbarrier_init(&empty[s], 8);
			fence_mbarrier_init();
		}
		sync_block();  // the barriers are made
	}

	DEVICE static int group() { return threadIdx.x / 128; }

	// Goes through all tiles of c, whose chains start from 0: finish(row, col, c) has the first row and column of a consumer's
	// part of a tile.
	template <class Finish>
	DEVICE void run(const TensorMap* a, const TensorMap* b, int M, int N, int K, Finish finish) {
		work<false>(a, b, M, N, K, [](int, int, float (&)[32][4]) {}, finish);
	}

	// The same for chains that start from what begin(row, col, c) puts into c.
	template <class Begin, class Finish>
	DEVICE void run(const TensorMap* a, const TensorMap* b, int M, int N, int K, Begin begin, Finish finish) {
		work<true>(a, b, M, N, K, begin, finish);
	}

	template <bool BEGUN, class Begin, class Finish>
	DEVICE void work(const TensorMap* a, const TensorMap* b, int M, int N, int K, Begin begin, Finish finish) {
		int steps = blocks(K, BK), tiles = blocks(M, BM) * blocks(N, BN);
		if (group() == 0) {
			setmaxnreg_dec<40>();
			if (threadIdx.x == 0) produce(a, b, M, N, steps, tiles);
		} else {
			setmaxnreg_inc<232>();
			consume<BEGUN>(M, N, steps, tiles, begin, finish);
		}
	}

	DEVICE void produce(const TensorMap* a, const TensorMap* b, int M, int N, int steps, int tiles) {
		int i = 0;  // stages so far
		for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
			int m, n;
			tile_at(tile, M, N, BM, BN, m, n);
			for (int k = 0; k < steps; k++, i++) {
				int s = i % STAGES;
				if (i >= STAGES) mbarrier_wait(&empty[s], (i / STAGES - 1) & 1);
				mbarrier_expect_tx(&full[s], STAGE);
				fetch<AT, BM>(stages + s * STAGE, a, &full[s], m, k * BK);
				fetch<BT, BN>(stages + s * STAGE + A_BYTES, b, &full[s], n, k * BK);
			}
		}
	}

	// SIZE rows from `at` on, or columns if DOWN, with the step's values of k.
	template <bool DOWN, int SIZE>
	DEVICE static void fetch(char* to, const TensorMap* map, u64* full, int at, int k) {
#pragma unroll
		for (int i = 0; i < (DOWN ? SIZE / 64 : 1); i++) tma_load_2d(to + i * STRETCH, map, full, DOWN ? at + 64 * i : k, DOWN ? k : at);
	}

	template <bool DOWN>
	DEVICE static u64 matrix(const char* at) {
		if (!DOWN) return wgmma_matrix(at);
		if (PLANT(gemm_sm90_strides)) return wgmma_descriptor(at, 1024, STRETCH);
		return wgmma_matrix_down(at, STRETCH);
	}

	template <bool BEGUN, class Begin, class Finish>
	DEVICE void consume(int M, int N, int steps, int tiles, Begin begin, Finish finish) {
		constexpr int NEXT_A = AT ? 128 : 2, NEXT_B = BT ? 128 : 2;  // 16 further along k
		int i = 0, first = (group() - 1) * 64;
		for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
			int m, n;
			tile_at(tile, M, N, BM, BN, m, n);
			float c[BN / 8][4];
			if (!PLANT(gemm_sm90_begin)) begin(m + first, n, c);
			wgmma_registers(c);
			for (int k = 0; k < steps; k++, i++) {
				int s = i % STAGES;
				mbarrier_wait(&full[s], i / STAGES & 1);
				u64 a = matrix<AT>(stages + s * STAGE + first * BK * 2), b = matrix<BT>(stages + s * STAGE + A_BYTES);
				wgmma_fence();
#pragma unroll
				for (int j = 0; j < BK / 16; j++) multiply(c, a + j * NEXT_A, b + j * NEXT_B, BEGUN || k + j > 0);
				wgmma_commit();
				// The stage before is read when only this one's products are under way.
				wgmma_wait<1>();
				if (k > 0 && threadIdx.x % 32 == 0) mbarrier_arrive(&empty[(i - 1) % STAGES]);
			}
			wgmma_wait<0>();
			wgmma_registers(c);
			if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[(i - 1) % STAGES]);
			finish(m + first, n, c);
		}
	}

	DEVICE static void multiply(float (&c)[32][4], u64 a, u64 b, bool add) {
		if (PLANT(gemm_sm90_down_a)) wgmma_m64n256k16<false, BT>(c, a, b, add);
		else if (PLANT(gemm_sm90_down_b)) wgmma_m64n256k16<AT, false>(c, a, b, add);
		else wgmma_m64n256k16<AT, BT>(c, a, b, add);
	}

	// f(row, col, c0, c1) for every pair of neighbours that c (M, N), N even, has of a consumer's part from (row, col) on.
	template <class F>
	DEVICE static void pairs(int row, int col, int M, int N, float (&c)[32][4], F f) {
		int lane = threadIdx.x % 32;
		row += threadIdx.x % 128 / 32 * 16 + lane / 4, col += lane % 4 * 2;
#pragma unroll
		for (int h = 0; h < 2; h++)
#pragma unroll
			for (int j = 0; j < 32; j++)
				if (row + 8 * h < M && col + 8 * j < N) f(row + 8 * h, col + 8 * j, c[j][2 * h], c[j][2 * h + 1]);
	}

	// c is what `at` (M, N), N even and at a multiple of 8 bytes, has there; 0 beyond its edge.
	DEVICE static void load(const float* at, int row, int col, int M, int N, float (&c)[32][4]) {
#pragma unroll
		for (int j = 0; j < BN / 8; j++)
#pragma unroll
			for (int e = 0; e < 4; e++) c[j][e] = 0;
		pairs(row, col, M, N, c, [&](int r, int n, float& c0, float& c1) {
			float2 pair = *(const float2*)(at + (i64)r * N + n);
			c0 = pair.x, c1 = pair.y;
		});
	}

	DEVICE static void store(bf16* at, int row, int col, int M, int N, float (&c)[32][4]) {
		pairs(row, col, M, N, c, [&](int r, int n, float c0, float c1) { *(u32*)(at + (i64)r * N + n) = cvt_bf16x2(c1, c0); });
	}

	DEVICE static void store(float* at, int row, int col, int M, int N, float (&c)[32][4]) {
		pairs(row, col, M, N, c, [&](int r, int n, float c0, float c1) { *(float2*)(at + (i64)r * N + n) = make_float2(c0, c1); });
	}
};
