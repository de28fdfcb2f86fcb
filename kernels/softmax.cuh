// The softmax of a row of the vocabulary, tile by tile, as trainer and sampler both compute it: from u = z·1/T,
//
//	top = max u    sum = Σ exp2((u - top)·log2 e)    over a tile of 128 tokens
//
// where a quarter of 32 tokens is added as a tree (16 apart, then 8, 4, 2, 1) and the quarters ascending. NaN and +Inf give a
// NaN sum, tokens of -Inf nothing, and a tile of nothing but those a sum of 0.
#pragma once

#include "kernel.cuh"

const int VOCAB_TILE = 128;

// u - top, with a floor where exp2 gives 0. If there is nothing but -Inf, a NaN stays.
DEVICE float below(float u, float top) {
	if (top == minus_infinity()) return u == top ? -128 : u;
	float v = u - top;
	return v < -128 ? -128 : v;
}

// What a unit of a tile's sum counts for beside the row's maximum.
DEVICE float tile_weight(float top, float row_top) { return top == row_top ? 1 : exp2_poly((top - row_top) * LOG2E); }

// The sum over a warp's lanes, in every lane: 16 apart first, then 8, 4, 2, 1.
DEVICE double sum_warp(double x) {
	for (int d = 16; d > 0; d /= 2) x += shfl_xor(x, d);
	return x;
}

// A tile of which lane l has tokens l, l+32, l+64 and l+96, at -Inf beyond the vocabulary: top and sum, in every lane.
DEVICE float2 tile_sum(const float (&u)[4]) {
	float top = max_warp(larger(larger(u[0], u[1]), larger(u[2], u[3])));
	float sum = 0;
	for (int k = 0; k < 4; k++) {
		float q = sum_warp(exp2_poly(below(u[k], top) * LOG2E));
		sum = k == 0 ? q : sum + q;
	}
	return make_float2(top, sum);
}

// Joins a row's tiles: part(t) is top and sum of tile t. Lane l takes tiles l, l+32 and so on, ascending, and the lanes are
// added as a tree. The sum is NaN if the row has no distribution. A warp calls it and every lane has the result.
template <class Part>
DEVICE void join_tiles(int tiles, Part part, float& top, float& sum) {
	int lane = threadIdx.x % 32;
	top = minus_infinity(), sum = 0;
	for (int t = lane; t < tiles; t += 32) top = larger(top, part(t).x);
	top = max_warp(top);
	for (int t = lane; t < tiles; t += 32) {
		float2 p = part(t);
		if (p.y != 0) sum += p.y * tile_weight(p.x, top);
	}
	sum = sum_warp(sum);
	if (top == minus_infinity()) sum = bits_float(0x7fc00000u);
}
