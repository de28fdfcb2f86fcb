// The same bits as mma.cc, 8 columns at a time.
#ifdef __x86_64__
#include "mma_avx2.h"

namespace emu {

static inline __m256 low(__m256i x) { return _mm256_castsi256_ps(_mm256_slli_epi32(x, 16)); }
static inline __m256 high(__m256i x) { return _mm256_castsi256_ps(_mm256_and_si256(x, _mm256_set1_epi32((int)0xffff0000))); }

// Fragment j of b as float32: a row of 8 columns for each k.
static inline void columns(const Operands& o, int j, __m256 (&b)[16]) {
	__m256i w[8];
	words_of_b(o, j, w);
	for (int p = 0; p < 8; p++) b[2 * p] = low(w[p]), b[2 * p + 1] = high(w[p]);
}

// Fragment i of a as float32: a number of each row for each k.
static inline void rows(const Operands& o, int i, float (&a)[16][16]) {
	for (int q = 0; q < 4; q++) { // the lanes with pairs q and q+4
		auto lane = [&](int g) { return _mm_loadu_si128((const __m128i*)(o.a[4 * g + q] + 4 * i)); };
		__m256i x[4], y[4];
		for (int g = 0; g < 4; g++) x[g] = _mm256_set_m128i(lane(g + 4), lane(g));
		for (int h = 0; h < 2; h++) {
			y[2 * h] = _mm256_unpacklo_epi32(x[2 * h], x[2 * h + 1]);
			y[2 * h + 1] = _mm256_unpackhi_epi32(x[2 * h], x[2 * h + 1]);
		}
		for (int h = 0; h < 2; h++) { // words 2h and 2h+1 of the lanes: pair q + 4h of rows 0 to 7, of rows 8 to 15
			int k = 2 * (q + 4 * h);
			__m256i upper = _mm256_unpacklo_epi64(y[h], y[2 + h]), lower = _mm256_unpackhi_epi64(y[h], y[2 + h]);
			_mm256_store_ps(a[k], low(upper)), _mm256_store_ps(a[k] + 8, low(lower));
			_mm256_store_ps(a[k + 1], high(upper)), _mm256_store_ps(a[k + 1] + 8, high(lower));
		}
	}
}

// Half of the rows of a product, g to g+3 and g+8 to g+11: as many chains of sums as keep the adders busy.
const int GROUP = 8;
static inline int row_of(int g, int r) { return g + r / 2 + r % 2 * 8; }

struct Left {
	alignas(32) float a[16][16];
};

// Calls f(i, left, j, right, at) for every product, with what make_left and make_right make of fragments.
template <class Left, class Right, class MakeLeft, class MakeRight, class F>
static inline void each(const Products& p, Room& room, MakeLeft make_left, MakeRight make_right, F f) {
	const int most = 4;
	struct Made {
		Left left[most];
		Right right;
	};
	static_assert(sizeof(Made) <= sizeof(Room));
	Made& made = *(Made*)&room;
	for (int first = 0; first < p.m; first += most) {
		int m = p.m - first < most ? p.m - first : most;
		for (int i = 0; i < m; i++) make_left(first + i, made.left[i]);
		for (int j = 0; j < p.n; j++) {
			make_right(j, made.right);
			for (int i = 0; i < m; i++) f(first + i, made.left[i], j, made.right, (first + i) * p.stride + 4 * j);
		}
	}
}

struct Right {
	__m256 b[16];
};

void mma_fast_avx2(const Operands& o, const Products& p, Room& room) {
	each<Left, Right>(
	    p, room, [&](int i, Left& l) { rows(o, i, l.a); }, [&](int j, Right& r) { columns(o, j, r.b); },
	    [&](int, const Left& left, int, const Right& right, long at) {
		    for (int g = 0; g < 8; g += GROUP / 2) {
			    __m256 c[GROUP];
			    for (int r = 0; r < GROUP; r += 2) load_rows(o, at, g + r / 2, &c[r], &c[r + 1]);
			    for (int k = 0; k < 16; k++)
				    for (int r = 0; r < GROUP; r++) c[r] = _mm256_fmadd_ps(_mm256_broadcast_ss(&left.a[k][row_of(g, r)]), right.b[k], c[r]);
			    for (int r = 0; r < GROUP; r += 2) store_rows(o, at, g + r / 2, c[r], c[r + 1]);
		    }
	    });
}

// ---- The exact form of usual numbers, in float32: a product of bfloat16 is exact there, a product with a power of two as
// well, and the conversion to an integer cuts off.

// The range of a set of numbers: bits of the largest, and of the smallest but zeros.
struct Range {
	__m256i most, least;

