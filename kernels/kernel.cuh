// What every kernel file begins with: how a kernel is declared, the types of its arguments, and the few functions that
// CPU and GPU compute with the same bits.
//
// A kernel takes one struct, the twin of its Go file's, field by field. It keeps to dynamic shared memory, has no static
// variables, and adds floats in an order that depends on neither the grid nor who comes first.
#pragma once

#include "ptx.cuh"

// KERNEL(linear, LinearArgs, a, 256, 2) { ... }: an entry with its argument, the threads of a block, and how many blocks
// should fit on a multiprocessor. Its blocks may be placed while the kernel before ends, and wait for that before anything else.
#ifdef __CUDACC__
#define KERNEL(name, Args, a, threads, blocks)                                                           \
	DEVICE void name##_body(const Args& a);                                                                \
	extern "C" __global__ void __launch_bounds__(threads, blocks) name(const __grid_constant__ Args args) { \
		griddepcontrol_wait();                                                                               \
		griddepcontrol_launch_dependents();                                                                  \
		name##_body(args);                                                                                   \
	}                                                                                                      \
	DEVICE void name##_body(const Args& a)
// The block's dynamic shared memory: SHARED(p); declares char* p, a multiple of 1,024.
#define SHARED(p)                                       \
	extern __shared__ __align__(1024) char shared_memory[]; \
	char* p = shared_memory
#else
#define KERNEL(name, Args, a, threads, blocks)                                                                                 \
	static void name##_kernel(const Args& a);                                                                                    \
	extern "C" EMU_EXPORT const emu::Entry emu_kernel_##name;                                                                    \
	const emu::Entry emu_kernel_##name = {#name, sizeof(Args), threads, blocks, [](const void* p) { name##_kernel(*(const Args*)p); }}; \
	static void name##_kernel(const Args& a)
#define SHARED(p) char* p = emu::shared_memory()
#endif

// PLANT(name) is true where a test wants to see that a fault is found: if (PLANT(gemm_zero)) return. Whatever orders threads
// can be left out, place by place, without a word in the kernel. A GPU's kernels have neither.
#ifdef EMU_PLANTS
#define PLANT(name) emu::planted(#name)
#define UNLESS_SKIPPED(f) \
	if (emu::skipped(__FILE__, __LINE__)) { \
	} else f
#define sync_block UNLESS_SKIPPED(sync_block)
#define syncwarp UNLESS_SKIPPED(syncwarp)
#define bar_sync UNLESS_SKIPPED(bar_sync)
#define bar_arrive UNLESS_SKIPPED(bar_arrive)
#define mbarrier_wait UNLESS_SKIPPED(mbarrier_wait)
#define mbarrier_arrive UNLESS_SKIPPED(mbarrier_arrive)
#define mbarrier_expect_tx UNLESS_SKIPPED(mbarrier_expect_tx)
#define cp_async_commit UNLESS_SKIPPED(cp_async_commit)
#define cp_async_wait UNLESS_SKIPPED(cp_async_wait)
#define wgmma_fence UNLESS_SKIPPED(wgmma_fence)
#define wgmma_commit UNLESS_SKIPPED(wgmma_commit)
#define wgmma_wait UNLESS_SKIPPED(wgmma_wait)
#define fence_proxy_async UNLESS_SKIPPED(fence_proxy_async)
#define fence_mbarrier_init UNLESS_SKIPPED(fence_mbarrier_init)
#else
#define PLANT(name) false
#endif

// A bfloat16: the upper half of a float32.
struct bf16 {
	u16 bits;
};

// DTypes as Go counts them.
enum { F32 = 1, BF16 = 2, I32 = 3, U64 = 4, U8 = 5, F16 = 6, U16 = 7 };

DEVICE float bits_float(u32 x) {
#ifdef __CUDACC__
	return __uint_as_float(x);
#else
	return emu::bits_float(x);
#endif
}

DEVICE u32 float_bits(float x) {
#ifdef __CUDACC__
	return __float_as_uint(x);
#else
	return emu::float_bits(x);
#endif
}

DEVICE double bits_double(u64 x) {
#ifdef __CUDACC__
	return __longlong_as_double((long long)x);
#else
	return emu::bits_double(x);
#endif
}

DEVICE u64 double_bits(double x) {
#ifdef __CUDACC__
	return (u64)__double_as_longlong(x);
#else
	return emu::double_bits(x);
#endif
}

// The place of the lowest bit of x, which is not 0.
DEVICE int lowest_bit(u32 x) {
#ifdef __CUDACC__
	return __ffs(x) - 1;
#else
	return __builtin_ctz(x);
#endif
}

// The place of the highest.
DEVICE int highest_bit(u32 x) {
#ifdef __CUDACC__
	return 31 - __clz(x);
#else
	return 31 - __builtin_clz(x);
#endif
}

DEVICE float to_float(bf16 x) { return bits_float((u32)x.bits << 16); }
DEVICE float low(u32 pair) { return bits_float(pair << 16); }
DEVICE float high(u32 pair) { return bits_float(pair & 0xffff0000u); }

// One rounding, to nearest, ties to even.
DEVICE bf16 to_bf16(float x) { return bf16{(u16)cvt_bf16x2(0, x)}; }

DEVICE float shfl_xor(float x, int mask) { return bits_float(shfl_xor(float_bits(x), mask)); }
DEVICE float shfl(float x, int from) { return bits_float(shfl(float_bits(x), from)); }
DEVICE double shfl_xor(double x, int mask) {
	u64 b = double_bits(x);
	return bits_double((u64)shfl_xor((u32)(b >> 32), mask) << 32 | shfl_xor((u32)b, mask));
}
DEVICE double shfl(double x, int from) {
	u64 b = double_bits(x);
	return bits_double((u64)shfl((u32)(b >> 32), from) << 32 | shfl((u32)b, from));
}

