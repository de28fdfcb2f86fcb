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
DEVICE float tile_weight(float top, float row_top) { return top == row_top ? 1 : exp2_small((top - row_top) * LOG2E); }

// The sum over a warp's lanes, in every lane: 16 apart first, then 8, 4, 2, 1.
DEVICE double sum_warp(double x) {
	for (int d = 16; d > 0; d /= 2) x += shfl_xor(x, d);
	return x;
}

// Adds each of D numbers over a warp's lanes that differ in the bits from D down, D apart first: half of the numbers stay and
// half go to the lane that adds them, and so on with half as many.
template <int D>
DEVICE void sum_halves(float (&x)[16]) {
	bool upper = threadIdx.x & D;
#pragma unroll
	for (int v = 0; v < D / 2; v++) {
		float lo = x[v], hi = x[v + D / 2];
		x[v] = (upper ? hi : lo) + shfl_xor(upper ? lo : hi, D);
	}
	if constexpr (D > 2) sum_halves<D / 2>(x);
}

// The sums of 16 numbers over a warp's lanes, 16 apart first, then 8, 4, 2, 1: lane l has that of x[l/2]. 16 shuffles do what
// takes 80 one by one.
DEVICE float sum_warp_16(float (&x)[16]) {
	sum_halves<16>(x);
	return x[0] + shfl_xor(x[0], 1);
}

// Four tiles, of each of which lane l has tokens l, l+32, l+64 and l+96, at -Inf beyond the vocabulary: lane l has top and
// sum of tile l/8.
DEVICE float2 tile_sums(const float (&u)[4][4]) {
	int lane = threadIdx.x % 32;
	float x[16], own = 0;
#pragma unroll
	for (int t = 0; t < 4; t++) {
		float top = max_warp(larger(larger(u[t][0], u[t][1]), larger(u[t][2], u[t][3])));
		if (lane / 8 == t) own = top;
#pragma unroll
		for (int k = 0; k < 4; k++) x[4 * t + k] = exp2_small(below(u[t][k], top) * LOG2E);
	}
	float quarter = sum_warp_16(x), sum = shfl(quarter, lane / 8 * 8);
	for (int k = 1; k < 4; k++) sum += shfl(quarter, lane / 8 * 8 + 2 * k);
	return make_float2(own, sum);
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
