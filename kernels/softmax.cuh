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
