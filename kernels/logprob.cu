// logprob_tiles  for every row and tile of 128 tokens of the vocabulary: the largest u = (x·wᵀ)·invT, its softmax's partial sums, and the
//                target's u
// logprob        joins a row's tiles: log-probability of the target, log-sum-exp, entropy
// logprob_dz     a chunk of the gradient of the logits, which are computed again
//
// The logits (R, V) are never written: a block has a tile of 128×128 of them in registers, as linear_128 does, and reduces
// it there. A tile's row is in 4 warps, a quarter of 32 tokens each. The roof is the tensor cores': 2·R·V·D flops each.
#include "gemm.cuh"
#include "logprob.cuh"

typedef Gemm<128, VOCAB_TILE, 64, 64, 32, 3, false, false> Logits;

KERNEL(logprob_tiles, LogProbArgs, a, Logits::THREADS, 2) {
	SHARED(shared);
	int row0, col0;
	tile_at(blockIdx.x, a.R, a.V, 128, VOCAB_TILE, row0, col0);
	Logits g;
	g.zero();
	g.add(shared, Matrix{a.x, a.R, a.D, a.D}, Matrix{a.w, a.V, a.D, a.D}, row0, col0, a.D);

	float* tops = (float*)shared;                  // (128, 4)
	Quarter* quarters = (Quarter*)(tops + 128 * 4);  // (128, 4)
	int lane = threadIdx.x % 32, part = g.warp_col() / 32, tiles = blocks(a.V, VOCAB_TILE);
	// u of row i of the lane's eight; columns beyond the vocabulary are as good as impossible.
	auto us = [&](int i, float (&u)[4][2]) {
#pragma unroll
		for (int j = 0; j < 4; j++)
			for (int e = 0; e < 2; e++) {
				int col = col0 + g.warp_col() + 8 * j + lane % 4 * 2 + e;
				u[j][e] = col < a.V ? g.c[i / 2][j][i % 2 * 2 + e] * a.invT : minus_infinity();
			}
	};
#pragma unroll
	for (int i = 0; i < 8; i++) {
		int row = g.warp_row() + i / 2 * 16 + i % 2 * 8 + lane / 4;
		float u[4][2], top = minus_infinity();
		us(i, u);
		int own = row0 + row < a.R ? a.target[row0 + row] - col0 - g.warp_col() : -1;
#pragma unroll
		for (int j = 0; j < 4; j++)
			for (int e = 0; e < 2; e++) {
				top = larger(top, u[j][e]);
				if (own == 8 * j + lane % 4 * 2 + e) a.parts[(i64)(row0 + row) * (1 + tiles)].x = u[j][e];
			}
		top = larger(top, shfl_xor(top, 2));
		top = larger(top, shfl_xor(top, 1));
		if (lane % 4 == 0) tops[row * 4 + part] = top;
	}
	sync_block();  // tops
#pragma unroll
	for (int i = 0; i < 8; i++) {
		int row = g.warp_row() + i / 2 * 16 + i % 2 * 8 + lane / 4;
		float u[4][2], top = tops[row * 4];
		for (int p = 1; p < 4; p++) top = larger(top, tops[row * 4 + p]);
		us(i, u);
		Quarter q = quarter(u, top, a.entropy != 0);
		if (lane % 4 == 0) quarters[row * 4 + part] = q;
	}
	sync_block();  // quarters
	int row = threadIdx.x;
	if (row >= 128 || row0 + row >= a.R || a.target[row0 + row] < 0) return;
	float top = tops[row * 4];
	Quarter q = quarters[row * 4];
	for (int p = 1; p < 4; p++) {
		top = larger(top, tops[row * 4 + p]);
		add_quarter(q, quarters[row * 4 + p]);
	}
	a.parts[(i64)(row0 + row) * (1 + tiles) + 1 + col0 / VOCAB_TILE] = tile_part(top, q);
}

// A warp has a row.
KERNEL(logprob, LogProbArgs, a, 128, 8) {
	int row = blockIdx.x * 4 + threadIdx.x / 32, lane = threadIdx.x % 32;
	if (row >= a.R) return;
	if (a.target[row] < 0) {
		if (lane == 0) a.logp[row] = 0, a.lse[row] = 0;
		if (lane == 0 && a.entropy) a.entropy[row] = 0;
		return;
	}
	int tiles = blocks(a.V, VOCAB_TILE);
	const float4* parts = a.parts + (i64)row * (1 + tiles) + 1;
	float top, sum;
	join_tiles(tiles, [&](int t) { return make_float2(parts[t].x, parts[t].y); }, top, sum);
	double rest = 0, mean = 0;
	for (int t = lane; t < tiles && a.entropy; t += 32) {
		float4 p = parts[t];
		if (p.y == 0) continue;
		// The largest term of a tile is worth its weight; one of all is not part of the rest.
		double weight = tile_weight(p.x, top);
		rest += weight * p.z + weight;
		mean += weight * ((double)p.w + (double)p.y * (p.x - top));
	}
	rest = sum_warp(rest) - 1, mean = sum_warp(mean);
	if (lane != 0) return;
	a.logp[row] = (parts[-1].x - top) - ln_once(sum);
	a.lse[row] = top + ln_once(sum);
	if (a.entropy) a.entropy[row] = sum != sum ? sum : (float)(ln1p64(rest) - mean / (1 + rest));
}

KERNEL(logprob_dz, LogProbDZArgs, a, Logits::THREADS, 2) {
	SHARED(shared);
	int row0, col0;
	tile_at(blockIdx.x, a.R, a.C, 128, VOCAB_TILE, row0, col0);
	Logits g;
	g.zero();
	g.add(shared, Matrix{a.x, a.R, a.D, a.D}, Matrix{a.w, a.C, a.D, a.D}, row0, col0, a.D);
	g.pairs([&](int r, int c, float c0, float c1) {
		r += row0, c += col0;
		if (r < a.R && c < a.C) DZRow(a, r).put(c, c0, c1);
	});
}
