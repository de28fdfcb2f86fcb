// C += A·B of bfloat16 tiles, 16 values of k: in plain fused multiply-adds, and as Hopper and Blackwell do it.
#pragma once

#include <stdint.h>

namespace emu {

// Pairs of k share a word, the first in its low half.
struct Tile {
	alignas(32) float c[16][8];
	alignas(32) uint32_t a[16][8]; // by rows
	alignas(32) uint32_t b[8][8];  // b[k/2] holds its 8 columns
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
