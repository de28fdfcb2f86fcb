// What the lanes of a warp do together. Each brings its operands; the last to come does the work for all.
#include <emmintrin.h>
#include <string.h>

#include "mma.h"
#include "race.h"
#include "report.h"
#include "worker.h"

namespace emu {

unsigned shared_address(const void* p) { return (unsigned)((const char*)p - self->shared) + SHARED_START; }

// The others wait, and the work is done for all: got[l] for lane l.
template <class Work>
static Turn exchange(Meet kind, const void* pc, unsigned x, unsigned extra, unsigned* got, Work work) {
	Fiber* f = running();
	Warp& w = *f->warp;
	w.in[f->lane] = x;
	w.extra[f->lane] = extra;
	w.r[f->lane] = got;
	if (!last(f, kind, pc)) return f->of->leave();
	work(w);
	go(f);
	return {};
}

static Turn shuffle(const void* pc, unsigned x, unsigned from, unsigned* got) {
	return exchange(Meet::shfl, pc, x, from, got, [](Warp& w) {
		for (int l = 0; l < 32; l++) *w.r[l] = w.in[w.extra[l] & 31];
	});
}

Turn meet_shfl_xor(unsigned x, int mask, unsigned* got) { return shuffle(CALLER, x, running()->lane ^ mask, got); }
Turn meet_shfl(unsigned x, int from, unsigned* got) { return shuffle(CALLER, x, from, got); }

Turn meet_shfl_up(unsigned x, int delta, unsigned* got) {
	int l = running()->lane;
	return shuffle(CALLER, x, l >= delta ? l - delta : l, got);
}

Turn meet_shfl_down(unsigned x, int delta, unsigned* got) {
	int l = running()->lane;
	return shuffle(CALLER, x, l + delta < 32 ? l + delta : l, got);
}

Turn meet_vote_ballot(bool p, unsigned* got) {
	return exchange(Meet::vote, CALLER, p, 0, got, [](Warp& w) {
		unsigned all = 0;
		for (int l = 0; l < 32; l++) all |= w.in[l] << l;
		for (unsigned* r : w.r) *r = all;
	});
}

template <class F>
static Turn reduce(const void* pc, unsigned x, unsigned* got, F f) {
	return exchange(Meet::redux, pc, x, 0, got, [f](Warp& w) {
		unsigned all = w.in[0];
		for (int l = 1; l < 32; l++) all = f(all, w.in[l]);
		for (unsigned* r : w.r) *r = all;
	});
}

Turn meet_redux_max(unsigned x, unsigned* got) {
	return reduce(CALLER, x, got, [](unsigned a, unsigned b) { return a > b ? a : b; });
}
Turn meet_redux_min(unsigned x, unsigned* got) {
	return reduce(CALLER, x, got, [](unsigned a, unsigned b) { return a < b ? a : b; });
}
Turn meet_redux_add(unsigned x, unsigned* got) {
	return reduce(CALLER, x, got, [](unsigned a, unsigned b) { return a + b; });
}

Turn meet_syncwarp() {
	Fiber* f = running();
	if (!last(f, Meet::syncwarp, CALLER)) return f->of->leave();
	order_warp(*f->warp);
	go(f);
	return {};
}

// What warps take comes from what others of the block gave back: setmaxnreg.inc waits for it, for good if it never comes.
static void check_registers(Block* b, const void* pc) {
	int launched = launch_registers(b->launch->entry), pool = 32 * b->warps * launched, total = 0;
	for (int i = 0; i < b->warps; i++) {
		const Warp& w = b->warp[i];
		if (!w.registers && w.exited != ALL) return; // it may give some back yet
		total += 32 * (w.registers ? w.registers : launched);
	}
	if (total > pool) fail(Code::launch_failed, pc, "deadlock: by setmaxnreg the warps want %d registers, and the block was launched with %d", total, pool);
}

void setmaxnreg(int registers, bool up) {
	const void* pc = CALLER;
	Fiber* f = running();
	if (registers < 24 || registers > 256 || registers % 8) fail(Code::illegal_instruction, pc, "setmaxnreg: %d registers", registers);
	if (!meet(f, Meet::setmaxnreg, pc)) return;
	Warp& w = *f->warp;
	int has = w.registers ? w.registers : launch_registers(f->of->launch->entry);
	if (up ? registers < has : registers > has) fail(Code::launch_failed, pc, "setmaxnreg.%s %d: the warp has %d registers", up ? "inc" : "dec", registers, has);
	w.registers = registers;
	check_registers(f->of, pc);
	go(f);
}

// Rows of 16 bytes in 8 rows at a time; two rows in the same 16 of 128 bytes are a conflict of banks.
static void count_conflicts(Block* b, const void* const* rows) {
	b->phases++;
	unsigned seen = 0;
	for (int i = 0; i < 8; i++) seen |= 1u << ((uintptr_t)rows[i] >> 4 & 7);
	if (seen == 255) return;
	uint8_t at[8] = {}, most = 0;
	for (int i = 0; i < 8; i++) {
		uint8_t n = ++at[(uintptr_t)rows[i] >> 4 & 7];
		for (int j = 0; j < i; j++) n -= rows[i] == rows[j]; // the same words are read once
		if (n > most) most = n;
	}
	b->conflicts += most - 1;
}

// A matrix of 8×8, transposed.
static void transpose(__m128i (&m)[8]) {
	__m128i a[8], b[8];
	for (int i = 0; i < 4; i++) a[2 * i] = _mm_unpacklo_epi16(m[i], m[i + 4]), a[2 * i + 1] = _mm_unpackhi_epi16(m[i], m[i + 4]);
	for (int i = 0; i < 4; i++) b[2 * i] = _mm_unpacklo_epi16(a[i], a[i + 4]), b[2 * i + 1] = _mm_unpackhi_epi16(a[i], a[i + 4]);
	for (int i = 0; i < 4; i++) m[2 * i] = _mm_unpacklo_epi16(b[i], b[i + 4]), m[2 * i + 1] = _mm_unpackhi_epi16(b[i], b[i + 4]);
}

Turn meet_ldmatrix_x4(unsigned* r, const void* row, bool transposed) {
	const void* pc = CALLER;
	Fiber* f = running();
	Warp& w = *f->warp;
	shared_access(f, row, 16, 16, false, pc);
	w.place[f->lane] = row;
	w.r[f->lane] = r;
	if (!last(f, Meet::ldmatrix, pc)) return f->of->leave();
	__m128i m[4][8];
	for (int i = 0; i < 4; i++) {
		count_conflicts(f->of, w.place + 8 * i);
		for (int j = 0; j < 8; j++) m[i][j] = _mm_loadu_si128((const __m128i*)w.place[8 * i + j]);
		if (transposed) transpose(m[i]);
	}
	for (int j = 0; j < 8; j++) { // word q of row j of the four matrices is lane 4j + q's
		__m128i lo = _mm_unpacklo_epi32(m[0][j], m[1][j]), hi = _mm_unpackhi_epi32(m[0][j], m[1][j]);
		__m128i lo2 = _mm_unpacklo_epi32(m[2][j], m[3][j]), hi2 = _mm_unpackhi_epi32(m[2][j], m[3][j]);
		_mm_storeu_si128((__m128i*)w.r[4 * j], _mm_unpacklo_epi64(lo, lo2));
		_mm_storeu_si128((__m128i*)w.r[4 * j + 1], _mm_unpackhi_epi64(lo, lo2));
		_mm_storeu_si128((__m128i*)w.r[4 * j + 2], _mm_unpacklo_epi64(hi, hi2));
		_mm_storeu_si128((__m128i*)w.r[4 * j + 3], _mm_unpackhi_epi64(hi, hi2));
	}
	go(f);
	return {};
}

Turn meet_stmatrix_x4(void* row, const unsigned* r, bool transposed) {
	const void* pc = CALLER;
	Fiber* f = running();
	Warp& w = *f->warp;
	shared_access(f, row, 16, 16, true, pc);
	w.place[f->lane] = row;
	w.mma.a[f->lane] = r;
	if (!last(f, Meet::stmatrix, pc)) return f->of->leave();
	for (int i = 0; i < 4; i++) {
		count_conflicts(f->of, w.place + 8 * i);
		uint16_t m[8][8];
		for (int l = 0; l < 32; l++) {
			int g = l / 4, q = l % 4 * 2;
			uint16_t lo = (uint16_t)w.mma.a[l][i], hi = (uint16_t)(w.mma.a[l][i] >> 16);
			(transposed ? m[q][g] : m[g][q]) = lo;
			(transposed ? m[q + 1][g] : m[g][q + 1]) = hi;
		}
		for (int j = 0; j < 8; j++) memcpy((void*)w.place[8 * i + j], m[j], 16);
	}
	go(f);
	return {};
}

const int UNSET = (int)0xfefefefe; // what the compiler puts into a variable that has no value

static __m128i unset(const void* p) { return _mm_cmpeq_epi32(_mm_loadu_si128((const __m128i*)p), _mm_set1_epi32(UNSET)); }

static void fail_unset(Fiber* f, const char* what, __m128i which, const void* pc) {
	int i = __builtin_ctz(_mm_movemask_epi8(which)) / 4;
	fail(Code::launch_failed, pc, "uninitialised: %s %d of an mma in lane %d", what, i, f->lane);
}

static void check_set(Fiber* f, const float* c, const unsigned* a, const unsigned* b, Products p, const void* pc) {
	for (int i = 0; i < p.m; i++) {
		__m128i bad = unset(a + 4 * i);
		if (_mm_movemask_epi8(bad)) fail_unset(f, "operand a", bad, pc);
		for (int j = 0; j < p.n; j++) {
			bad = unset(c + i * p.stride + 4 * j);
			if (_mm_movemask_epi8(bad)) fail_unset(f, "accumulator", bad, pc);
		}
	}
	for (int j = 0; j < 2 * p.n; j++)
		if (b[j] == (unsigned)UNSET) fail(Code::launch_failed, pc, "uninitialised: operand b %d of an mma in lane %d", j % 2, f->lane);
}

Turn meet_mma_bf16(float* c, const unsigned* a, const unsigned* b, Products p) {
	const void* pc = CALLER;
	Fiber* f = running();
	Warp& w = *f->warp;
	check_set(f, c, a, b, p, pc);
	unsigned shape = (unsigned)(p.m << 16 | p.n);
	if (!w.arrived) w.shape = shape;
	else if (w.shape != shape && w.meets == Meet::mma)
		fail(Code::launch_failed, pc, "divergent warp: lane %d of warp %d is at %d×%d products, while others wait at %u×%u, %s", f->lane, w.index, p.m, p.n, w.shape >> 16,
		     w.shape & 0xffff, place(w.first).c_str());
	w.mma.c[f->lane] = c;
	w.mma.a[f->lane] = a;
	w.mma.b[f->lane] = b;
	if (!last(f, Meet::mma, pc)) return f->of->leave();
	mma(w.mma, p, f->of->room);
	go(f);
	return {};
}

// One thread at a time of a block runs, and blocks that run beside it go through the host's atomics. No order is needed
// between additions to integers.
template <class T>
static void add(T* p, T x, const void* pc) {
	Fiber* f = running();
	if (is_shared(f->of, p)) check_shared(f, p, sizeof x, sizeof x, true, pc);
	else check_global(f, p, sizeof x, sizeof x, true, pc);
	__atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}

void atom_add(unsigned* p, unsigned x) { add(p, x, CALLER); }
void atom_add(unsigned long long* p, unsigned long long x) { add(p, x, CALLER); }

} // namespace emu
