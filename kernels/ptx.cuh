// The instructions that C++ has no words for, one function each: under nvcc the instruction, on the host what it means
// to the emulator. No other file holds assembly. Names are those of the PTX ISA; what is said here is what a kernel
// must know to use them.
#pragma once

#ifdef __CUDACC__
#define DEVICE __device__ __forceinline__
#else
#include "emu/emu.h"
#endif

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

// An address within shared memory, as instructions take it.
#ifdef __CUDACC__
DEVICE u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
#endif

// ---- Conversions

// The nearest bfloat16, ties to even, of each half: lo in the low 16 bits. A NaN stays one (0x7fff).
DEVICE u32 cvt_bf16x2(float hi, float lo) {
#ifdef __CUDACC__
	u32 r;
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(hi), "f"(lo));
	return r;
#else
	return emu::cvt_bf16x2(hi, lo);
#endif
}

// The bits of the nearest float16, ties to even, subnormals included.
DEVICE u32 cvt_f16_f32(float x) {
#ifdef __CUDACC__
	u16 r;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(r) : "f"(x));
	return r;
#else
	u32 b = emu::float_bits(x), sign = b >> 16 & 0x8000;
	b &= 0x7fffffff;
	if (b > 0x7f800000) return 0x7fff;
	if (b >= 0x47800000) return sign | 0x7c00;
	if (b < 0x38800000) return sign | (emu::float_bits(emu::bits_float(b) + 0.5f) - emu::float_bits(0.5f));
	return sign | (b - 0x38000000 + 0xfff + (b >> 13 & 1)) >> 13;
#endif
}

// The float16 of the low half, exactly.
DEVICE float cvt_f32_f16(u32 h) {
#ifdef __CUDACC__
	float r;
	asm("cvt.f32.f16 %0, %1;" : "=f"(r) : "h"((u16)h));
	return r;
#else
	u32 b = h & 0x7fff, sign = (h & 0x8000) << 16;
	if (b >= 0x7c00) return emu::bits_float(sign | 0x7f800000 | b << 13);
	return emu::bits_float(sign | emu::float_bits(emu::bits_float(b << 13) * 0x1p112f));
#endif
}

// ---- Within a warp. All 32 lanes take part.

DEVICE u32 shfl_xor(u32 x, int mask) {
#ifdef __CUDACC__
	return __shfl_xor_sync(0xffffffffu, x, mask);
#else
	return emu::shfl_xor(x, mask);
#endif
}

// The value of lane `from`.
DEVICE u32 shfl(u32 x, int from) {
#ifdef __CUDACC__
	return __shfl_sync(0xffffffffu, x, from);
#else
	return emu::shfl(x, from);
#endif
}

// The value of the lane `delta` below; a lane with none below keeps its own.
DEVICE u32 shfl_up(u32 x, int delta) {
#ifdef __CUDACC__
	return __shfl_up_sync(0xffffffffu, x, delta);
#else
	return emu::shfl_up(x, delta);
#endif
}

// Bit i is lane i's condition.
DEVICE u32 vote_ballot(bool p) {
#ifdef __CUDACC__
	return __ballot_sync(0xffffffffu, p);
#else
	return emu::vote_ballot(p);
#endif
}

// The largest of all lanes.
DEVICE u32 redux_max(u32 x) {
#ifdef __CUDACC__
	return __reduce_max_sync(0xffffffffu, x);
#else
	return emu::redux_max(x);
#endif
}

DEVICE void syncwarp() {
#ifdef __CUDACC__
	__syncwarp();
#else
	emu::syncwarp();
#endif
}

// ---- Barriers of a block

// Every thread of the block.
DEVICE void sync_block() {
#ifdef __CUDACC__
	__syncthreads();
#else
	emu::bar_sync(0, blockDim.x);
#endif
}

// `threads` threads, a multiple of 32, meet at barrier `id`, 1 to 15; 0 is sync_block's.
DEVICE void bar_sync(int id, int threads) {
#ifdef __CUDACC__
	asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
	emu::bar_sync(id, threads);
#endif
}

