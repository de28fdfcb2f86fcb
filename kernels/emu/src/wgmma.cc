// wgmma m64nNk16: operands are read at some moment between the instruction and the wait, and accumulators are poison
// until then. The four warps of a warpgroup take 16 rows each and are not otherwise bound together, but for having to
// come equally often.
#include <string.h>
#include <array>

#include "mma.h"
#include "race.h"
#include "report.h"
#include "tensormap.h"
#include "worker.h"

namespace emu {

const uint32_t POISON = 0xffffffff;

// A matrix in shared memory as a descriptor tells it: lines of `line` bytes (16 without a swizzle) in groups of 8.
struct Operand {
	uint64_t start, leading, stride;
	int mode; // of the swizzle: none, 32, 64, 128 bytes
	bool across; // k runs across lines: the matrix lies with its other dimension contiguous

	Operand(uint64_t d, bool across) : across(across) {
		const int modes[] = {0, 3, 2, 1};
		start = (d & 0x3fff) << 4;
		leading = (d >> 16 & 0x3fff) << 4;
		stride = (d >> 32 & 0x3fff) << 4;
		mode = modes[d >> 62];
	}
	// The byte of shared memory, counted as shared_address does, of element k of line i of the matrix.
	uint64_t at(unsigned i, unsigned k) const {
		unsigned line = 16u << mode;
		if (!across && mode == 0) return start + i / 8 * stride + k / 8 * leading + i % 8 * 16 + k % 8 * 2;
		if (!across) return swizzled(start + i / 8 * stride + i % 8 * line + k * 2, mode);
		if (mode == 0) return start + i / 8 * stride + k / 8 * leading + k % 8 * 16 + i % 8 * 2;
		unsigned wide = line / 2, stretch = i >> (3 + mode);
		return swizzled(start + stretch * leading + k / 8 * stride + k % 8 * line + i % wide * 2, mode);
	}
};

// The 16 bytes that begin with element k of line i: 8 elements along k, or along lines if k runs across.
static inline const char* unit(const Wgmma& o, const Operand& m, int i, int k) {
	Block* b = o.by->of;
	uint64_t at = m.at(i, k) - SHARED_START;
	if (at + 16 > b->shared_bytes)
		fail(Code::illegal_address, o.pc, "out of bounds: wgmma reads byte %ld of shared memory of %u bytes", (long)at, b->shared_bytes);
	return b->shared + at;
}

// Calls f(unit, i, k) for each 16 bytes that an operand is read from.
template <class F>
static void units(const Wgmma& o, const Operand& m, int first, int rows, F f) {
	for (int i = first; i < first + rows; i += m.across ? 8 : 1)
		for (int k = 0; k < 16; k += m.across ? 1 : 8) f(unit(o, m, i, k), i - first, k);
}

// Rows of 16 values of k.
static void fetch(const Wgmma& o, const Operand& m, int first, int rows, uint16_t (*to)[16]) {
	units(o, m, first, rows, [&](const char* p, int i, int k) {
		uint16_t u[8];
		memcpy(u, p, 16);
		if (!m.across) memcpy(&to[i][k], u, 16);
		for (int e = 0; e < 8 && m.across; e++) to[i + e][k] = u[e];
	});
}

// The word with k = 2p and 2p+1.
static uint32_t word(const uint16_t (&row)[16], int p) { return row[2 * p] | (uint32_t)row[2 * p + 1] << 16; }

static Sums& sums_of(Warp& w, const float* c) {
	for (Sums& s : w.sums)
		if (s.c[0] == c) return s;
	__builtin_unreachable();
}

static void compute(Warp& w, const Wgmma& o) {
	Sums& s = sums_of(w, o.c);
	uint16_t rows[256][16];
	uint32_t a[32][4], b[32][64];
	if (o.registers) {
		memcpy(a, o.ra, sizeof a);
	} else {
		fetch(o, Operand(o.a, o.a_by_columns), w.index % 4 * 16, 16, rows);
		for (int l = 0; l < 32; l++)
			for (int i = 0; i < 4; i++) a[l][i] = word(rows[l / 4 + i % 2 * 8], l % 4 + i / 2 * 4);
	}
	fetch(o, Operand(o.b, o.b_by_rows), 0, o.n, rows);
	Operands all;
	for (int l = 0; l < 32; l++) {
		for (int j = 0; j < o.n / 8; j++)
			for (int h = 0; h < 2; h++) b[l][2 * j + h] = word(rows[8 * j + l / 4], l % 4 + 4 * h);
		all.c[l] = &s.value[l * o.n / 2];
		all.a[l] = a[l];
		all.b[l] = b[l];
		if (!o.add) memset(all.c[l], 0, o.n / 2 * sizeof(float));
	}
	mma(all, {1, o.n / 8, 0}, o.by->of->room);
}

template <class F>
static void touched(Warp& w, const Wgmma& o, F f) {
	if (!o.registers) units(o, Operand(o.a, o.a_by_columns), w.index % 4 * 16, 16, f);
	units(o, Operand(o.b, o.b_by_rows), 0, o.n, f);
}

static void happen(Warp& w) {
	Thread* me = self;
	const Wgmma& o = w.pending[w.happened];
	self = o.by;
	compute(w, o);
	w.happened++;
	o.by->of->pending--;
	self = me;
}

bool wgmma_step(Block* b) {
	int waiting = 0;
	for (int i = 0; i < b->warps; i++) waiting += b->warp[i].happened < (int)b->warp[i].pending.size();
	if (!waiting) return false;
	int which = b->random.below(waiting);
	for (int i = 0; i < b->warps; i++)
		if (b->warp[i].happened < (int)b->warp[i].pending.size() && which-- == 0) happen(b->warp[i]);
	return true;
}

static void check_poison(Warp& w, const Sums& s, const void* pc) {
	static const std::array<uint32_t, 128> poison = [] {
		std::array<uint32_t, 128> p;
		p.fill(POISON);
		return p;
	}();
	for (int l = 0; l < 32; l++)
		for (int i = 0; memcmp(s.c[l], poison.data(), s.n / 2 * sizeof(float)) && i < s.n / 2; i++)
			if (float_bits(s.c[l][i]) != POISON) fail(Code::launch_failed, pc, "accumulator %d of lane %d of warp %d was written between a wgmma and its wait", i, l, w.index);
}

static void start(Warp& w, int n, bool add, const void* pc) {
	for (Sums& s : w.sums)
		if (s.c[0] == w.mma.c[0]) {
			if (s.n != n) fail(Code::launch_failed, pc, "wgmma: accumulators of n = %d are used for n = %d before a wait", s.n, n);
			check_poison(w, s, pc);
			s.uses++;
			return;
		}
	Sums s;
	s.n = n;
	s.uses = 1;
	s.value.resize(32 * n / 2);
	for (int l = 0; l < 32; l++) {
		s.c[l] = w.mma.c[l];
		memcpy(&s.value[l * n / 2], w.mma.c[l], n / 2 * 4);
		for (int i = 0; i < n / 2 && add; i++)
			if (float_bits(w.mma.c[l][i]) == 0xfefefefe) fail(Code::launch_failed, pc, "uninitialised: accumulator %d of a wgmma in lane %d", i, l);
		memset(w.mma.c[l], 0xff, n / 2 * 4);
	}
	w.sums.push_back(std::move(s));
}

// What a lane hands over as a left operand is read by the hardware some time after the fence, and not ordered with writes
// that come between.
static void check_held(const Warp& w, const void* pc) {
	for (int l = 0; l < 32; l++) {
		bool ordered = false;
		for (const Held& h : w.held[l]) ordered |= h.at == w.mma.a[l] && h.fenced && !memcmp(h.value, w.mma.a[l], sizeof h.value);
		if (!ordered) fail(Code::launch_failed, pc, "wgmma: no wgmma.fence since lane %d wrote the registers of its left operand", l);
	}
}

void wgmma_registers(const unsigned (&a)[4]) {
	Fiber* f = running();
	Held now{a, {a[0], a[1], a[2], a[3]}, false};
	for (Held& h : f->warp->held[f->lane])
		if (h.at == a) {
			h = now;
			return;
		}
	f->warp->held[f->lane].push_back(now);
}

void wgmma(float* c, const unsigned* a, uint64_t da, uint64_t db, int n, bool add, bool a_by_columns, bool b_by_rows) {
	const void* pc = CALLER;
	Fiber* f = running();
	Warp& w = *f->warp;
	w.mma.c[f->lane] = c;
	w.mma.a[f->lane] = a;
	w.in[f->lane] = (unsigned)(da ^ da >> 32 ^ db * 3 ^ db * 3 >> 32);
	if (!meet(f, Meet::wgmma, pc)) return;
	Block* b = f->of;
	if (b->warps % 4) fail(Code::illegal_instruction, pc, "wgmma in a block of %d warps", b->warps);
	if (n < 8 || n > 256 || n % 8) fail(Code::illegal_instruction, pc, "wgmma: n = %d", n);
	for (int l = 1; l < 32; l++)
		if (w.in[l] != w.in[0]) fail(Code::launch_failed, pc, "wgmma: the descriptors of lanes 0 and %d differ", l);
	if (!w.fenced) fail(Code::launch_failed, pc, "wgmma without a wgmma.fence since the registers were last in use");
	Wgmma o{};
	o.a = da;
	o.b = db;
	o.n = n;
	o.c = w.mma.c[0];
	o.registers = a != nullptr;
	o.add = add;
	o.a_by_columns = a_by_columns;
	o.b_by_rows = b_by_rows;
	o.pc = pc;
	o.by = f;
	if (a) {
		check_held(w, pc);
		for (int l = 0; l < 32; l++) memcpy(o.ra[l], w.mma.a[l], 16);
	}
	start(w, n, add, pc);
	touched(w, o, [&](const char* p, int, int) { async_begins(f, p, 16, false, true, pc); });
	w.pending.push_back(o);
	w.open++;
	w.issued++;
	b->pending++;
	go(f);
}

static void together(void (*work)(Fiber*, Warp&, int), int x, const void* pc) {
	Fiber* f = running();
	if (!meet(f, Meet::wgmma_sync, pc)) return;
	work(f, *f->warp, x);
	go(f);
}

void wgmma_fence() {
	together([](Fiber*, Warp& w, int) {
		w.fenced = true;
		for (auto& lane : w.held)
			for (Held& h : lane) h.fenced = true;
	}, 0, CALLER);
}

void wgmma_commit() {
	together([](Fiber*, Warp& w, int) {
		w.groups.push_back(w.open);
		w.open = 0;
	}, 0, CALLER);
}

void check_warpgroups(Block* b) {
	for (int i = 0; i < b->warps; i++)
		if (b->warp[i].issued != b->warp[i / 4 * 4].issued)
			return report(Code::launch_failed, b->launch,
			              "wgmma: warp " + std::to_string(i) + " has come " + std::to_string(b->warp[i].issued) + " times, and warp " + std::to_string(i / 4 * 4) +
			                  " of its warpgroup " + std::to_string(b->warp[i / 4 * 4].issued) + " times, in block " + std::to_string(b->number));
}

void wgmma_wait(int groups) {
	together([](Fiber* f, Warp& w, int groups) {
		int over = (int)w.groups.size() - groups, n = 0;
		if (over <= 0) return;
		for (int i = 0; i < over; i++) n += w.groups[i];
		while (w.happened < n) happen(w);
		for (int i = 0; i < n; i++) {
			const Wgmma& o = w.pending[i];
			if (records) touched(w, o, [&](const char* p, int, int) { async_ends(f, p, 16, o.pc); });
			Sums& s = sums_of(w, o.c);
			if (--s.uses) continue;
			check_poison(w, s, f->at);
			for (int l = 0; l < 32; l++) memcpy(s.c[l], &s.value[l * s.n / 2], s.n / 2 * 4);
			w.sums.erase(w.sums.begin() + (&s - w.sums.data()));
		}
		w.pending.erase(w.pending.begin(), w.pending.begin() + n);
		w.happened -= n;
		w.groups.erase(w.groups.begin(), w.groups.begin() + over);
		if (!w.pending.empty()) return;
		w.fenced = false;
		for (auto& lane : w.held) lane.clear();
	}, groups, CALLER);
}

} // namespace emu

// For tests: the byte of shared memory of element k of line i of the matrix that a descriptor tells.
extern "C" EMU_EXPORT uint64_t emu_wgmma_at(uint64_t descriptor, int across, int i, int k) { return emu::Operand(descriptor, across).at(i, k); }
