// A matrix product for the emulator's own tests, in Hopper's form: y = x·wᵀ, one warp that copies boxes of 64 values of k
// (TMA) and a warpgroup that multiplies (wgmma), in three stages, with faults to switch on.
//
// A block computes 64×128 outputs. Barriers: full[stage] says that its bytes are there, empty[stage] that they were used.
#include "kernel.cuh"

// Forms of operands that the shipped kernels do not use: the emulator has all of them.
enum Swizzle { SWIZZLE_NONE = 0, SWIZZLE_128 = 1, SWIZZLE_64 = 2, SWIZZLE_32 = 3 };

DEVICE u64 matrix(const void* p, int leading, int stride, Swizzle swizzle) {
	return (u64)(shared_address(p) >> 4 & 0x3fff) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | (u64)swizzle << 62;
}

template <bool across_a = false, bool across_b = false>
DEVICE void wgmma_n128(float (&c)[64], u64 a, u64 b, bool add) { emu::wgmma(c, nullptr, a, b, 128, add, across_a, across_b); }
DEVICE void wgmma_n128(float (&c)[64], const u32 (&a)[4], u64 b, bool add) { emu::wgmma(c, a, 0, b, 128, add, false, false); }

enum { SHARED_BOTH, A_REGISTERS, W_ACROSS, A_STORED };

struct HopperArgs {
	float* y;             // (T, N)
	const TensorMap* map; // of x (T, K): boxes of 64 rows; of w (N, K), or (K, N) if across: boxes of 128 rows, or of 64
	const bf16* x;        // (T, K)
	int T, N, K, form;
};

const int DEPTH = 64, STAGES = 3;
const int X_BYTES = 64 * DEPTH * 2, W_BYTES = 128 * DEPTH * 2, STAGE = X_BYTES + W_BYTES;

// The place of unit u of row r of a box of 128 bytes a row under its swizzle.
DEVICE int unit(int r, int u) { return r * 128 + (u ^ r % 8) * 16; }

struct Ring {
	char* s;
	u64* full;
	u64* empty;

	DEVICE char* x(int step) { return s + step % STAGES * STAGE; }
	DEVICE char* w(int step) { return x(step) + X_BYTES; }
};

DEVICE void produce(const HopperArgs& a, Ring r, int steps) {
	for (int i = 0; i < steps; i++) {
		int stage = i % STAGES;
		if (!PLANT(hopper_empty)) mbarrier_wait(&r.empty[stage], i / STAGES % 2 ^ 1);
		int bytes = (a.form == A_STORED ? 0 : X_BYTES) + W_BYTES;
		mbarrier_expect_tx(&r.full[stage], PLANT(hopper_expect) ? bytes / 2 : bytes);
		if (a.form != A_STORED) tma_load_2d(r.x(i), a.map, &r.full[stage], i * DEPTH, blockIdx.x * 64);
		if (a.form == W_ACROSS) {
			tma_load_2d(r.w(i), a.map + 1, &r.full[stage], blockIdx.y * 128, i * DEPTH);
			tma_load_2d(r.w(i) + W_BYTES / 2, a.map + 1, &r.full[stage], blockIdx.y * 128 + 64, i * DEPTH);
		} else {
			tma_load_2d(r.w(i), a.map + 1, &r.full[stage], i * DEPTH, blockIdx.y * 128);
		}
	}
}

// The consumers write x themselves, where a box would have put it.
DEVICE void store_x(const HopperArgs& a, char* to, int step) {
	for (int i = threadIdx.x; i < 64 * 8; i += 128) {
		int r = i / 8, u = i % 8, row = blockIdx.x * 64 + r;
		for (int k = 0; k < 8; k++) {
			int at = step * DEPTH + u * 8 + k;
			((bf16*)(to + unit(r, u)))[k] = row < a.T && at < a.K ? a.x[(i64)row * a.K + at] : bf16{0};
		}
	}
	if (!PLANT(hopper_proxy)) fence_proxy_async();
	bar_sync(1, 128);
}

