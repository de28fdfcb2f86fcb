// How the lanes' parts of a product become vectors.
#pragma once

#include "mma.h" // before what follows, so that its functions run on every CPU

#pragma GCC target("avx2,fma")
#pragma GCC optimize("O3") // so that the rows of a group stay in registers
#include <immintrin.h>

namespace emu {

// Rows g and g+8 of c, whose part of this product is at `at` of what lanes hold. Vectors hold a row of 8 columns in the
// order 0, 2, 4, 6, 1, 3, 5, 7, in which lanes hold them.
static inline void load_rows(const Operands& o, long at, int g, __m256* upper, __m256* lower) {
	float* const* c = o.c + 4 * g;
	__m128 x = _mm_loadu_ps(c[0] + at), y = _mm_loadu_ps(c[1] + at), z = _mm_loadu_ps(c[2] + at), u = _mm_loadu_ps(c[3] + at);
	_MM_TRANSPOSE4_PS(x, y, z, u);
	*upper = _mm256_set_m128(y, x);
	*lower = _mm256_set_m128(u, z);
}

static inline void store_rows(const Operands& o, long at, int g, __m256 upper, __m256 lower) {
	float* const* c = o.c + 4 * g;
	__m128 x = _mm256_castps256_ps128(upper), y = _mm256_extractf128_ps(upper, 1), z = _mm256_castps256_ps128(lower), u = _mm256_extractf128_ps(lower, 1);
	_MM_TRANSPOSE4_PS(x, y, z, u);
	_mm_storeu_ps(c[0] + at, x);
	_mm_storeu_ps(c[1] + at, y);
	_mm_storeu_ps(c[2] + at, z);
	_mm_storeu_ps(c[3] + at, u);
}

// Fragment j of b by k: row p holds the words with 2p and 2p+1 of every column.
static inline void words_of_b(const Operands& o, int j, __m256i (&w)[8]) {
	__m256i r[8], x[8];
	for (int i = 0; i < 8; i++) { // of column 0, 2, 4, 6, 1, 3, 5, 7: words 0, 4, 1, 5, 2, 6, 3, 7
		const uint32_t* const* b = o.b + 4 * (i < 4 ? 2 * i : 2 * i - 7);
		auto two = [&](int q) {
			return _mm_unpacklo_epi64(_mm_loadl_epi64((const __m128i*)(b[q] + 2 * j)), _mm_loadl_epi64((const __m128i*)(b[q + 1] + 2 * j)));
		};
		r[i] = _mm256_set_m128i(two(2), two(0));
	}
	for (int i = 0; i < 8; i += 2) {
		x[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
		x[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
	}
	for (int h = 0; h < 2; h++) { // in x[i + h]: words h and h+4, above them h+2 and h+6
		__m256i a0 = _mm256_unpacklo_epi64(x[h], x[2 + h]), a1 = _mm256_unpackhi_epi64(x[h], x[2 + h]);
		__m256i b0 = _mm256_unpacklo_epi64(x[4 + h], x[6 + h]), b1 = _mm256_unpackhi_epi64(x[4 + h], x[6 + h]);
		w[h] = _mm256_permute2x128_si256(a0, b0, 0x20), w[h + 4] = _mm256_permute2x128_si256(a1, b1, 0x20);
		w[h + 2] = _mm256_permute2x128_si256(a0, b0, 0x31), w[h + 6] = _mm256_permute2x128_si256(a1, b1, 0x31);
	}
}

} // namespace emu