	Range() : most(_mm256_setzero_si256()), least(_mm256_set1_epi32(0x7fffffff)) {}
	void add(__m256 x) {
		__m256i u = _mm256_and_si256(_mm256_castps_si256(x), _mm256_set1_epi32(0x7fffffff));
		most = _mm256_max_epi32(most, u);
		least = _mm256_min_epu32(least, _mm256_sub_epi32(u, _mm256_set1_epi32(1)));
	}
	template <class F>
	static unsigned fold(__m256i v, F f) {
		__m128i x = f(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
		x = f(x, _mm_shuffle_epi32(x, 0x4e));
		return (unsigned)_mm_cvtsi128_si32(f(x, _mm_shuffle_epi32(x, 0xb1)));
	}
	// Biased exponents.
	int largest() const { return (int)(fold(most, [](__m128i a, __m128i b) { return _mm_max_epi32(a, b); }) >> 23); }
	int smallest() const { return (int)((fold(least, [](__m128i a, __m128i b) { return _mm_min_epu32(a, b); }) + 1) >> 23); }
};

static inline __m256 power_of_two(__m256 x) { return _mm256_and_ps(x, _mm256_castsi256_ps(_mm256_set1_epi32(0x7f800000))); }

// A fragment, and of its numbers the powers of two and the exponents. Usual ones are neither infinities, NaNs nor subnormal.
template <class Numbers>
struct Usual {
	Numbers x, power;
	int largest, smallest;
	bool usual;

