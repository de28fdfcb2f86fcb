// The exact form for numbers of all sizes, in integers, 8 columns at a time.
#ifdef __x86_64__
#include "mma_avx2.h"

namespace emu {

const int NONE = -4096;

// Eight bfloat16 in the low halves of words: signed significands of 8 bits, and exponents. Returns those of infinities
// and NaNs.
static inline __m256i split(__m256i x, __m256i* significand, __m256i* exponent) {
	const __m256i zero = _mm256_setzero_si256();
	__m256i e = _mm256_and_si256(_mm256_srli_epi32(x, 7), _mm256_set1_epi32(255));
	__m256i m = _mm256_and_si256(x, _mm256_set1_epi32(127));
	__m256i normal = _mm256_cmpgt_epi32(e, zero);
	m = _mm256_or_si256(m, _mm256_and_si256(normal, _mm256_set1_epi32(128)));
	__m256i unbiased = _mm256_sub_epi32(_mm256_max_epi32(e, _mm256_set1_epi32(1)), _mm256_set1_epi32(127));
	*exponent = _mm256_blendv_epi8(unbiased, _mm256_set1_epi32(NONE), _mm256_cmpeq_epi32(m, zero));
	__m256i negative = _mm256_cmpgt_epi32(_mm256_and_si256(x, _mm256_set1_epi32(0x8000)), zero);
	*significand = _mm256_sub_epi32(_mm256_xor_si256(m, negative), negative);
	return _mm256_cmpeq_epi32(e, _mm256_set1_epi32(255));
}

// Four sums with their scales, cut off to 24 bits; sets tiny if one is not a normal float32 and not zero.
static inline __m128 cut(__m128i sum, __m128i accumulator, __m128i top, __m256d* tiny) {
	__m256d s = _mm256_add_pd(_mm256_cvtepi32_pd(sum), _mm256_cvtepi32_pd(accumulator));
	__m256i scale = _mm256_slli_epi64(_mm256_cvtepi32_epi64(_mm_add_epi32(top, _mm_set1_epi32(1023 - 25))), 52);
	__m256d x = _mm256_mul_pd(s, _mm256_castsi256_pd(scale));
	x = _mm256_and_pd(x, _mm256_castsi256_pd(_mm256_set1_epi64x(~0x1fffffffll)));
	__m256d size = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
	__m256d small = _mm256_and_pd(_mm256_cmp_pd(size, _mm256_set1_pd(0x1p-126), _CMP_LT_OQ), _mm256_cmp_pd(size, _mm256_setzero_pd(), _CMP_GT_OQ));
	*tiny = _mm256_or_pd(*tiny, small);
	return _mm256_cvtpd_ps(_mm256_add_pd(x, _mm256_setzero_pd())); // never -0
}

// Numbers of a as (lane, word): significands and exponents of the first of each pair, then of the second.
struct Rows {
	alignas(32) int significand[2][32][4], exponent[2][32][4];
};

// A row of sums; sets tiny if a result has to be cut off below 24 bits.
static inline __m256 exact_row(const Rows& a, int g, int hi, const __m256i* b_significand, const __m256i* b_exponent, __m256i c, __m256d* tiny) {
	const __m256i zero = _mm256_setzero_si256();
	__m256i e = _mm256_and_si256(_mm256_srli_epi32(c, 23), _mm256_set1_epi32(255));
	__m256i m = _mm256_and_si256(c, _mm256_set1_epi32(0x7fffff));
	m = _mm256_or_si256(m, _mm256_and_si256(_mm256_cmpgt_epi32(e, zero), _mm256_set1_epi32(0x800000)));
	__m256i exponent = _mm256_sub_epi32(_mm256_max_epi32(e, _mm256_set1_epi32(1)), _mm256_set1_epi32(127));
	exponent = _mm256_blendv_epi8(exponent, _mm256_set1_epi32(2 * NONE), _mm256_cmpeq_epi32(m, zero));
	__m256i top = exponent;
	for (int k = 0; k < 16; k++) {
		int x = a.exponent[k & 1][4 * g + k / 2 % 4][hi + k / 8 * 2];
		top = _mm256_max_epi32(top, _mm256_add_epi32(b_exponent[k], _mm256_set1_epi32(x)));
	}
	__m256i sum = zero; // of 16 numbers under 2^27
	for (int k = 0; k < 16; k++) {
		int x = a.exponent[k & 1][4 * g + k / 2 % 4][hi + k / 8 * 2], y = a.significand[k & 1][4 * g + k / 2 % 4][hi + k / 8 * 2];
		__m256i p = _mm256_madd_epi16(b_significand[k], _mm256_set1_epi32(y));
		__m256i shift = _mm256_sub_epi32(top, _mm256_add_epi32(b_exponent[k], _mm256_set1_epi32(x)));
		__m256i s = _mm256_srlv_epi32(_mm256_slli_epi32(_mm256_abs_epi32(p), 11), shift);
		sum = _mm256_add_epi32(sum, _mm256_sign_epi32(s, p));
	}
	__m256i accumulator = _mm256_srlv_epi32(_mm256_slli_epi32(m, 2), _mm256_sub_epi32(top, exponent));
	__m256i negative = _mm256_srai_epi32(c, 31);
	accumulator = _mm256_sub_epi32(_mm256_xor_si256(accumulator, negative), negative);
	top = _mm256_max_epi32(top, _mm256_set1_epi32(-600)); // of zeros
	__m128 lo = cut(_mm256_castsi256_si128(sum), _mm256_castsi256_si128(accumulator), _mm256_castsi256_si128(top), tiny);
	__m128 up = cut(_mm256_extracti128_si256(sum, 1), _mm256_extracti128_si256(accumulator, 1), _mm256_extracti128_si256(top, 1), tiny);
	return _mm256_set_m128(up, lo);
}

void exact_tile_avx2(Tile& t) {
	const __m256i low = _mm256_set1_epi32(0xffff);
	Rows a;
	__m256i b_significand[16], b_exponent[16], odd = _mm256_setzero_si256(); // odd: infinities and NaNs
	__m256i w[8];
	const Operands o = t.operands();
	words_of_b(o, 0, w);
	for (int p = 0; p < 8; p++) {
		__m256i b = w[p];
		odd = _mm256_or_si256(odd, split(_mm256_and_si256(b, low), &b_significand[2 * p], &b_exponent[2 * p]));
		odd = _mm256_or_si256(odd, split(_mm256_srli_epi32(b, 16), &b_significand[2 * p + 1], &b_exponent[2 * p + 1]));
	}
	for (int k = 0; k < 16; k++) b_significand[k] = _mm256_and_si256(b_significand[k], low); // so that madd sees one product
	for (int l = 0; l < 32; l += 2) {
		__m256i x = _mm256_load_si256((const __m256i*)t.a[l]), m, e;
		odd = _mm256_or_si256(odd, split(_mm256_and_si256(x, low), &m, &e));
		_mm256_store_si256((__m256i*)a.significand[0][l], m);
		_mm256_store_si256((__m256i*)a.exponent[0][l], e);
		odd = _mm256_or_si256(odd, split(_mm256_srli_epi32(x, 16), &m, &e));
		_mm256_store_si256((__m256i*)a.significand[1][l], m);
		_mm256_store_si256((__m256i*)a.exponent[1][l], e);
		__m256i c = _mm256_and_si256(_mm256_srli_epi32(_mm256_load_si256((const __m256i*)t.c[l]), 23), _mm256_set1_epi32(255));
		odd = _mm256_or_si256(odd, _mm256_cmpeq_epi32(c, _mm256_set1_epi32(255)));
	}
	if (!_mm256_testz_si256(odd, odd)) return exact_specials(t, exact_tile_avx2);
	__m256d tiny = _mm256_setzero_pd();
	__m256 c[16];
	for (int g = 0; g < 8; g++) {
		load_rows(o, 0, g, &c[2 * g], &c[2 * g + 1]);
		for (int hi = 0; hi < 2; hi++) c[2 * g + hi] = exact_row(a, g, hi, b_significand, b_exponent, _mm256_castps_si256(c[2 * g + hi]), &tiny);
	}
	if (_mm256_movemask_pd(tiny)) return exact_tile(t);
	for (int g = 0; g < 8; g++) store_rows(o, 0, g, c[2 * g], c[2 * g + 1]);
}

} // namespace emu
#endif
