// logprob_tiles and logprob_dz in Hopper's form: the logits of 64 rows and 256 tokens, two tiles, are in the registers of a warpgroup, and every
// row's in the four lanes of a quad, so that nothing passes through shared memory. The bits are those of logprob.cu.
#include "gemm_sm90.cuh"
#include "logprob.cuh"

struct LogProbSM90Args {
	LogProbArgs a;
	TensorMap x, w;
};

// The tile of columns 128·t and on of a row, whose logits are c[16t..][2h] and beside; col is its first token.
DEVICE void reduce_tile(const LogProbArgs& a, float (&c)[32][4], int t, int h, int row, int col) {
	int lane = threadIdx.x % 32, tiles = blocks(a.V, VOCAB_TILE);
	float u[4][4][2], top = minus_infinity();  // of the quarters
	int own = row < a.R ? a.target[row] - col : -1;
	float4* parts = a.parts + (i64)row * (1 + tiles);
#pragma unroll
	for (int j = 0; j < 16; j++)
		for (int e = 0; e < 2; e++) {
			int at = 8 * j + lane % 4 * 2 + e;
			float x = col + at < a.V ? c[16 * t + j][2 * h + e] * a.invT : minus_infinity();
			u[j / 4][j % 4][e] = x;
			top = larger(top, x);
			if (own == at) parts->x = x;
		}
	top = larger(top, shfl_xor(top, 2));
	top = larger(top, shfl_xor(top, 1));
	Quarter q = quarter(u[0], top, a.entropy != 0);
#pragma unroll
	for (int p = 1; p < 4; p++) add_quarter(q, quarter(u[p], top, a.entropy != 0));
	if (lane % 4 == 0 && row < a.R && col < a.V && a.target[row] >= 0) parts[1 + col / VOCAB_TILE] = tile_part(top, q);
}

KERNEL(logprob_tiles_sm90, LogProbSM90Args, p, 384, 1) {
	SHARED(shared);
	const LogProbArgs& a = p.a;
	GemmSM90<false, false>(shared).run(&p.x, &p.w, a.R, a.V, a.D, [&](int row, int col, float (&c)[32][4]) {
		int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32;
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int h = 0; h < 2; h++) reduce_tile(a, c, t, h, row + 16 * warp + 8 * h + lane / 4, col + VOCAB_TILE * t);
	});
}

struct LogProbDZSM90Args {
	LogProbDZArgs a;
	TensorMap x, w;
};

KERNEL(logprob_dz_sm90, LogProbDZSM90Args, p, 384, 1) {
	SHARED(shared);
	const LogProbDZArgs& a = p.a;
	GemmSM90<false, false>(shared).run(&p.x, &p.w, a.R, a.C, a.D, [&](int row, int col, float (&c)[32][4]) {
		int lane = threadIdx.x % 32;
		row += threadIdx.x % 128 / 32 * 16 + lane / 4, col += lane % 4 * 2;
#pragma unroll
		for (int h = 0; h < 2; h++) {
			if (row + 8 * h >= a.R) continue;
			DZRow r(a, row + 8 * h);
#pragma unroll
			for (int j = 0; j < 32; j++)
				if (col + 8 * j < a.C) {
					int at = col + 8 * j;
					*(u32*)(a.dz + (i64)r.row * a.ld + at) = cvt_bf16x2(r.at(at + 1, c[j][2 * h + 1]), r.at(at, c[j][2 * h]));
				}
		}
	});
}
