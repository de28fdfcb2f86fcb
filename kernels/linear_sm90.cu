// linear in Hopper's form: y = x·wᵀ by tiles of 128×256, one block for each multiprocessor. For many rows, whose roof is the
// tensor cores'; k and the addresses are multiples of 16 bytes, which boxes want.
#include "gemm_sm90.cuh"

struct LinearArgs {
	void* y;        // (T, N)
	const bf16* x;  // (T, K)
	const bf16* w;  // (N, K)
	int T, N, K;
	int rows, cols;
	int in, out;  // dtypes; out is BF16 or F32
	int _;
};

struct LinearSM90Args {
	LinearArgs a;
	TensorMap x, w;
};

KERNEL(linear_sm90, LinearSM90Args, p, GemmSM90::THREADS, 1) {
	SHARED(shared);
	const LinearArgs& a = p.a;
	GemmSM90(shared).run(&p.x, &p.w, a.T, a.N, a.K, [&](int row, int col, float (&c)[32][4]) {
		int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int r = row + 16 * warp + 8 * h + lane / 4;
			if (r >= a.T) continue;
#pragma unroll
			for (int j = 0; j < 32; j++) {
				int at = col + 8 * j + lane % 4 * 2;
				if (at >= a.N) continue;
				if (a.out == F32)
					put_pair((float*)a.y + (i64)r * a.N + at, c[j][2 * h], c[j][2 * h + 1], at + 1 < a.N);
				else
					put_pair((bf16*)a.y + (i64)r * a.N + at, c[j][2 * h], c[j][2 * h + 1], at + 1 < a.N);
			}
		}
	});
}
