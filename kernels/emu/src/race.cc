// The order of accesses to shared memory, by vector clocks of warps: a warp's time moves on when it meets others, and a
// barrier tells each who comes what it knows of the others' times. Within a warp, what lanes do between two syncwarps (or
// barriers) is not ordered; a shuffle or an mma orders no memory.
#include "race.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <algorithm>

#include "report.h"
#include "settings.h"
#include "worker.h"

namespace emu {

extern const bool records = true;

const int WARPS = 32, ASYNC = WARPS, CLOCKS = WARPS + 1; // copies of boxes have a clock of their own
const uint8_t MANY = 33, FLYING = 34, DONE = 35;         // who read: several lanes; a wgmma that goes on; one that is over

// What is known of some bytes that are always touched together: 16, or 2 where a smaller access has been.
struct Cell {
	uint32_t write_time, write_pc, read_pc;
	uint8_t write_warp, write_lane;
	uint16_t fences;  // of the writer, then
	uint32_t readers; // warps that have read since
};

struct Cells {
	Cell* cell;
	uint32_t* read; // of a cell by a warp: time << 8 | lane + 1
	size_t n;

	void open(size_t cells) {
		n = cells;
		cell = (Cell*)room(n * sizeof(Cell));
		read = (uint32_t*)room(WARPS * n * sizeof(uint32_t));
	}
	static void* room(size_t bytes) {
		void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (p == MAP_FAILED) {
			perror("emulator: mmap");
			abort();
		}
		return p;
	}
	uint32_t& read_by(int warp, size_t i) { return read[warp * n + i]; }
};

const int UNIT = 16, PAIRS = UNIT / 2;

// How 16 bytes are kept.
struct Unit {
	uint32_t block; // whose; that of another block counts for nothing
	bool split;     // into pairs of bytes
};

struct Race {
	Unit* units;
	Cells whole, pairs;
	uint32_t block = 0; // the running one, in a count of this worker's
	uint32_t time[CLOCKS][CLOCKS]; // time[w][x]: what w knows of x; time[w][w]: its own
	uint32_t synced[CLOCKS];       // w's time at its last syncwarp
	uint32_t barrier[16][CLOCKS];
};

const char* library(); // where its code begins

static Race& of(Fiber* f) { return *f->of->worker->race; }

void enter(Block* b) {
	Race*& r = b->worker->race;
	if (!r) {
		r = new Race;
		r->units = (Unit*)Cells::room(SHARED_SPAN / UNIT * sizeof(Unit));
		r->whole.open(SHARED_SPAN / UNIT);
		r->pairs.open(SHARED_SPAN / 2);
	}
	r->block++;
	memset(r->time, 0, sizeof r->time);
	memset(r->barrier, 0, sizeof r->barrier);
	for (int w = 0; w < CLOCKS; w++) r->time[w][w] = r->synced[w] = 1;
}

void leave(Fiber*) {}

static void join(uint32_t* to, const uint32_t* from) {
	for (int i = 0; i < CLOCKS; i++)
		if (from[i] > to[i]) to[i] = from[i];
}

void order_warp(Warp& w) {
	Race& r = of(w.fibers);
	r.synced[w.index] = ++r.time[w.index][w.index];
}

void order_arrive(Block* b, int barrier, Warp& w) {
	Race& r = *b->worker->race;
	join(r.barrier[barrier], r.time[w.index]);
	r.synced[w.index] = ++r.time[w.index][w.index];
}

void order_barrier(Block* b, int barrier, uint32_t warps) {
	Race& r = *b->worker->race;
	for (; warps; warps &= warps - 1) join(r.time[__builtin_ctz(warps)], r.barrier[barrier]);
	memset(r.barrier[barrier], 0, sizeof r.barrier[barrier]);
}

void order_release(Fiber* f, Mbarrier& bar) {
	Race& r = of(f);
	bar.clock.resize(CLOCKS);
	join(bar.clock.data(), r.time[f->warp->index]);
	r.time[f->warp->index][f->warp->index]++;
}

void order_acquire(Fiber* f, Mbarrier& bar) {
	bar.clock.resize(CLOCKS);
	join(of(f).time[f->warp->index], bar.clock.data());
}

struct Access {
	Fiber* f;
	const void* p;
	bool write;
	const void* pc;
};

static std::string who(Fiber* f, int warp, int lane) {
	if (warp == ASYNC) return "a copy of a box";
	if (lane >= MANY - 1) return "warp " + std::to_string(warp);
	(void)f;
	return "thread " + std::to_string(32 * warp + lane);
}

[[noreturn]] static void race(const Access& a, const char* before, int warp, int lane, uint32_t pc) {
	fail(Code::launch_failed, a.pc, "race: %s byte %ld of shared memory, which %s %s at %s, and no barrier comes between", a.write ? "a write to" : "a read of",
	     (const char*)a.p - a.f->of->shared, who(a.f, warp, lane).c_str(), before, place(library() + pc).c_str());
}

static bool ordered(Race& r, Fiber* f, int warp, int lane, uint32_t time) {
	int w = f->warp->index;
	if (warp != w) return time <= r.time[w][warp];
	return lane == f->lane || time < r.synced[w];
}

static void after_write(Race& r, const Access& a, const Cell& c, bool proxy) {
	if (!c.write_time) return;
	if (!ordered(r, a.f, c.write_warp, c.write_lane, c.write_time)) race(a, "wrote", c.write_warp, c.write_lane, c.write_pc);
	if (!proxy || c.write_warp == ASYNC) return;
	Fiber& writer = a.f->of->fiber[32 * c.write_warp + c.write_lane];
	if ((uint16_t)writer.fences == c.fences)
		fail(Code::launch_failed, a.pc, "missing fence.proxy.async: byte %ld of shared memory was written by thread %u at %s, which has passed no fence since",
		     (const char*)a.p - a.f->of->shared, writer.thread.x, place(library() + c.write_pc).c_str());
}

static void after_reads(Race& r, const Access& a, Cells& cells, size_t i) {
	const Cell& c = cells.cell[i];
	for (uint32_t m = c.readers; m; m &= m - 1) {
		int w = __builtin_ctz(m);
		uint32_t read = cells.read_by(w, i), time = read >> 8;
		int lane = (int)(read & 255) - 1;
		bool fine = lane == FLYING ? false : lane == DONE && w == a.f->warp->index ? true : ordered(r, a.f, w, lane, time);
		if (!fine) race(a, "reads", w, lane, c.read_pc);
	}
}

static void record_write(Cell& c, Fiber* f, int warp, uint32_t time, const void* pc) {
	c.write_time = time;
	c.write_warp = (uint8_t)warp;
	c.write_lane = f->lane;
	c.write_pc = (uint32_t)((const char*)pc - library());
	c.fences = (uint16_t)f->fences;
	c.readers = 0;
}

static void record_read(Race& r, Cells& cells, size_t i, Fiber* f, int lane, const void* pc) {
	Cell& c = cells.cell[i];
	int w = f->warp->index;
	uint32_t& at = cells.read_by(w, i);
	uint32_t old = c.readers >> w & 1 ? at : 0;
	if (lane < 32 && old >> 8 >= r.synced[w] && (old & 255) && (int)(old & 255) - 1 != lane) lane = (old & 255) - 1 == FLYING ? FLYING : MANY;
	at = r.time[w][w] << 8 | (uint32_t)(lane + 1);
	c.readers |= 1u << w;
	c.read_pc = (uint32_t)((const char*)pc - library());
}

// Gives each pair of bytes what is known of all.
static void split(Race& r, size_t u) {
	const Cell& c = r.whole.cell[u];
	for (size_t i = PAIRS * u; i < PAIRS * (u + 1); i++) r.pairs.cell[i] = c;
	for (uint32_t m = c.readers; m; m &= m - 1) {
		int w = __builtin_ctz(m);
		for (size_t i = PAIRS * u; i < PAIRS * (u + 1); i++) r.pairs.read_by(w, i) = r.whole.read_by(w, u);
	}
	r.units[u].split = true;
}

// Calls check for what is known of the bytes from p on, then note, to change it.
template <class Check, class Note>
static void each(Fiber* f, const void* p, size_t n, bool write, Check check, Note note) {
	Race& r = of(f);
	size_t first = (const char*)p - (f->of->worker->shared_end - SHARED_SPAN), end = first + n;
	for (size_t u = first / UNIT; u * UNIT < end; u++) {
		Unit& unit = r.units[u];
		if (unit.block != r.block) {
			unit = {r.block, false};
			r.whole.cell[u] = {};
		}
		size_t from = std::max(first, u * UNIT) / 2, to = (std::min(end, (u + 1) * UNIT) + 1) / 2; // pairs
		bool all = to - from == PAIRS;
		if (all && !unit.split) {
			check(r, r.whole, u);
			note(r, r.whole, u);
			continue;
		}
		if (!unit.split) split(r, u);
		for (size_t i = from; i < to; i++) {
			check(r, r.pairs, i);
			if (!(all && write)) note(r, r.pairs, i);
		}
		if (all && write) { // which leaves nothing of what was known
			unit.split = false;
			note(r, r.whole, u);
		}
	}
}

static void touch(Fiber* f, const void* p, size_t n, bool write, bool proxy, int lane, const void* pc) {
	Access a{f, p, write, pc};
	if (write)
		each(
		    f, p, n, true,
		    [&](Race& r, Cells& cells, size_t i) {
			    after_write(r, a, cells.cell[i], false);
			    after_reads(r, a, cells, i);
		    },
		    [&](Race& r, Cells& cells, size_t i) { record_write(cells.cell[i], f, f->warp->index, r.time[f->warp->index][f->warp->index], pc); });
	else
		each(
		    f, p, n, false, [&](Race& r, Cells& cells, size_t i) { after_write(r, a, cells.cell[i], proxy); },
		    [&](Race& r, Cells& cells, size_t i) { record_read(r, cells, i, f, lane, pc); });
}

void note_shared(Fiber* f, const void* p, size_t n, bool write, const void* pc) {
	if (settings().races && n) touch(f, p, n, write, false, f->lane, pc);
}

void async_begins(Fiber* f, const void* p, size_t n, bool write, bool proxy, const void* pc) {
	if (settings().races) touch(f, p, n, write, proxy, FLYING, pc);
}

void async_arrives(Fiber* f, const void* p, size_t n, const void* pc) { note_shared(f, p, n, true, pc); }

void async_arrives(Fiber* f, const void* p, size_t n, Mbarrier& bar, const void* pc) {
	if (!settings().races) return;
	Access a{f, p, true, pc};
	Race& r = of(f);
	uint32_t time = ++r.time[ASYNC][ASYNC];
	bar.clock.resize(CLOCKS);
	bar.clock[ASYNC] = time;
	each(
	    f, p, n, true,
	    [&](Race&, Cells& cells, size_t i) { // since the copy was asked for
		    const Cell& c = cells.cell[i];
		    if (!c.readers) return;
		    int w = __builtin_ctz(c.readers);
		    race(a, "reads", w, (int)(cells.read_by(w, i) & 255) - 1, c.read_pc);
	    },
	    [&](Race&, Cells& cells, size_t i) { record_write(cells.cell[i], f, ASYNC, time, pc); });
}

void async_ends(Fiber* f, const void* p, size_t n, const void* pc) {
	if (!settings().races) return;
	int w = f->warp->index;
	each(
	    f, p, n, false, [](Race&, Cells&, size_t) {},
	    [&](Race& r, Cells& cells, size_t i) {
		    if (cells.cell[i].readers >> w & 1 && (int)(cells.read_by(w, i) & 255) - 1 == FLYING) record_read(r, cells, i, f, DONE, pc);
	    });
}

} // namespace emu
