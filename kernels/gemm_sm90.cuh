// The product of gemm.cuh in Hopper's form, c = a·b with k along the rows of both: boxes come by TMA, sums are a warpgroup's
// (wgmma), and producer and consumers are different warps. Each sum is the same chain over k in groups of 16, so the bits are
// those of gemm.cuh.
//
// A block has a tile of 128×256 at a time and goes through tiles in turns; the producer runs ahead, over the end of a tile as
// well. Warpgroup 0 asks for boxes, 1 and 2 have 64 rows of c each: 128 sums a thread.
#pragma once

#include "tile.cuh"

struct GemmSM90 {
	static constexpr int BM = 128, BN = 256, BK = 64, STAGES = 4, THREADS = 384;
	static constexpr int A_BYTES = BM * BK * 2, STAGE = A_BYTES + BN * BK * 2, SHARED_BYTES = 1024 + STAGES * STAGE;

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

	// Goes through all tiles of c (M, N): finish(row, col, c) has the first row and column of a consumer's part of a tile.
	template <class Finish>
	DEVICE void run(const TensorMap* a, const TensorMap* b, int M, int N, int K, Finish finish) {
		int steps = blocks(K, BK), tiles = blocks(M, BM) * blocks(N, BN);
		if (group() == 0) {
			setmaxnreg_dec<40>();
			if (threadIdx.x == 0) produce(a, b, M, N, steps, tiles);
		} else {
			setmaxnreg_inc<232>();
			consume(M, N, steps, tiles, finish);
		}
	}

	DEVICE void produce(const TensorMap* a, const TensorMap* b, int M, int N, int steps, int tiles) {
		int i = 0;  // boxes so far
		for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
			int m, n;
			tile_at(tile, M, N, BM, BN, m, n);
			for (int k = 0; k < steps; k++, i++) {
				int s = i % STAGES;
				if (i >= STAGES && !PLANT(gemm_sm90_empty)) mbarrier_wait(&empty[s], (i / STAGES - 1) & 1);
				mbarrier_expect_tx(&full[s], STAGE);
				tma_load_2d(stages + s * STAGE, a, &full[s], k * BK, m);
				tma_load_2d(stages + s * STAGE + A_BYTES, b, &full[s], k * BK, n);
			}
		}
	}

	template <class Finish>
	DEVICE void consume(int M, int N, int steps, int tiles, Finish finish) {
		int i = 0, first = (group() - 1) * 64;
		for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
			int m, n;
			tile_at(tile, M, N, BM, BN, m, n);
			float c[BN / 8][4];
			for (int k = 0; k < steps; k++, i++) {
				int s = i % STAGES;
				if (!PLANT(gemm_sm90_full)) mbarrier_wait(&full[s], i / STAGES & 1);
				u64 a = wgmma_matrix(stages + s * STAGE + first * BK * 2), b = wgmma_matrix(stages + s * STAGE + A_BYTES);
				if (!PLANT(gemm_sm90_fence)) wgmma_fence();
#pragma unroll
				for (int j = 0; j < BK / 16; j++) wgmma_m64n256k16(c, a + 2 * j, b + 2 * j, k + j > 0);
				wgmma_commit();
				// The stage before is read when only this one's products are under way.
				wgmma_wait<1>();
				if (k > 0 && threadIdx.x % 32 == 0) mbarrier_arrive(&empty[(i - 1) % STAGES]);
			}
			if (!PLANT(gemm_sm90_wait)) wgmma_wait<0>();
			if (threadIdx.x % 32 == 0) mbarrier_arrive(&empty[(i - 1) % STAGES]);
			finish(m + first, n, c);
		}
	}
};
