// What a .cu file sees when a host compiler reads it: the names that CUDA gives a kernel, and the meaning of each
// instruction of ptx.cuh, which the emulator runs. A thread of a kernel is a fiber; whatever waits here lets other
// fibers run.
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define DEVICE inline __attribute__((always_inline))
#define EMU_EXPORT __attribute__((visibility("default")))

#pragma GCC visibility push(hidden)
namespace emu {

struct Dim {
	unsigned x, y, z;
};

// What a kernel knows of the thread that runs it, and where the thread goes on when others have run.
struct Thread {
	Dim thread, block, threads, blocks;
	char* shared;
	void *sp, *bp, *ip;
};

// The thread that runs now. One block runs on one thread of the host from beginning to end.
extern __thread Thread* self __attribute__((tls_model("initial-exec")));

// An entry of a .cu file.
struct EMU_EXPORT Entry {
	const char* name;
	size_t size; // of its argument
	int threads, blocks; // of its launch bounds
	void (*run)(const void* args);
};

// Where the lanes of a warp meet, all but the last wait: `to` goes on in place of `from`. Without a `to`, `from` goes on.
struct Turn {
	Thread *from, *to;
};

// Leaves a thread here, to go on with another where that was left. This is part of the kernel, and a jump rather than a
// return, so that the processor foresees where to: lanes of a warp mostly leave at one place and wait at another.
DEVICE void pass(Turn t) {
#ifdef __x86_64__
	asm volatile(
	    "leaq 1f(%%rip), %%rax\n\t"
	    "movq %%rsp, %c[sp](%%rdi)\n\t"
	    "movq %%rbp, %c[bp](%%rdi)\n\t"
	    "movq %%rax, %c[ip](%%rdi)\n\t"
	    "movq %c[sp](%%rsi), %%rsp\n\t"
	    "movq %c[bp](%%rsi), %%rbp\n\t"
	    "jmpq *%c[ip](%%rsi)\n"
	    "1:"
	    : "+D"(t.from), "+S"(t.to)
	    : [sp] "i"(offsetof(Thread, sp)), [bp] "i"(offsetof(Thread, bp)), [ip] "i"(offsetof(Thread, ip))
	    : "rax", "rbx", "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15", "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6",
	      "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "memory", "cc");
#else
#error "the emulator switches threads on amd64 only"
#endif
}

DEVICE void after(Turn t) {
	if (t.to) pass(t);
}

inline char* shared_memory() { return self->shared; }
unsigned shared_address(const void* p);

inline float bits_float(unsigned x) {
	float f;
	memcpy(&f, &x, 4);
	return f;
}

inline unsigned float_bits(float f) {
	unsigned x;
	memcpy(&x, &f, 4);
	return x;
}

inline double bits_double(unsigned long long x) {
	double f;
	memcpy(&f, &x, 8);
	return f;
}

inline unsigned long long double_bits(double f) {
	unsigned long long x;
	memcpy(&x, &f, 8);
	return x;
}

inline unsigned bf16(float f) {
	unsigned x = float_bits(f);
	return f != f ? 0x7fff : (x + 0x7fff + (x >> 16 & 1)) >> 16;
}

inline unsigned cvt_bf16x2(float hi, float lo) { return bf16(hi) << 16 | bf16(lo); }

// A fault that a test has switched on by name.
extern const char* plant;
inline bool planted(const char* name) { return plant && !strcmp(plant, name); }

// Whether a test wants a place of the source, as in kernels/gemm.cuh:59, to be passed over.
extern const char* skip_file;
extern int skip_line;
inline bool skipped(const char* file, int line) { return line == skip_line && !strcmp(file, skip_file); }

// Within a warp.
Turn meet_shfl_xor(unsigned x, int mask, unsigned* got);
Turn meet_shfl(unsigned x, int from, unsigned* got);
Turn meet_shfl_up(unsigned x, int delta, unsigned* got);
Turn meet_shfl_down(unsigned x, int delta, unsigned* got);
Turn meet_vote_ballot(bool p, unsigned* got);
Turn meet_redux_max(unsigned x, unsigned* got);
Turn meet_redux_min(unsigned x, unsigned* got);
Turn meet_redux_add(unsigned x, unsigned* got);
Turn meet_syncwarp();

template <class Meet, class... Operands>
DEVICE unsigned received(Meet meet, Operands... o) {
	unsigned got;
	after(meet(o..., &got));
	return got;
}

DEVICE unsigned shfl_xor(unsigned x, int mask) { return received(meet_shfl_xor, x, mask); }
DEVICE unsigned shfl(unsigned x, int from) { return received(meet_shfl, x, from); }
DEVICE unsigned shfl_up(unsigned x, int delta) { return received(meet_shfl_up, x, delta); }
DEVICE unsigned shfl_down(unsigned x, int delta) { return received(meet_shfl_down, x, delta); }
DEVICE unsigned vote_ballot(bool p) { return received(meet_vote_ballot, p); }
DEVICE unsigned redux_max(unsigned x) { return received(meet_redux_max, x); }
DEVICE unsigned redux_min(unsigned x) { return received(meet_redux_min, x); }
DEVICE unsigned redux_add(unsigned x) { return received(meet_redux_add, x); }
DEVICE void syncwarp() { after(meet_syncwarp()); }

// Barriers.
void bar_sync(int id, unsigned threads);
void bar_arrive(int id, unsigned threads);
void mbarrier_init(void* bar, unsigned count);
void fence_mbarrier_init();
void mbarrier_arrive(void* bar);
void mbarrier_expect_tx(void* bar, unsigned bytes);
void mbarrier_wait(void* bar, unsigned parity);

// Copies.
void cp_async16(void* dst, const void* src, int bytes);
void cp_async_commit();
void cp_async_wait(int groups);
void tma_load(void* dst, const void* map, void* bar, const int* at, int rank);
void tma_store(const void* map, const void* src, const int* at, int rank);
void bulk_commit();
void bulk_wait(int groups, bool read);
void fence_proxy_async();

// Matrices.
Turn meet_ldmatrix_x4(unsigned* r, const void* row, bool transposed);
Turn meet_stmatrix_x4(void* row, const unsigned* r, bool transposed);
DEVICE void ldmatrix_x4(unsigned (&r)[4], const void* row, bool transposed) { after(meet_ldmatrix_x4(r, row, transposed)); }
DEVICE void stmatrix_x4(void* row, const unsigned (&r)[4], bool transposed = false) { after(meet_stmatrix_x4(row, r, transposed)); }

// Products of one instruction after the other, which touch no memory, so that nobody could see the lanes of a warp come
// together for each: m fragments of a times n of b. Fragment c[i][j] is at c + i·stride + 4·j.
struct Products {
	int m, n;
	long stride;
};
Turn meet_mma_bf16(float* c, const unsigned* a, const unsigned* b, Products p);
DEVICE void mma_bf16(float* c, const unsigned* a, const unsigned* b, Products p) { after(meet_mma_bf16(c, a, b, p)); }
void wgmma(float* c, const unsigned* a, uint64_t da, uint64_t db, int n, bool add, bool a_by_columns, bool b_by_rows);
void wgmma_registers(const unsigned (&a)[4]);
void wgmma_fence();
void wgmma_commit();
void wgmma_wait(int groups);
void setmaxnreg(int registers, bool up);

// Memory.
void atom_add(unsigned* p, unsigned x);
void atom_add(unsigned long long* p, unsigned long long x);
void threadfence();
unsigned long long clock();

} // namespace emu
#pragma GCC visibility pop

#define threadIdx (emu::self->thread)
#define blockIdx (emu::self->block)
#define blockDim (emu::self->threads)
#define gridDim (emu::self->blocks)

// The types and functions that nvcc knows by itself.
struct alignas(8) float2 {
	float x, y;
};
struct alignas(16) float4 {
	float x, y, z, w;
};
struct alignas(8) uint2 {
	unsigned x, y;
};
struct alignas(16) uint4 {
	unsigned x, y, z, w;
};
struct alignas(8) int2 {
	int x, y;
};
struct alignas(16) int4 {
	int x, y, z, w;
};
DEVICE float2 make_float2(float x, float y) { return {x, y}; }
DEVICE float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }
DEVICE uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
DEVICE uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }
DEVICE int2 make_int2(int x, int y) { return {x, y}; }
DEVICE int4 make_int4(int x, int y, int z, int w) { return {x, y, z, w}; }

DEVICE unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((unsigned long long)a * b >> 32); }
DEVICE int __popc(unsigned x) { return __builtin_popcount(x); }
DEVICE int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
DEVICE int __ffs(int x) { return __builtin_ffs(x); }
DEVICE int min(int a, int b) { return a < b ? a : b; }
DEVICE int max(int a, int b) { return a > b ? a : b; }
DEVICE unsigned min(unsigned a, unsigned b) { return a < b ? a : b; }
DEVICE unsigned max(unsigned a, unsigned b) { return a > b ? a : b; }
DEVICE long long min(long long a, long long b) { return a < b ? a : b; }
DEVICE long long max(long long a, long long b) { return a > b ? a : b; }
