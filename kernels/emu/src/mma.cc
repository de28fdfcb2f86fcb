#include "mma.h"

#include <math.h>

#include "settings.h"

namespace emu {

bool have_avx2() {
	static const bool yes = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
	return yes;
}

void mma(const Operands& o, const Products& p, Room& room) {
	if (settings().exact) have_avx2() ? mma_exact_avx2(o, p, room) : mma_exact_plain(o, p, room);
	else have_avx2() ? mma_fast_avx2(o, p, room) : mma_fast_plain(o, p, room);
}

template <class Work>
static void by_tiles(const Operands& o, const Products& p, Work work) {
	for (int i = 0; i < p.m; i++)
		for (int j = 0; j < p.n; j++) by_tile(o, p, i, j, work);
}

// Row i of a and column j of b.
static void operands(Tile& t, int i, int j, float* a, float* b) {
	for (int k = 0; k < 16; k += 2) {
		uint32_t x = t.at_a(i, k), y = t.at_b(k, j);
		a[k] = bits_float(x << 16), a[k + 1] = bits_float(x & 0xffff0000u);
		b[k] = bits_float(y << 16), b[k + 1] = bits_float(y & 0xffff0000u);
	}
}

static void fast_tile(Tile& t) {
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 8; j++) {
			float a[16], b[16];
			operands(t, i, j, a, b);
			for (int k = 0; k < 16; k++) t.at_c(i, j) = fmaf(a[k], b[k], t.at_c(i, j));
		}
}

const int NONE = -4096; // the exponent of zero

// A finite number is significand·2^(exponent - bits).
struct Parts {
	int sign, exponent;
	int64_t significand;
};

static Parts parts(float x, int bits) {
	uint32_t u = float_bits(x);
	int e = u >> 23 & 255;
	int64_t m = (u & 0x7fffff) | (e ? 0x800000 : 0);
	return {u >> 31 ? -1 : 1, m ? (e ? e : 1) - 127 : NONE, m >> (23 - bits)};
}

static float special(const float* a, const float* b, float c) {
	float s = c; // infinities and NaNs only: the rest can't change the result
	if (isfinite(s)) s = 0;
	for (int k = 0; k < 16; k++)
		if (!isfinite(a[k]) || !isfinite(b[k])) s += a[k] * b[k];
	return s != s ? bits_float(0x7fffffff) : s;
}

// Towards zero, to the float32 of which 2^-149 is the least.
static float cut(double x) {
	if (fabs(x) < 0x1p-126) return (float)(trunc(x * 0x1p149) * 0x1p-149);
	uint64_t u;
	memcpy(&u, &x, 8);
	u &= ~0x1fffffffull;
	memcpy(&x, &u, 8);
	return fabs(x) >= 0x1p128 ? copysignf(INFINITY, (float)copysign(1, x)) : (float)x;
}

static float dot(const float* a, const float* b, float c) {
	bool finite = isfinite(c);
	for (int k = 0; k < 16; k++) finite = finite && isfinite(a[k]) && isfinite(b[k]);
	if (!finite) return special(a, b, c);
	Parts p[17];
	int top = 2 * NONE;
	for (int k = 0; k < 16; k++) {
		Parts x = parts(a[k], 7), y = parts(b[k], 7);
		p[k] = {x.sign * y.sign, x.exponent + y.exponent, x.significand * y.significand << 11};
		if (p[k].exponent > top) top = p[k].exponent;
	}
	Parts z = parts(c, 23);
	p[16] = {z.sign, z.exponent, z.significand << 2};
	if (z.exponent > top) top = z.exponent;
	int64_t sum = 0;
	for (Parts& x : p) {
		int shift = top - x.exponent;
		sum += x.sign * (shift < 40 ? x.significand >> shift : 0);
	}
	return sum ? cut(ldexp((double)sum, top - 25)) : 0;
}

void exact_tile(Tile& t) {
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 8; j++) {
			float a[16], b[16];
			operands(t, i, j, a, b);
			t.at_c(i, j) = dot(a, b, t.at_c(i, j));
		}
}

// Of some 16-bit halves of a word: makes zeros of infinities and NaNs, and says which there were.
struct Specials {
	bool infinite = false, nan = false;

	void take(uint32_t& word) {
		for (uint32_t low = 0xffff; low; low <<= 16) {
			uint32_t exponent = word & low & 0x7f807f80, fraction = word & low & 0x007f007f;
			if (exponent != (low & 0x7f807f80)) continue;
			(fraction ? nan : infinite) = true;
			word &= ~low;
		}
	}
};

void exact_specials(Tile& t, void (*finite)(Tile&)) {
	Tile rest = t;
	Specials row[16], column[8];
	for (int k = 0; k < 16; k += 2) {
		for (int i = 0; i < 16; i++) row[i].take(rest.at_a(i, k));
		for (int j = 0; j < 8; j++) column[j].take(rest.at_b(k, j));
	}
	for (auto& lane : rest.c)
		for (float& c : lane)
			if (!isfinite(c)) c = 0;
	finite(rest);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 8; j++) {
			float c = t.at_c(i, j);
			if (row[i].nan || column[j].nan || c != c) {
				rest.at_c(i, j) = bits_float(0x7fffffff);
			} else if (row[i].infinite || column[j].infinite || !isfinite(c)) {
				float a[16], b[16];
				operands(t, i, j, a, b);
				rest.at_c(i, j) = dot(a, b, c);
			}
		}
	memcpy(t.c, rest.c, sizeof t.c);
}

void mma_fast_plain(const Operands& o, const Products& p, Room&) { by_tiles(o, p, fast_tile); }
void mma_exact_plain(const Operands& o, const Products& p, Room&) { by_tiles(o, p, exact_tile); }

} // namespace emu

// For tests: one tile by a form of one's choice. Form: 0 and 1 are fast, 2 and 3 exact; odd ones AVX2.
extern "C" EMU_EXPORT int emu_mma(int form, float* c, const uint32_t* a, const uint32_t* b) {
	emu::Tile t;
	if (form & 1 && !emu::have_avx2()) return 1;
	for (int i = 0; i < 16; i++) {
		for (int j = 0; j < 8; j++) t.at_c(i, j) = c[8 * i + j];
		for (int k = 0; k < 16; k += 2) t.at_a(i, k) = a[8 * i + k / 2];
	}
	for (int k = 0; k < 16; k += 2)
		for (int j = 0; j < 8; j++) t.at_b(k, j) = b[k / 2 * 8 + j];
	void (*forms[])(const emu::Operands&, const emu::Products&, emu::Room&) = {emu::mma_fast_plain, emu::mma_fast_avx2, emu::mma_exact_plain, emu::mma_exact_avx2};
	emu::Room room;
	forms[form & 3](t.operands(), {1, 1, 0}, room);
	for (int i = 0; i < 16; i++)
		for (int j = 0; j < 8; j++) c[8 * i + j] = t.at_c(i, j);
	return 0;
}
