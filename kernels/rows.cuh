// What kernels share that walk rows: pieces of 16 bytes, sums over the threads of a row, and leaves.
#pragma once

#include "kernel.cuh"

// What one access of 16 bytes moves.
struct alignas(16) Octet {
	u32 pair[4];  // bfloat16 elements 2i (low half) and 2i+1
};
struct alignas(16) Quad {
	float v[4];
};

DEVICE bool aligned(const void* p) { return (u64)p % 16 == 0; }

// The n elements at p of which the first eight matter; there are zeros for those beyond n. WIDE says that p is a multiple
// of 16 bytes and n one of 8.
template <bool WIDE>
DEVICE Octet load_octet(const bf16* p, int n) {
	Octet o = {};
	if constexpr (WIDE) {
		if (n > 0) o = *(const Octet*)p;
	} else {
		for (int i = 0; i < 8; i++)
			if (i < n) o.pair[i / 2] |= (u32)p[i].bits << 16 * (i % 2);
	}
	return o;
}

template <bool WIDE>
DEVICE void store_octet(bf16* p, Octet o, int n) {
	if constexpr (WIDE) {
		if (n > 0) st_global_v4(p, o.pair[0], o.pair[1], o.pair[2], o.pair[3]);
	} else {
		for (int i = 0; i < 8; i++)
			if (i < n) p[i].bits = (u16)(o.pair[i / 2] >> 16 * (i % 2));
	}
}

// The same of eight floats.
template <bool WIDE>
DEVICE void load_floats(float (&x)[8], const float* p, int n) {
	if constexpr (WIDE) {
		Quad lo = {}, hi = {};
		if (n > 0) lo = ((const Quad*)p)[0], hi = ((const Quad*)p)[1];
		for (int i = 0; i < 4; i++) x[i] = lo.v[i], x[4 + i] = hi.v[i];
	} else {
		for (int i = 0; i < 8; i++) x[i] = i < n ? p[i] : 0;
	}
}

template <bool WIDE>
DEVICE void store_floats(float* p, const float (&x)[8], int n) {
	if constexpr (WIDE) {
		if (n <= 0) return;
		((Quad*)p)[0] = Quad{x[0], x[1], x[2], x[3]};
		((Quad*)p)[1] = Quad{x[4], x[5], x[6], x[7]};
	} else {
		for (int i = 0; i < 8; i++)
			if (i < n) p[i] = x[i];
	}
}

DEVICE float element(const Octet& o, int i) { return i % 2 ? high(o.pair[i / 2]) : low(o.pair[i / 2]); }

// Every element rounded once.
DEVICE Octet round_octet(const float (&x)[8]) {
	Octet o;
	for (int i = 0; i < 4; i++) o.pair[i] = cvt_bf16x2(x[2 * i + 1], x[2 * i]);
	return o;
}

// The sum over groups of `lanes` adjacent lanes, a power of two, in each of them: those farthest apart first.
DEVICE float sum_lanes(float x, int lanes) {
	for (int d = lanes / 2; d > 0; d /= 2) x += shfl_xor(x, d);
	return x;
}

// The sum over the threads of a block, in every thread: warps by sum_warp, then the warps as if they were lanes. partial
// is (32) in shared memory; the one of the sum before the last may be used again.
DEVICE float sum_block(float x, float* partial) {
	int warps = blockDim.x / 32, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	x = sum_warp(x);
	if (warps == 1) return x;
	if (lane == 0) partial[warp] = x;
	sync_block();
	return sum_warp(lane < warps ? partial[lane] : 0);
}

// 1/√(sum/n + eps), each step rounded once.
DEVICE float inv_root(float sum, int n, float eps) { return 1 / sqrtf(sum / (float)n + eps); }

// The factor of x in the gradient of x·r·w, where sum is Σ dout·w·x over the n elements of a row.
DEVICE float norm_factor(float r, float sum, int n) { return -(r * r * r) * (sum / (float)n); }

const int LEAF_ROWS = 16;     // whose terms of a sum over tokens are added from zero
const int LEAF_COLUMNS = 32;  // the threads of a block that adds leaves

// *dw += N leaves, ascending, one every ld floats: loads of 32 are under way while their sum waits for the one before.
DEVICE void add_leaves(float* dw, const float* leaf, i64 ld, int N) {
	const int AHEAD = 32;
	float sum = *dw;
	for (; N >= AHEAD; N -= AHEAD) {
		float x[AHEAD];
		for (int i = 0; i < AHEAD; i++) x[i] = leaf[i * ld];
		for (int i = 0; i < AHEAD; i++) sum += x[i];
		leaf += AHEAD * ld;
	}
	for (; N > 0; N--, leaf += ld) sum += *leaf;
	*dw = sum;
}

// Copies a row of bytes with all threads of a block, or clears dst if src is null. WIDE says that addresses and bytes are
// multiples of 16; else bytes is one of 2.
template <bool WIDE>
DEVICE void copy_row(void* dst, const void* src, int bytes) {
	if constexpr (WIDE) {
		const int AT_ONCE = 4;
		int step = blockDim.x, n = bytes / 16;
		for (int first = threadIdx.x; first < n; first += AT_ONCE * step) {
			Octet x[AT_ONCE] = {};
#pragma unroll
			for (int k = 0; k < AT_ONCE; k++)
				if (src && first + k * step < n) x[k] = ((const Octet*)src)[first + k * step];
#pragma unroll
			for (int k = 0; k < AT_ONCE; k++)
				if (first + k * step < n) ((Octet*)dst)[first + k * step] = x[k];
		}
	} else {
		for (int i = threadIdx.x; i < bytes / 2; i += blockDim.x) ((u16*)dst)[i] = src ? ((const u16*)src)[i] : (u16)0;
	}
}
