// C += A·B of bfloat16 fragments, 16 values of k: in plain fused multiply-adds, and as Hopper and Blackwell do it.
#pragma once

#include <stdint.h>
#include <string.h>

#include "../emu.h"

namespace emu {

// Where the 32 lanes of a warp hold their parts of p.m·p.n products: fragment i of a at a[lane] + 4i, fragment j of b at
// b[lane] + 2j, and their product at c[lane] + i·stride + 4j.
struct Operands {
	float* c[32];
	const uint32_t *a[32], *b[32];
};

// Memory to work in. A warp's last lane multiplies, another each time, and on its own stack this would never be in the cache.
struct Room {
	alignas(64) char bytes[12 << 10];
};

// One product as the lanes hold it (see mma_bf16 in ptx.cuh): pairs of k share a word, the first in its low half.
struct Tile {
	alignas(32) float c[32][4];
	alignas(32) uint32_t a[32][4];
	alignas(32) uint32_t b[32][2];

	// The word with k and k+1 of row i of a, k even; of column j of b; and the sum in row i, column j.
	DEVICE uint32_t& at_a(int i, int k) { return a[i % 8 * 4 + k % 8 / 2][i / 8 + k / 8 * 2]; }
	DEVICE uint32_t& at_b(int k, int j) { return b[j * 4 + k % 8 / 2][k / 8]; }
	DEVICE float& at_c(int i, int j) { return c[i % 8 * 4 + j / 2][i / 8 * 2 + j % 2]; }

	DEVICE Operands operands() {
		Operands o;
		for (int l = 0; l < 32; l++) o.c[l] = c[l], o.a[l] = a[l], o.b[l] = b[l];
		return o;
	}
};

// What `work` does to a tile, for one product.
template <class Work>
DEVICE void by_tile(const Operands& o, const Products& p, int i, int j, Work work) {
	Tile t;
	for (int l = 0; l < 32; l++) {
		memcpy(t.c[l], o.c[l] + i * p.stride + 4 * j, 16);
		memcpy(t.a[l], o.a[l] + 4 * i, 16);
		memcpy(t.b[l], o.b[l] + 2 * j, 8);
	}
	work(t);
	for (int l = 0; l < 32; l++) memcpy(o.c[l] + i * p.stride + 4 * j, t.c[l], 16);
}

// As the settings say.
void mma(const Operands& o, const Products& p, Room& room);

// One float32 accumulator that takes k ascending by fused multiply-adds.
void mma_fast_plain(const Operands& o, const Products& p, Room& room);
void mma_fast_avx2(const Operands& o, const Products& p, Room& room);

// The 16 products, exact, and the accumulator are aligned to the largest exponent among them (that of a product is the
// sum of its factors' exponents), cut off after 25 fraction bits, added, and the sum is cut off to float32.
// M. Fasi, N. Higham, M. Mikaitis, S. Pranesh, "Numerical behavior of NVIDIA tensor cores", 2021, describe the method;
// arXiv 2511.10909 and 2512.07004 find 25 bits for Hopper and Blackwell. Zeros take no part in the largest exponent, an
// overflow is infinite, and NaNs are 0x7fffffff.
void mma_exact_plain(const Operands& o, const Products& p, Room& room);
void mma_exact_avx2(const Operands& o, const Products& p, Room& room);

// Of one tile, with numbers of every kind.
void exact_tile(Tile& t);
void exact_tile_avx2(Tile& t);
void exact_specials(Tile& t, void (*finite)(Tile&)); // `finite` does what has neither infinities nor NaNs

bool have_avx2();

} // namespace emu