DEVICE void consume(const HopperArgs& a, Ring r, int steps, float (&c)[64]) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (int i = 0; i < steps; i++) {
		int stage = i % STAGES;
		if (!PLANT(hopper_full)) mbarrier_wait(&r.full[stage], i / STAGES % 2 ^ PLANT(hopper_parity));
		if (a.form == A_STORED) store_x(a, r.x(i), i);
		Swizzle swizzle = PLANT(hopper_swizzle) ? SWIZZLE_64 : SWIZZLE_128;
		u64 x = matrix(r.x(i), 0, PLANT(hopper_stride) ? 512 : 1024, swizzle), w = matrix(r.w(i), W_BYTES / 2, 1024, SWIZZLE_128);
		u32 from_x[4][4];
		if (a.form == A_REGISTERS)
			for (int k = 0; k < 4; k++) ldmatrix_x4(from_x[k], r.x(i) + unit(warp * 16 + lane % 16, 2 * k + lane / 16));
		if (a.form == A_REGISTERS) wgmma_registers(from_x);
		if (!PLANT(hopper_fence)) wgmma_fence();
		if (PLANT(hopper_registers)) from_x[3][0] ^= 0x8000;
		for (int k = 0; k < 4; k++) {
			if (a.form == A_REGISTERS) wgmma_n128(c, from_x[k], w + 2 * k, true);
			else if (a.form == W_ACROSS) wgmma_n128<false, true>(c, x + 2 * k, w + 128 * k, true);
			else wgmma_n128(c, x + 2 * k, w + 2 * k, true);
		}
		if (!PLANT(hopper_commit)) wgmma_commit();
		if (PLANT(hopper_release)) mbarrier_arrive(&r.empty[stage]);
		if (PLANT(hopper_wait)) wgmma_wait<1>();
		else wgmma_wait<0>();
		if (!PLANT(hopper_release)) mbarrier_arrive(&r.empty[stage]);
	}
}

KERNEL(hopper, HopperArgs, a, 256, 2) {
	SHARED(s);
	u64* bars = (u64*)(s + STAGES * STAGE);
	Ring r = {s, bars, bars + STAGES};
	int steps = blocks(a.K, DEPTH);
	if (threadIdx.x == 0 && !PLANT(hopper_init)) {
		for (int i = 0; i < STAGES; i++) {
			mbarrier_init(&r.full[i], 1);
			mbarrier_init(&r.empty[i], PLANT(hopper_arrivals) ? 64 : 128);
		}
		fence_mbarrier_init();
	}
	if (!PLANT(hopper_barrier)) sync_block();
	if (threadIdx.x >= 128) {
		if (PLANT(hopper_pool)) setmaxnreg_dec<32>();
		else setmaxnreg_dec<24>();
		if (threadIdx.x == 128) produce(a, r, steps);
		return;
	}
	setmaxnreg_inc<232>();
	float c[64];
	if (!PLANT(hopper_accumulator))
		for (float& x : c) x = 0;
	consume(a, r, steps, c);
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (int j = 0; j < 16; j++)
		for (int h = 0; h < 4; h++) {
			int row = blockIdx.x * 64 + warp * 16 + lane / 4 + h / 2 * 8, n = blockIdx.y * 128 + 8 * j + lane % 4 * 2 + h % 2;
			if (row < a.T && n < a.N) a.y[(i64)row * a.N + n] = c[4 * j + h];
		}
}

struct DescriptorsArgs {
	u64* y;  // (3)
};

// What the shipped kernels tell of a matrix at `start`, a multiple of 1,024, and start itself.
KERNEL(descriptors, DescriptorsArgs, a, 32, 1) {
	SHARED(s);
	if (threadIdx.x > 0) return;
	a.y[0] = shared_address(s + 2048), a.y[1] = wgmma_matrix(s + 2048), a.y[2] = wgmma_matrix_down(s + 2048, 8192);
}
