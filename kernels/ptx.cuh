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
#else
using emu::shared_address;
#endif

// ---- Kernels one behind the other (programmatic dependent launch)

// Waits until the kernels before have ended and what they wrote is to be seen. Without effect where the launch was not early.
DEVICE void griddepcontrol_wait() {
#ifdef __CUDACC__
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// Lets blocks of the next kernel be placed, which wait, as soon as all of this one's have come here or ended.
DEVICE void griddepcontrol_launch_dependents() {
#ifdef __CUDACC__
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

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

// ---- Integers that several threads add to. The sum does not depend on who comes first; no float is ever added so.

DEVICE void atom_add(u32* at, u32 x) {
#ifdef __CUDACC__
	atomicAdd(at, x);
#else
	emu::atom_add(at, x);
#endif
}

DEVICE void atom_add(u64* at, u64 x) {
#ifdef __CUDACC__
	atomicAdd(at, x);
#else
	emu::atom_add(at, x);
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
	const u32 b[] = {b0, b1};
	emu::mma_bf16(c, a, b, {1, 1, 0});
#endif
}

// ---- Barriers in shared memory that count arrivals and bytes (mbarrier). A phase ends when all arrivals and all announced
// bytes have come; phases have parity 0, 1, 0 and so on.

// `count` arrivals end a phase. One thread makes the barrier, then fences, then the block synchronises.
DEVICE void mbarrier_init(u64* bar, u32 count) {
#ifdef __CUDACC__
	asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count) : "memory");
#else
	emu::mbarrier_init(bar, count);
#endif
}

// Makes barriers that were just made known to the copy engine.
DEVICE void fence_mbarrier_init() {
#ifdef __CUDACC__
	asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
#else
	emu::fence_mbarrier_init();
#endif
}

DEVICE void mbarrier_arrive(u64* bar) {
#ifdef __CUDACC__
	asm volatile("mbarrier.arrive.shared.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
#else
	emu::mbarrier_arrive(bar);
#endif
}

// Arrives and announces bytes that copies will bring.
DEVICE void mbarrier_expect_tx(u64* bar, u32 bytes) {
#ifdef __CUDACC__
	asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(bar)), "r"(bytes) : "memory");
#else
	emu::mbarrier_expect_tx(bar, bytes);
#endif
}

// Waits until the phase of that parity has ended.
DEVICE void mbarrier_wait(u64* bar, u32 parity) {
#ifdef __CUDACC__
	asm volatile("{\n.reg .pred done;\nwait:\nmbarrier.try_wait.parity.shared.b64 done, [%0], %1;\n@!done bra wait;\n}" ::"r"(shared_address(bar)),
	             "r"(parity)
	             : "memory");
#else
	emu::mbarrier_wait(bar, parity);
#endif
}

// ---- Copies of boxes of a tensor (TMA)

// How a tensor lies in memory and what box of it is copied: 128 bytes that the driver fills, in the kernel's argument.
struct alignas(64) TensorMap {
	u64 words[16];
};

// Copies the box at (col, row) to `dst`, a multiple of 1,024 where lines are 128 bytes swizzled. Its bytes, zeros beyond the
// tensor's edge included, count at `bar`.
DEVICE void tma_load_2d(void* dst, const TensorMap* map, u64* bar, int col, int row) {
#ifdef __CUDACC__
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(shared_address(dst)),
	             "l"(map), "r"(shared_address(bar)), "r"(col), "r"(row)
	             : "memory");
#else
	const int at[] = {col, row};
	emu::tma_load(dst, map, bar, at, 2);
#endif
}

// What this thread wrote to shared memory is seen by copies of boxes and by wgmma that come after a barrier.
DEVICE void fence_proxy_async() {
#ifdef __CUDACC__
	asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#else
	emu::fence_proxy_async();
#endif
}

// ---- Registers of a warpgroup: four warps whose first is a multiple of four

template <int N>
DEVICE void setmaxnreg_inc() {
#ifdef __CUDACC__
	asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
#else
	emu::setmaxnreg(N, true);
#endif
}

template <int N>
DEVICE void setmaxnreg_dec() {
#ifdef __CUDACC__
	asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
#else
	emu::setmaxnreg(N, false);
#endif
}

// ---- Products by a warpgroup (wgmma), sm_90a only. Warp w of the four has rows 16w to 16w+15; a lane holds of them what
// mma_bf16 says, c[j] for columns 8j to 8j+7. Operands are read and sums written until the wait; each k16 step is one of
// mma_bf16's sums. Without `add` a sum starts from 0.

// How an operand lies in shared memory is said by a descriptor (PTX ISA, "Matrix Descriptor Format"): bits 0-13 where it
// starts, 16-29 the leading and 32-45 the stride dimension byte offset, each as (x & 0x3ffff) >> 4; 49-51 are 0 where the
// swizzle's pattern starts at a multiple of 1,024; 62-63 are 1 for the swizzle of 128 bytes, which exchanges chunks of 16
// within a line of 128 by the line's number: bits 4-6 of an address ^= bits 7-9, as boxes arrive. "Canonical Layouts" gives
// where element k of the matrix's line i lies before it, with T = 8 elements in 16 bytes, as so many bytes from p on:
//
//	K-major   ((8,m),(T,2k)):((8T,SBO),(1,T))        i%8·128 + i/8·SBO + k·2
//	MN-major  ((T,8,m),(8,k)):((1,T,LBO),(8T,SBO))   i%64·2 + i/64·LBO + k%8·128 + k/8·SBO
//
// Adding n to a descriptor adds 16·n to p.
DEVICE u64 wgmma_descriptor(const void* p, u32 leading, u32 stride) {
	return (u64)((shared_address(p) & 0x3ffff) >> 4) | (u64)(leading >> 4) << 16 | (u64)(stride >> 4) << 32 | (u64)1 << 62;
}