	void know(const Range& r) {
		largest = r.largest(), smallest = r.smallest();
		usual = largest < 255 && smallest > 0;
	}
};

static void usual_left(const Operands& o, int i, Usual<Left>& l) {
	Range range;
	rows(o, i, l.x.a);
	for (int k = 0; k < 16; k++)
		for (int r = 0; r < 16; r += 8) {
			__m256 x = _mm256_load_ps(l.x.a[k] + r);
			range.add(x);
			_mm256_store_ps(l.power.a[k] + r, power_of_two(x));
		}
	l.know(range);
}

static void usual_right(const Operands& o, int j, Usual<Right>& r) {
	Range range;
	columns(o, j, r.x.b);
	for (int k = 0; k < 16; k++) {
		range.add(r.x.b[k]);
		r.power.b[k] = power_of_two(r.x.b[k]);
	}
	r.know(range);
}

// The largest exponents of products and c for half of the rows, as powers of two.
static inline void tops(const Left& a, const Right& b, int g, const __m256* c, __m256* top) {
	__m256 m[GROUP];
	for (int r = 0; r < GROUP; r++) m[r] = power_of_two(c[r]);
	for (int k = 0; k < 16; k++)
		for (int r = 0; r < GROUP; r++) m[r] = _mm256_max_ps(m[r], _mm256_mul_ps(_mm256_broadcast_ss(&a.a[k][row_of(g, r)]), b.b[k]));
	for (int r = 0; r < GROUP; r++) top[r] = m[r];
}

// (sum + c)·unit of four outputs, cut off to 24 bits; never -0.
static inline __m128 cut(__m128i sum, __m128i c, __m128 unit) {
	__m256d x = _mm256_mul_pd(_mm256_add_pd(_mm256_cvtepi32_pd(sum), _mm256_cvtepi32_pd(c)), _mm256_cvtps_pd(unit));
	return _mm256_cvtpd_ps(_mm256_and_pd(x, _mm256_castsi256_pd(_mm256_set1_epi64x(~0x1fffffffll))));
}

// Four rows of sums, from row r of the group on.
static inline void sums(const Left& a, const Right& b, int g, int r, __m256* c, const __m256* top) {
	__m256 scale[4]; // 2^25 / top
	__m256i sum[4];  // of 16 numbers under 2^27
	for (int i = 0; i < 4; i++) {
		scale[i] = _mm256_castsi256_ps(_mm256_sub_epi32(_mm256_set1_epi32((int)((2 * 127u + 25) << 23)), _mm256_castps_si256(top[r + i])));
		sum[i] = _mm256_setzero_si256();
	}
	for (int k = 0; k < 16; k++)
		for (int i = 0; i < 4; i++) {
			__m256 p = _mm256_mul_ps(_mm256_broadcast_ss(&a.a[k][row_of(g, r + i)]), b.b[k]);
			sum[i] = _mm256_add_epi32(sum[i], _mm256_cvttps_epi32(_mm256_mul_ps(p, scale[i])));
		}
	for (int i = 0; i < 4; i++) {
		__m256i z = _mm256_cvttps_epi32(_mm256_mul_ps(c[r + i], scale[i]));
		__m256 unit = _mm256_mul_ps(top[r + i], _mm256_set1_ps(0x1p-25f));
		__m128 lo = cut(_mm256_castsi256_si128(sum[i]), _mm256_castsi256_si128(z), _mm256_castps256_ps128(unit));
		__m128 up = cut(_mm256_extracti128_si256(sum[i], 1), _mm256_extracti128_si256(z, 1), _mm256_extractf128_ps(unit, 1));
		c[r + i] = _mm256_set_m128(up, lo);
	}
}

const float LEAST_TOP = 0x1p-100f; // so that sums are normal numbers, and what becomes of products that are not is cut off

static inline __m256 too_small(__m256 top) { return _mm256_cmp_ps(top, _mm256_set1_ps(LEAST_TOP), _CMP_LT_OQ); }

// Where tops are too small: fine if they are zeros, and those of zeros only.
static bool only_zeros(__m256* top, bool vanishing) {
	for (int g = 0; g < 16; g++) {
		__m256 small = too_small(top[g]);
		if (!vanishing) small = _mm256_and_ps(small, _mm256_cmp_ps(top[g], _mm256_setzero_ps(), _CMP_GT_OQ));
		if (_mm256_movemask_ps(small)) return false;
		top[g] = _mm256_max_ps(top[g], _mm256_set1_ps(LEAST_TOP));
	}
	return true;
}

// False, and nothing has changed, if numbers are not usual.
static bool exact_usual(const Operands& o, const Usual<Left>& a, const Usual<Right>& b, long at) {
	if (!a.usual || !b.usual || a.largest + b.largest > 2 * 127 + 124) return false; // no product passes the largest float32
	__m256 c[16], top[16], least = _mm256_set1_ps(LEAST_TOP);
	Range range;
	for (int g = 0; g < 8; g++) {
		load_rows(o, at, g, &c[2 * g], &c[2 * g + 1]);
		range.add(c[2 * g]), range.add(c[2 * g + 1]);
	}
	if (range.largest() == 255 || range.smallest() == 0) return false;
	for (int g = 0; g < 8; g += GROUP / 2) tops(a.power, b.power, g, c + 2 * g, top + 2 * g);
	for (int g = 0; g < 16; g++) least = _mm256_min_ps(least, top[g]);
	bool vanishing = a.smallest + b.smallest < 2 * 127 - 149; // a product of powers may be 0 though no factor is
	if (_mm256_movemask_ps(too_small(least)) && !only_zeros(top, vanishing)) return false;
	for (int g = 0; g < 8; g += GROUP / 2)
		for (int r = 0; r < GROUP; r += 4) sums(a.x, b.x, g, r, c + 2 * g, top + 2 * g);
	for (int g = 0; g < 8; g++) store_rows(o, at, g, c[2 * g], c[2 * g + 1]);
	return true;
}

void mma_exact_avx2(const Operands& o, const Products& p, Room& room) {
	each<Usual<Left>, Usual<Right>>(
	    p, room, [&](int i, Usual<Left>& l) { usual_left(o, i, l); }, [&](int j, Usual<Right>& r) { usual_right(o, j, r); },
	    [&](int i, const Usual<Left>& left, int j, const Usual<Right>& right, long at) {
		    if (!exact_usual(o, left, right, at)) by_tile(o, p, i, j, exact_tile_avx2);
	    });
}

} // namespace emu
#endif
