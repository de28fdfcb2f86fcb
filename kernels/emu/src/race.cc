// The order of accesses to shared memory, by vector clocks of warps: a warp's time moves on when it meets others, and a
// barrier tells each who comes what it knows of the others' times. Within a warp, what lanes do between two syncwarps (or
// barriers) is not ordered; a shuffle or an mma orders no memory.
#include "race.h"

#include <string.h>
#include <sys/mman.h>

#include "report.h"
#include "settings.h"
#include "worker.h"

namespace emu {

const int WARPS = 32, ASYNC = WARPS, CLOCKS = WARPS + 1; // copies of boxes have a clock of their own
const uint8_t MANY = 33, FLYING = 34, DONE = 35;         // who read: several lanes; a wgmma that goes on; one that is over

// What is known of two bytes.
struct Cell {
	uint32_t block; // whose; that of another block counts for nothing
	uint32_t write_time, write_pc, read_pc;
	uint8_t write_warp, write_lane;
	uint16_t fences; // of the writer, then
	uint32_t read[CLOCKS]; // by warp: time << 8 | lane + 1
};

struct Race {
	Cell* cells;
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
		void* p = mmap(nullptr, SHARED_SPAN / 2 * sizeof(Cell), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		r->cells = (Cell*)p;
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

static Cell& cell(Race& r, size_t i) {
	Cell& c = r.cells[i];
	if (c.block != r.block) {
		memset(&c, 0, sizeof c);
		c.block = r.block;
	}
	return c;
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

static void after_reads(Race& r, const Access& a, const Cell& c) {
	for (int w = 0; w < a.f->of->warps; w++) {
		if (!c.read[w]) continue;
		int lane = (int)(c.read[w] & 255) - 1;
		uint32_t time = c.read[w] >> 8;
		bool fine = lane == FLYING ? false : lane == DONE && w == a.f->warp->index ? true : ordered(r, a.f, w, lane, time);
		if (!fine) race(a, "reads", w, lane, c.read_pc);
	}
}

static void record_write(Race& r, Cell& c, Fiber* f, int warp, uint32_t time, const void* pc) {
	(void)r;
	c.write_time = time;
	c.write_warp = (uint8_t)warp;
	c.write_lane = f->lane;
	c.write_pc = (uint32_t)((const char*)pc - library());
	c.fences = (uint16_t)f->fences;
	memset(c.read, 0, sizeof c.read);
}

static void record_read(Race& r, Cell& c, Fiber* f, int lane, const void* pc) {
	int w = f->warp->index;
	uint32_t& old = c.read[w];
	if (lane < 32 && old >> 8 >= r.synced[w] && (old & 255) && (int)(old & 255) - 1 != lane) lane = (old & 255) - 1 == FLYING ? FLYING : MANY;
	old = r.time[w][w] << 8 | (uint32_t)(lane + 1);
	c.read_pc = (uint32_t)((const char*)pc - library());
}

template <class F>
static void each(Fiber* f, const void* p, size_t n, F g) {
	Race& r = of(f);
	size_t first = (const char*)p - (f->of->worker->shared_end - SHARED_SPAN);
	for (size_t i = first / 2; i <= (first + n - 1) / 2; i++) g(r, cell(r, i));
}

void note_shared(Fiber* f, const void* p, size_t n, bool write, const void* pc) {
	if (!settings().races || n == 0) return;
	Access a{f, p, write, pc};
	each(f, p, n, [&](Race& r, Cell& c) {
		after_write(r, a, c, false);
		if (write) {
			after_reads(r, a, c);
			record_write(r, c, f, f->warp->index, r.time[f->warp->index][f->warp->index], pc);
		} else {
			record_read(r, c, f, f->lane, pc);
		}
	});
}

void async_begins(Fiber* f, const void* p, size_t n, bool write, bool proxy, const void* pc) {
	if (!settings().races) return;
	Access a{f, p, write, pc};
	each(f, p, n, [&](Race& r, Cell& c) {
		after_write(r, a, c, proxy && !write);
		if (write) {
			after_reads(r, a, c);
			record_write(r, c, f, f->warp->index, r.time[f->warp->index][f->warp->index], pc);
		} else {
			record_read(r, c, f, FLYING, pc);
		}
	});
}

void async_arrives(Fiber* f, const void* p, size_t n, const void* pc) { note_shared(f, p, n, true, pc); }

void async_arrives(Fiber* f, const void* p, size_t n, Mbarrier& bar, const void* pc) {
	if (!settings().races) return;
	Access a{f, p, true, pc};
	Race& r = of(f);
	uint32_t time = ++r.time[ASYNC][ASYNC];
	bar.clock.resize(CLOCKS);
	bar.clock[ASYNC] = time;
	each(f, p, n, [&](Race& r, Cell& c) {
		for (int w = 0; w < f->of->warps; w++) // since the copy was asked for
			if (c.read[w]) race(a, "reads", w, (int)(c.read[w] & 255) - 1, c.read_pc);
		record_write(r, c, f, ASYNC, time, pc);
	});
}

void async_ends(Fiber* f, const void* p, size_t n, const void* pc) {
	if (!settings().races) return;
	each(f, p, n, [&](Race& r, Cell& c) {
		if ((int)(c.read[f->warp->index] & 255) - 1 == FLYING) record_read(r, c, f, DONE, pc);
	});
}

} // namespace emu
