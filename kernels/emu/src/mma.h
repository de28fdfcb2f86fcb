// C += A·B of bfloat16 tiles, 16 values of k: in plain fused multiply-adds, and as Hopper and Blackwell do it.
#pragma once

#include <stdint.h>

namespace emu {

// A tile as the 32 lanes of a warp hold it (see mma_bf16 in ptx.cuh): pairs of k share a word, the first in its low half.
struct Tile {
	alignas(32) float c[32][4];
	alignas(32) uint32_t a[32][4];
	alignas(32) uint32_t b[32][2];

	// The word with k and k+1 of row i of a, k even; of column j of b; and the sum in row i, column j.
	uint32_t& at_a(int i, int k) { return a[i % 8 * 4 + k % 8 / 2][i / 8 + k / 8 * 2]; }
	uint32_t& at_b(int k, int j) { return b[j * 4 + k % 8 / 2][k / 8]; }
	float& at_c(int i, int j) { return c[i % 8 * 4 + j / 2][i / 8 * 2 + j % 2]; }
};

// As the settings say.
void mma(Tile& t);

// One float32 accumulator that takes k ascending by fused multiply-adds.
void mma_fast_plain(Tile& t);
void mma_fast_avx2(Tile& t);

// The 16 products, exact, and the accumulator are aligned to the largest exponent among them (that of a product is the
// sum of its factors' exponents), cut off after 25 fraction bits, added, and the sum is cut off to float32.
// M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021, describe the method;
// arXiv 2511.10909 and 2512.07004 find 25 bits for Hopper and Blackwell. Zeros take no part in the largest exponent, an
// overflow is infinite, and NaNs are 0x7fffffff.
void mma_exact_plain(Tile& t);
void mma_exact_avx2(Tile& t);

bool have_avx2();

} // namespace emu