// a·b + c, rounded once: the only fused multiply-add there is.
DEVICE float fma32(float a, float b, float c) { return fmaf(a, b, c); }

DEVICE constexpr int blocks(int n, int size) { return (n + size - 1) / size; }

DEVICE float minus_infinity() { return bits_float(0xff800000u); }

// The larger; a NaN is passed over.
DEVICE float larger(float top, float x) { return x > top ? x : top; }

const float LOG2E = 1.4426950408889634f;

// 2^f for |f| ≤ ½.
DEVICE float exp2_fraction(float f) {
	float p = fma32(0x1.41fbbcp-13f, f, 0x1.5f3e54p-10f);
	p = fma32(p, f, 0x1.3b2d4cp-7f);
	p = fma32(p, f, 0x1.c6aee8p-5f);
	p = fma32(p, f, 0x1.ebfbdcp-3f);
	p = fma32(p, f, 0x1.62e43p-1f);
	return fma32(p, f, 1);
}

// 2^x to 1 ulp, with the bits of exp2.go: nearest integer, a polynomial of degree 6 by fused steps, exponent. 0 below
// -126, +Inf from 128 on, 1 at 0; NaN stays NaN. Adding 1.5·2^23 rounds to the nearest integer, ties to even, and leaves it
// in the lowest bits: two additions in place of two conversions, which run at half the rate.
DEVICE float exp2_poly(float x) {
	float c = x > 128 ? 128 : x;
	float shifted = c + 0x1.8p23f;
	float p = exp2_fraction(c - (shifted - 0x1.8p23f));
	float y = p != p ? p : bits_float(float_bits(p) + (float_bits(shifted) << 23));
	return x < -126 ? 0 : y;  // last, so that there is no branch
}

// The same for x up to 127, in fewer steps: NaN comes through by itself where the exponent is a factor.
DEVICE float exp2_small(float x) {
	float shifted = x + 0x1.8p23f;
	float f = x - (shifted - 0x1.8p23f);
	float y = exp2_fraction(f) * bits_float((float_bits(shifted) << 23) + 0x3f800000u);
	return x < -126 ? 0 : y;
}

// 2·atanh(s) for |s| < 0.172, to about 1e-16: s + s³/3 + s⁵/5 + ...
DEVICE double twice_atanh(double s) {
	double z = s * s, sum = 0;
	for (int k = 21; k > 1; k -= 2) sum = (sum + 1.0 / k) * z;
	return 2 * (s + s * sum);
}

// The natural logarithm of a positive, finite, normal number, to about 1e-16: operations that every machine rounds alike.
// With x = 2^n·m and m from √½ to √2 it is n·ln 2 + 2·atanh((m-1)/(m+1)).
DEVICE double ln64(double x) {
	u64 bits = double_bits(x);
	int n = (int)(bits >> 52) - 1023;
	double m = bits_double((bits & 0xfffffffffffffull) | 0x3ff0000000000000ull);
	if (m > 1.4142135623730951) m *= 0.5, n++;
	return n * 0.6931471805599453 + twice_atanh((m - 1) / (m + 1));
}

// ln(1 + x) for x > -1.
DEVICE double ln1p64(double x) { return x < 0.25 ? twice_atanh(x / (2 + x)) : ln64(1 + x); }

// ln and log2, rounded once; of 0 -Inf, of +Inf and NaN themselves.
DEVICE float ln_once(float x) { return x == 0 ? bits_float(0xff800000u) : x < bits_float(0x7f800000u) ? (float)ln64(x) : x; }
DEVICE float log2_once(float x) { return x == 0 ? bits_float(0xff800000u) : x < bits_float(0x7f800000u) ? (float)(ln64(x) * 1.4426950408889634) : x; }

// c[i][j] += a[i]·b and c[i][j+1] += a[i]·b' for every i, where b and b' are of 8 columns each, as ldmatrix_x4 brings them: 2·M
// times mma_bf16.
template <int M, int N>
DEVICE void mma_bf16_columns(float (&c)[M][N][4], int j, const u32 (&a)[M][4], const u32 (&b)[4]) {
#ifdef __CUDACC__
#pragma unroll
	for (int i = 0; i < M; i++) {
		mma_bf16(c[i][j], a[i], b[0], b[1]);
		mma_bf16(c[i][j + 1], a[i], b[2], b[3]);
	}
#else
	emu::mma_bf16(c[0][j], a[0], b, {M, 2, 4 * N});
#endif
}

// The same for 16 rows.
template <int N>
DEVICE void mma_bf16_columns(float (&c)[N][4], int j, const u32 (&a)[4], const u32 (&b)[4]) {
#ifdef __CUDACC__
	mma_bf16(c[j], a, b[0], b[1]);
	mma_bf16(c[j + 1], a, b[2], b[3]);
#else
	emu::mma_bf16(c[j], a, b, {1, 2, 0});
#endif
}

// The sum over the 32 lanes, in every lane: 16 apart first, then 8, 4, 2, 1.
DEVICE float sum_warp(float x) {
	for (int d = 16; d > 0; d /= 2) x += shfl_xor(x, d);
	return x;
}

DEVICE float max_warp(float x) {
	for (int d = 16; d > 0; d /= 2) x = larger(x, shfl_xor(x, d));
	return x;
}
