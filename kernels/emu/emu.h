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

// What a kernel knows of the thread that runs it.
struct Thread {
	Dim thread, block, threads, blocks;
	char* shared;
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
unsigned shfl_xor(unsigned x, int mask);
unsigned shfl(unsigned x, int from);
unsigned shfl_up(unsigned x, int delta);
unsigned shfl_down(unsigned x, int delta);
unsigned vote_ballot(bool p);
unsigned redux_max(unsigned x);
unsigned redux_min(unsigned x);
unsigned redux_add(unsigned x);
void syncwarp();

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
void ldmatrix_x4(unsigned (&r)[4], const void* row, bool transposed);
void stmatrix_x4(void* row, const unsigned (&r)[4], bool transposed = false);
void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1);
void wgmma(float* c, const unsigned* a, uint64_t da, uint64_t db, int n, bool add, bool a_by_columns, bool b_by_rows);
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
