// Sums of rows for the emulator's own tests: vectors from the device's memory, shuffles, shared memory between warps, and
// faults to switch on.
#include "kernel.cuh"

struct RowsArgs {
	float* y;       // (T)
	const float* x; // (T, K), rows `stride` apart; K a multiple of 4
	i64 stride;
	int T, K, stride32, pad;
};

struct alignas(16) Four {
	float v[4];
};

DEVICE const float* row(const RowsArgs& a, int t) {
	if (PLANT(rows_index32)) return a.x + t * a.stride32;
	return a.x + t * a.stride;
}

DEVICE float sum_row(const RowsArgs& a, const float* x) {
	float sum = 0;
	int end = PLANT(rows_past_end) ? a.K + 4 : a.K;
	for (int k = 4 * threadIdx.x; k < end; k += 4 * 128) {
		const Four v = *(const Four*)(x + k + (PLANT(rows_misaligned) ? 1 : 0) - (PLANT(rows_before) ? 4 : 0));
		for (float f : v.v) sum += f;
	}
	return sum;
}

DEVICE float sum_lanes(float x) {
	int lane = threadIdx.x % 32;
	if (PLANT(rows_lane_returns) && lane == 7) return x;
	if (PLANT(rows_mixed) && lane >= 16) return vote_ballot(x > 0);
	for (int d = 16; d > 0; d /= 2) x += shfl_xor(x, d);
	return x;
}

KERNEL(rows, RowsArgs, a, 128, 1) {
	SHARED(s);
	float* part = (float*)s; // of each warp, then what lanes pass on
	int t = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	float x = sum_lanes(sum_row(a, row(a, t)));
	if (PLANT(rows_lane_returns) && lane == 7) return;
	if (lane == 0 && !(PLANT(rows_uninitialised) && warp == 3)) part[PLANT(rows_shared_end) ? warp + 61 : warp] = x;
	if (PLANT(rows_other_barrier)) bar_sync(1 + warp % 2, 128);
	else if (PLANT(rows_divergent)) bar_sync(lane < 16 ? 1 : 2, 128);
	else if (PLANT(rows_warp_returns) && warp == 2) return;
	else if (!PLANT(rows_barrier)) sync_block();
	float sum = 0;
	for (int w = 0; w < 4; w++) sum += part[w];
	if (!PLANT(rows_second_barrier)) sync_block();
	// Lane 31 writes what lane 0 reads: only a syncwarp orders that.
	if (lane == 31) part[warp] = sum;
	if (!PLANT(rows_syncwarp)) syncwarp();
	if (lane != 0) return;
	sum = part[warp];
	if (warp == 0) a.y[PLANT(rows_two_blocks) ? t / 2 : t] = sum;
	if (PLANT(rows_neighbour) && warp == 0 && t > 0) a.y[t] += a.y[t - 1];
	if (PLANT(rows_write_end) && warp == 0) a.y[t + 1] = sum;
	if (PLANT(rows_host) && warp == 0) *(float*)(u64)a.K = sum;
}
