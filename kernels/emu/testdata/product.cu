// A matrix product for the emulator's own tests: y = x·wᵀ with every instruction that our product kernels use (cp.async
// in stages, ldmatrix with a swizzle, mma), and faults to switch on.
//
// A block computes 64×64 outputs with 4 warps, each 32×32, in tiles of 32 values of k.
#include "kernel.cuh"

struct ProductArgs {
	float* y;      // (T, N)
	const bf16* x; // (T, K)
	const bf16* w; // (N, K)
	int T, N, K, pad;
};

const int TILE = 64, DEPTH = 32, STAGES = 3;
const int TILE_BYTES = TILE * DEPTH * 2;

// Row r of a tile has 4 units of 16 bytes; unit u lies where no two of 8 rows share banks.
DEVICE int unit(int r, int u) { return (r / 2 * 8 + ((r % 2 * 4 + u) ^ (r / 2 % 8))) * 16; }
DEVICE int unit_read(int r, int u) { return PLANT(product_swizzle_read) ? (r * 4 + u) * 16 : unit(r, u); }

DEVICE void load(char* tile, const bf16* m, int first, int rows, int k, int K) {
	for (int i = threadIdx.x; i < TILE * DEPTH / 8; i += 128) {
		int r = i / 4, u = i % 4;
		int row = first + r, at = k + u * 8;
		int bytes = row < rows ? min(max(K - at, 0), 8) * 2 : 0;
		if (PLANT(product_ragged_rows)) bytes = row <= rows ? min(max(K - at, 0), 8) * 2 : 0;
		if (PLANT(product_ragged_depth)) bytes = row < rows ? 16 : 0;
		const bf16* from = bytes ? m + (i64)row * K + at : m;
		if (PLANT(product_misaligned) && bytes == 16) from++;
		cp_async16(tile + unit(r, u) + (PLANT(product_shared_end) ? TILE_BYTES : 0), from, bytes);
	}
}

KERNEL(product, ProductArgs, a, 128, 2) {
	SHARED(s);
	int row = blockIdx.x * TILE, column = blockIdx.y * TILE;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int wr = warp / 2 * 32, wc = warp % 2 * 32;
	int steps = blocks(a.K, DEPTH);
	float c[2][4][4];
	if (!PLANT(product_accumulator))
		for (auto& i : c)
			for (auto& j : i)
				for (float& x : j) x = 0;
	auto tile_x = [&](int stage) { return s + stage % STAGES * 2 * TILE_BYTES; };
	auto tile_w = [&](int stage) { return tile_x(stage) + TILE_BYTES; };
	auto fetch = [&](int step) {
		if (step < steps) {
			load(tile_x(step), a.x, row, a.T, step * DEPTH, a.K);
			load(tile_w(step), a.w, column, a.N, step * DEPTH, a.K);
		}
		cp_async_commit();
	};
	for (int i = 0; i < STAGES - 1; i++) fetch(i);
	for (int step = 0; step < steps; step++) {
		if (PLANT(product_wait)) cp_async_wait<STAGES - 1>();
		else cp_async_wait<STAGES - 2>();
		if (PLANT(product_divergent)) {
			if (threadIdx.x != 5) sync_block();
		} else if (PLANT(product_barrier_count)) {
			bar_sync(0, warp == 1 ? 96 : 128);
		} else if (PLANT(product_barrier_few)) {
			bar_sync(1 + warp / 2, 64);
		} else if (!PLANT(product_barrier)) {
			sync_block();
		}
		if (PLANT(product_stage)) fetch(step + STAGES);
		else fetch(step + STAGES - 1);
		for (int k = 0; k < DEPTH / 16; k++) {
			u32 x[2][4], w[4];
			for (int i = 0; i < 2; i++) {
				int r = wr + 16 * i + lane % 16, u = 2 * k + lane / 16;
				if (PLANT(product_lanes_a)) r = wr + 16 * i + lane / 2 % 16;
				ldmatrix_x4(x[i], tile_x(step) + unit_read(r, u));
			}
			for (int j = 0; j < 4; j += 2) {
				int r = wc + 8 * j + lane / 16 * 8 + lane % 8, u = 2 * k + lane / 8 % 2;
				if (PLANT(product_lanes_b)) u = 2 * k + lane / 16;
				ldmatrix_x4(w, tile_w(step) + unit_read(r, u));
				mma_bf16_columns(c, j, x, w);
			}
		}
	}
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < 4; j++)
			for (int h = 0; h < 4; h++) {
				int r = row + wr + 16 * i + lane / 4 + h / 2 * 8, n = column + wc + 8 * j + lane % 4 * 2 + h % 2;
				if (PLANT(product_lanes_c)) n = column + wc + 8 * j + lane % 4 + h % 2 * 4;
				if (r < a.T && n < a.N) a.y[(i64)r * a.N + n] = c[i][j][h];
			}
}