// Counts at the barrier without waiting there.
DEVICE void bar_arrive(int id, int threads) {
#ifdef __CUDACC__
	asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
#else
	emu::bar_arrive(id, threads);
#endif
}

// ---- Global memory

// One store of 16 bytes, at a multiple of 16. Given a struct to store, the compiler may make it four.
DEVICE void st_global_v4(void* p, u32 a, u32 b, u32 c, u32 d) {
#ifdef __CUDACC__
	asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(p)), "r"(a), "r"(b), "r"(c), "r"(d) : "memory");
#else
	struct alignas(16) Words {
		u32 v[4];
	};
	*(Words*)p = Words{{a, b, c, d}};
#endif
}

// ---- Copies from global to shared memory that go on while the thread does (cp.async)

// 16 bytes to `dst`, of which the first `bytes` (0 to 16) come from `src` and the others are zeros. Both addresses are
// multiples of 16; `src` does not matter if bytes is 0. The bytes are there after the thread has
// waited for the group, for others after a barrier.
DEVICE void cp_async16(void* dst, const void* src, int bytes) {
#ifdef __CUDACC__
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(dst)), "l"(src), "r"(bytes) : "memory");
#else
	emu::cp_async16(dst, src, bytes);
#endif
}

// Ends the thread's current group of copies, which may be empty.
DEVICE void cp_async_commit() {
#ifdef __CUDACC__
	asm volatile("cp.async.commit_group;" ::: "memory");
#else
	emu::cp_async_commit();
#endif
}

// Waits until at most N of the thread's groups are under way, the youngest.
template <int N>
DEVICE void cp_async_wait() {
#ifdef __CUDACC__
	asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
#else
	emu::cp_async_wait(N);
#endif
}

// ---- Matrices in registers

// Four 8×8 matrices of 16-bit elements: lane l gives the address of a row of 16 bytes, lanes 8i to 8i+7 those of matrix i.
// In r[i], lane l receives elements 2(l%4) and 2(l%4)+1 of row l/4 of matrix i.
DEVICE void ldmatrix_x4(u32 (&r)[4], const void* row) {
#ifdef __CUDACC__
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
	             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
	             : "r"(shared_address(row))
	             : "memory");
#else
	emu::ldmatrix_x4(r, row, false);
#endif
}

// The same of the transposed matrices: elements 2(l%4) and 2(l%4)+1 of column l/4.
DEVICE void ldmatrix_x4_trans(u32 (&r)[4], const void* row) {
#ifdef __CUDACC__
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
	             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
	             : "r"(shared_address(row))
	             : "memory");
#else
	emu::ldmatrix_x4(r, row, true);
#endif
}

// The way back: lane l's part of four matrices to the rows whose addresses the lanes give.
DEVICE void stmatrix_x4(void* row, const u32 (&r)[4]) {
#ifdef __CUDACC__
	asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(row)), "r"(r[0]), "r"(r[1]), "r"(r[2]),
	             "r"(r[3])
	             : "memory");
#else
	emu::stmatrix_x4(row, r);
#endif
}

// c += a·b over 16 values of k, a (16, 16) by rows and b (16, 8) by columns, bfloat16, c (16, 8) float32. With g = lane/4
// and q = lane%4, a lane holds
//
//	a[0], a[1]  rows g and g+8, k = 2q, 2q+1       a[2], a[3]  the same rows, k = 2q+8, 2q+9
//	b[0], b[1]  column g, k = 2q, 2q+1 and k = 2q+8, 2q+9
//	c[0], c[1]  row g, columns 2q, 2q+1            c[2], c[3]  row g+8
//
// Products and accumulator are aligned to the largest exponent, cut off after 25 fraction bits, added, and cut off to
// float32.
DEVICE void mma_bf16(float (&c)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#ifdef __CUDACC__
	asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
	             : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#else
	emu::mma_bf16(c, a, b0, b1);
#endif
}