// A matrix with k along lines of 128 bytes, the first at a multiple of 1,024, 8 to a group (an atom of the swizzle), group after
// group. There is no leading dimension ("not used, assumed to be 1"). Elements 16 further along k are 2 further.
DEVICE u64 wgmma_matrix(const void* p) { return wgmma_descriptor(p, 16, 1024); }

// A matrix with k down its lines, each with 64 elements of the other dimension, as boxes of 64 columns bring them: `stretch`
// bytes on lie the next 64 ("from the first swizzle-byte-size/16 rows to the next", of 16 bytes each), and 8 lines on, which is
// 1,024 bytes, the next 8 of k ("from the first 8 columns to the next 8"). Elements 16 further along k are 16 lines, 128,
// further; bits 7-9 stay.
DEVICE u64 wgmma_matrix_down(const void* p, u32 stretch) { return wgmma_descriptor(p, stretch, 1024); }

// Registers of sums (c) or of left operands (a) change hands: what was computed for them is there, and what is computed
// from them is computed later. The compiler does not know that a product is under way, and would move either across it.
// Sums pass before the fence and after the wait, left operands before the fence.
template <int N>
DEVICE void wgmma_registers(float (&c)[N][4]) {
#ifdef __CUDACC__
#pragma unroll
	for (int j = 0; j < N; j++) asm volatile("" : "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])::"memory");
#endif
}

template <int N>
DEVICE void wgmma_registers(u32 (&a)[N][4]) {
#ifdef __CUDACC__
#pragma unroll
	for (int j = 0; j < N; j++) asm volatile("" : "+r"(a[j][0]), "+r"(a[j][1]), "+r"(a[j][2]), "+r"(a[j][3])::"memory");
#else
	for (int j = 0; j < N; j++) emu::wgmma_registers(a[j]);
#endif
}

// Before the first product, and after others have used its registers: sums, or a left operand that is in them.
DEVICE void wgmma_fence() {
#ifdef __CUDACC__
	asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
#else
	emu::wgmma_fence();
#endif
}

DEVICE void wgmma_commit() {
#ifdef __CUDACC__
	asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
#else
	emu::wgmma_commit();
#endif
}

// Waits until at most N groups are under way.
template <int N>
DEVICE void wgmma_wait() {
#ifdef __CUDACC__
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
#else
	emu::wgmma_wait(N);
#endif
}

// Operands of the assembly below: sums c[j] and on, and the registers they are.
#ifdef __CUDACC__
#define SUMS(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define SUMS4(j) SUMS(j), SUMS(j + 1), SUMS(j + 2), SUMS(j + 3)
#define SUMS16(j) SUMS4(j), SUMS4(j + 4), SUMS4(j + 8), SUMS4(j + 12)
#define REGISTERS_0_63                                                                 \
	"%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "               \
	"%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "     \
	"%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "     \
	"%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define REGISTERS_64_127                                                               \
	"%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "     \
	"%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "     \
	"%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, " \
	"%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#endif

// a (64, 16) and b (256, 16) in shared memory, each with k along lines or, if DOWN, down them: what the instruction calls
// imm-trans.
template <bool A_DOWN, bool B_DOWN>
DEVICE void wgmma_m64n256k16(float (&c)[32][4], u64 a, u64 b, bool add) {
#ifdef __CUDACC__
	asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %130, 0;\n"
	             "wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {" REGISTERS_0_63 ", " REGISTERS_64_127
	             "}, %128, %129, add, 1, 1, %131, %132;\n}"
	             : SUMS16(0), SUMS16(16)
	             : "l"(a), "l"(b), "r"((int)add), "n"(A_DOWN ? 1 : 0), "n"(B_DOWN ? 1 : 0));
#else
	emu::wgmma(c[0], nullptr, a, b, 256, add, A_DOWN, B_DOWN);
#endif
}

// b (128, 16), both with k along lines.
DEVICE void wgmma_m64n128k16(float (&c)[16][4], u64 a, u64 b, bool add) {
#ifdef __CUDACC__
	asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %66, 0;\n"
	             "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" REGISTERS_0_63 "}, %64, %65, add, 1, 1, 0, 0;\n}"
	             : SUMS16(0)
	             : "l"(a), "l"(b), "r"((int)add));
#else
	emu::wgmma(c[0], nullptr, a, b, 128, add, false, false);
#endif
}

// a in registers, as mma_bf16 has it; b with k along lines or, if B_DOWN, down them.
template <bool B_DOWN>
DEVICE void wgmma_m64n128k16_registers(float (&c)[16][4], const u32 (&a)[4], u64 b, bool add) {
#ifdef __CUDACC__
	asm volatile("{\n.reg .pred add;\nsetp.ne.b32 add, %69, 0;\n"
	             "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {" REGISTERS_0_63 "}, {%64, %65, %66, %67}, %68, add, 1, 1, %70;\n}"
	             : SUMS16(0)
	             : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"((int)add), "n"(B_DOWN ? 1 : 0));
#else
	emu::wgmma(c[0], a, 0, b, 128, add, false, B_DOWN);
#endif
}
