// gradnorm_leaves  leaves[i] = Σ g² of 4,096 elements, float64
// gradnorm         norm = √(Σ leaves)
//
// A leaf has a block of 128 threads with 8 quads each, loaded before any is used: quad q belongs to thread q % 128, which adds
// element i of its quads on lane i, quads ascending, then (0 + 1) + (2 + 3). A tree joins threads, warps are added ascending.
// One block of 1,024 threads adds the leaves, leaf l on thread l % 1,024, ascending, and joins threads alike. A square of a
// float32 is exact in float64, so fused or not, each step rounds once.
//
// The roof is memory: N·4 bytes, and N/512 for the leaves, which one multiprocessor reads (16 MB, 0.2 ms, for 8e9 elements).
#include "rows.cuh"

struct GradNormArgs {
	float* norm;     // (1)
	double* leaves;  // (⌈N/4096⌉)
	const float* g;  // (N)
	i64 N;
};

const int LEAF = 4096;
const int LEAF_THREADS = 128;
const int QUADS = LEAF / 4 / LEAF_THREADS;  // of a thread
const int SUM_THREADS = 1024;
const int AHEAD = 8;  // leaves that a thread loads before it adds them

// The sum over the threads of a block, in thread 0. partial is (32) in shared memory.
DEVICE double sum_block(double x, double* partial) {
	for (int d = 16; d > 0; d /= 2) x += shfl_xor(x, d);
	if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = x;
	sync_block();
	if (threadIdx.x != 0) return 0;
	x = partial[0];
	for (int i = 1; i < (int)blockDim.x / 32; i++) x += partial[i];
	return x;
}

KERNEL(gradnorm_leaves, GradNormArgs, a, LEAF_THREADS, 8) {
	SHARED(shared);
	i64 at = (i64)blockIdx.x * LEAF;
	const float* g = a.g + at;
	Quad x[QUADS] = {};
	bool wide = aligned(g) && a.N - at >= LEAF;
#pragma unroll
	for (int k = 0; k < QUADS; k++) {
		int quad = threadIdx.x + k * LEAF_THREADS;
		if (wide)
			x[k] = ((const Quad*)g)[quad];
		else
			for (int i = 0; i < 4; i++)
				if (at + 4 * quad + i < a.N) x[k].v[i] = g[4 * quad + i];
	}
	double sum[4] = {};
#pragma unroll
	for (int k = 0; k < QUADS; k++)
		for (int i = 0; i < 4; i++) sum[i] += (double)x[k].v[i] * (double)x[k].v[i];
	double leaf = sum_block((sum[0] + sum[1]) + (sum[2] + sum[3]), (double*)shared);
	if (threadIdx.x == 0) a.leaves[blockIdx.x] = leaf;
}

KERNEL(gradnorm, GradNormArgs, a, SUM_THREADS, 1) {
	SHARED(shared);
	i64 leaves = (a.N + LEAF - 1) / LEAF;
	double sum = 0;
	for (i64 first = threadIdx.x; first < leaves; first += AHEAD * SUM_THREADS) {
		double x[AHEAD];
#pragma unroll
		for (int k = 0; k < AHEAD; k++) x[k] = first + k * SUM_THREADS < leaves ? a.leaves[first + k * SUM_THREADS] : 0;
#pragma unroll
		for (int k = 0; k < AHEAD; k++) sum += x[k];
	}
	sum = sum_block(sum, (double*)shared);
	if (threadIdx.x == 0) *a.norm = (float)sqrt(sum);
}
