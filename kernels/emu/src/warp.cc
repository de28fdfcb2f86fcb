// What the lanes of a warp do together. Each brings its operands; the last to come does the work for all.
#include <string.h>

#include "mma.h"
#include "race.h"
#include "report.h"
#include "worker.h"

namespace emu {

unsigned shared_address(const void* p) { return (unsigned)((const char*)p - self->shared) + SHARED_START; }

template <class Work>
static unsigned exchange(Meet kind, const void* pc, unsigned x, unsigned extra, Work work) {
	Fiber* f = running();
	Warp& w = *f->warp;
	w.in[f->lane] = x;
	w.extra[f->lane] = extra;
	if (meet(f, kind, pc)) {
		work(w);
		go(f);
	}
	return w.out[f->lane];
}

static unsigned shuffle(const void* pc, unsigned x, unsigned from) {
	return exchange(Meet::shfl, pc, x, from, [](Warp& w) {
		for (int l = 0; l < 32; l++) w.out[l] = w.in[w.extra[l] & 31];
	});
}

unsigned shfl_xor(unsigned x, int mask) { return shuffle(CALLER, x, running()->lane ^ mask); }
unsigned shfl(unsigned x, int from) { return shuffle(CALLER, x, from); }

unsigned shfl_up(unsigned x, int delta) {
	int l = running()->lane;
	return shuffle(CALLER, x, l >= delta ? l - delta : l);
}

unsigned shfl_down(unsigned x, int delta) {
	int l = running()->lane;
	return shuffle(CALLER, x, l + delta < 32 ? l + delta : l);
}

unsigned vote_ballot(bool p) {
	return exchange(Meet::vote, CALLER, p, 0, [](Warp& w) {
		unsigned all = 0;
		for (int l = 0; l < 32; l++) all |= w.in[l] << l;
		for (unsigned& out : w.out) out = all;
	});
}

template <class F>
static unsigned reduce(const void* pc, unsigned x, F f) {
	return exchange(Meet::redux, pc, x, 0, [f](Warp& w) {
		unsigned r = w.in[0];
		for (int l = 1; l < 32; l++) r = f(r, w.in[l]);
		for (unsigned& out : w.out) out = r;
	});
}

unsigned redux_max(unsigned x) {
	return reduce(CALLER, x, [](unsigned a, unsigned b) { return a > b ? a : b; });
}
unsigned redux_min(unsigned x) {
	return reduce(CALLER, x, [](unsigned a, unsigned b) { return a < b ? a : b; });
}
unsigned redux_add(unsigned x) {
	return reduce(CALLER, x, [](unsigned a, unsigned b) { return a + b; });
}

void syncwarp() {
	Fiber* f = running();
	if (meet(f, Meet::syncwarp, CALLER)) {
		order_warp(*f->warp);
		go(f);
	}
}

void setmaxnreg(int registers, bool up) {
	const void* pc = CALLER;
	Fiber* f = running();
	if (registers < 24 || registers > 256 || registers % 8) fail(Code::illegal_instruction, pc, "setmaxnreg: %d registers", registers);
	if (!meet(f, Meet::setmaxnreg, pc)) return;
	Warp& w = *f->warp;
	if (w.registers && (up ? registers < w.registers : registers > w.registers))
		fail(Code::launch_failed, pc, "setmaxnreg.%s %d: the warp has %d registers", up ? "inc" : "dec", registers, w.registers);
	w.registers = registers;
	int total = 0;
	for (int i = 0; i < f->of->warps; i++) total += 32 * f->of->warp[i].registers;
	if (total > 65536) fail(Code::launch_failed, pc, "setmaxnreg: the warps want %d registers of 65536", total);
	go(f);
}

// Rows of 16 bytes in 8 rows at a time; two rows in the same 16 of 128 bytes are a conflict of banks.
static void count_conflicts(Block* b, const void* const* rows) {
	uint8_t at[8] = {}, most = 0;
	for (int i = 0; i < 8; i++) {
		uint8_t n = ++at[(uintptr_t)rows[i] >> 4 & 7];
		for (int j = 0; j < i; j++) n -= rows[i] == rows[j]; // the same words are read once
		if (n > most) most = n;
	}
	b->phases++;
	b->conflicts += most - 1;
}

void ldmatrix_x4(unsigned (&r)[4], const void* row, bool transposed) {
	const void* pc = CALLER;
	Fiber* f = running();
	Warp& w = *f->warp;
	shared_access(f, row, 16, 16, false, pc);
	w.place[f->lane] = row;
	w.r[f->lane] = r;
	if (!meet(f, Meet::ldmatrix, pc)) return;
	for (int i = 0; i < 4; i++) {
		count_conflicts(f->of, w.place + 8 * i);
		const void* const* rows = w.place + 8 * i;
		for (int l = 0; l < 32 && !transposed; l++) memcpy(&w.r[l][i], (const char*)rows[l / 4] + l % 4 * 4, 4);
		if (!transposed) continue;
		uint16_t m[8][8];
		for (int j = 0; j < 8; j++) memcpy(m[j], rows[j], 16);
		for (int l = 0; l < 32; l++) w.r[l][i] = m[l % 4 * 2][l / 4] | (unsigned)m[l % 4 * 2 + 1][l / 4] << 16;
	}
	go(f);
}

void stmatrix_x4(void* row, const unsigned (&r)[4], bool transposed) {
	const void* pc = CALLER;
	Fiber* f = running();
	Warp& w = *f->warp;
	shared_access(f, row, 16, 16, true, pc);
	w.place[f->lane] = row;
	w.a[f->lane] = r;
	if (!meet(f, Meet::stmatrix, pc)) return;
	for (int i = 0; i < 4; i++) {
		count_conflicts(f->of, w.place + 8 * i);
		uint16_t m[8][8];
		for (int l = 0; l < 32; l++) {
			int g = l / 4, q = l % 4 * 2;
			uint16_t lo = (uint16_t)w.a[l][i], hi = (uint16_t)(w.a[l][i] >> 16);
			(transposed ? m[q][g] : m[g][q]) = lo;
			(transposed ? m[q + 1][g] : m[g][q + 1]) = hi;
		}
		for (int j = 0; j < 8; j++) memcpy((void*)w.place[8 * i + j], m[j], 16);
	}
	go(f);
}

const uint32_t UNSET = 0xfefefefe; // what the compiler puts into a variable that has no value

static void check_set(Fiber* f, const float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1, const void* pc) {
	for (int i = 0; i < 4; i++) {
		if (float_bits(c[i]) == UNSET) fail(Code::launch_failed, pc, "uninitialised: accumulator %d of an mma in lane %d", i, f->lane);
		if (a[i] == UNSET) fail(Code::launch_failed, pc, "uninitialised: a[%d] of an mma in lane %d", i, f->lane);
	}
	if (b0 == UNSET || b1 == UNSET) fail(Code::launch_failed, pc, "uninitialised: b of an mma in lane %d", f->lane);
}

void mma_bf16(float (&c)[4], const unsigned (&a)[4], unsigned b0, unsigned b1) {
	const void* pc = CALLER;
	Fiber* f = running();
	Warp& w = *f->warp;
	check_set(f, c, a, b0, b1, pc);
	int l = f->lane;
	memcpy(w.tile.c[l], c, 16);
	memcpy(w.tile.a[l], a, 16);
	w.tile.b[l][0] = b0;
	w.tile.b[l][1] = b1;
	if (meet(f, Meet::mma, pc)) {
		mma(w.tile);
		memcpy(w.sum, w.tile.c, sizeof w.sum); // a lane that runs ahead brings its next operands before others have fetched
		go(f);
	}
	memcpy(c, w.sum[l], 16);
}

// One thread at a time of a block runs, and blocks that run beside it go through the host's atomics. No order is needed
// between additions to integers.
template <class T>
static void add(T* p, T x, const void* pc) {
	Fiber* f = running();
	if (is_shared(f->of, p)) check_shared(f, p, sizeof x, sizeof x, true, pc);
	else check_global(p, sizeof x, sizeof x, true, pc);
	__atomic_fetch_add(p, x, __ATOMIC_RELAXED);
}

void atom_add(unsigned* p, unsigned x) { add(p, x, CALLER); }
void atom_add(unsigned long long* p, unsigned long long x) { add(p, x, CALLER); }

} // namespace emu
