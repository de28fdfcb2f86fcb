#include "block.h"

#include <string.h>

#include "race.h"
#include "report.h"
#include "settings.h"
#include "stats.h"
#include "worker.h"

namespace emu {

__thread Thread* self __attribute__((tls_model("initial-exec")));

// How a block is scheduled is drawn for each: in which order the lanes of a warp go, how likely a warp goes on once it
// has begun, and whether one warp runs ahead of all others.
static void draw(Block* b) {
	Random& r = b->random;
	b->ahead = -1;
	b->lanes = Lanes::up;
	b->sticky = 255;
	b->burst = 0;
	switch (settings().schedule) {
	case Schedule::fixed:
		return;
	case Schedule::ahead:
		b->ahead = r.below(b->warps);
		b->lanes = Lanes(r.below(3));
		b->sticky = 200;
		return;
	case Schedule::random:
		b->lanes = Lanes(r.below(3));
		b->sticky = r.one_in(3) ? r.below(200) : 250;
		if (r.one_in(3)) b->ahead = r.below(b->warps);
	}
}

static void finish(Fiber* f) {
	Block* b = f->of;
	Warp& w = *f->warp;
	if (w.arrived)
		fail(Code::launch_failed, w.first, "divergent warp: lane %d has returned, while others of warp %d wait at %s", f->lane, w.index, name(w.meets));
	leave(f);
	w.exited |= 1u << f->lane;
	f->done = true;
	b->left--;
	b->suspend();
}

static void begin() {
	Fiber* f = running();
	f->of->launch->entry->run(f->of->launch->args.get());
	finish(f);
	__builtin_unreachable();
}

static void prepare(Fiber* f, char* top) {
	void** sp = (void**)top;
	*--sp = nullptr; // where nobody returns to
	f->sp = sp;
	f->bp = nullptr;
	f->ip = (void*)begin;
}

static void reset(Warp& w, int index, Fiber* fibers) {
	w.fibers = fibers;
	w.index = index;
	w.runnable = ALL;
	w.arrived = w.exited = 0;
	w.meets = Meet::none;
	w.barrier = -1;
	w.pending.clear();
	w.happened = 0;
	w.groups.clear();
	w.open = 0;
	w.sums.clear();
	w.fenced = false;
	w.issued = 0;
	w.registers = 0;
	for (auto& lane : w.held) lane.clear();
}

void Worker::run(const Launch& l, unsigned number) {
	Block& b = block;
	b.worker = this;
	b.launch = &l;
	b.number = number;
	b.index = {number % l.grid.x, number / l.grid.x % l.grid.y, number / l.grid.x / l.grid.y};
	b.threads = b.left = l.threads.x;
	b.warps = b.threads / 32;
	b.failed = false;
	b.random.seed(settings().seed, l.number << 32 | number);
	b.shared_bytes = l.shared;
	b.shared = shared_end - ((l.shared + 1023) & ~1023u);
	memset(b.shared, 0xff, shared_end - b.shared);
	memset(b.barriers, 0, sizeof b.barriers);
	b.mbarriers.clear();
	b.bulk.clear();
	b.pending = 0;
	b.phases = b.conflicts = 0;
	b.bulk_groups.assign(b.threads, {});
	if ((int)b.fiber.size() < b.threads) b.fiber.resize(b.threads);
	if ((int)b.warp.size() < b.warps) b.warp.resize(b.warps);
	b.runnable = b.warps == 32 ? ALL : (1u << b.warps) - 1;
	for (int i = 0; i < b.warps; i++) reset(b.warp[i], i, &b.fiber[32 * i]);
	for (int i = 0; i < b.threads; i++) {
		Fiber& f = b.fiber[i];
		f.thread = {(unsigned)i, 0, 0};
		f.block = b.index;
		f.threads = l.threads;
		f.blocks = l.grid;
		f.shared = b.shared;
		f.of = &b;
		f.warp = &b.warp[i / 32];
		f.lane = i % 32;
		f.done = false;
		f.at = nullptr;
		f.waits = nullptr;
		f.copies.clear();
		f.groups.clear();
		f.arrived = f.waited = 0;
		f.open = 0;
		f.fences = 0;
		f.stack = stack(i);
		prepare(&f, f.stack);
	}
	draw(&b);
	enter(&b);
	Fiber* first = b.next();
	self = first;
	pass({&home, first});
	self = nullptr;
	if (!b.failed) {
		check_tail(&b);
		check_warpgroups(&b);
	}
	count_block(b);
}

void abandon(Block* b) {
	b->failed = true;
	pass({running(), &b->worker->home});
	__builtin_unreachable();
}

// The fiber that runs next, which no longer may; the running one if all have returned and it has, too.
Fiber* Block::next() {
	for (;;) {
		if (!runnable) {
			if (left == 0) leave_block();
			if (!late()) deadlock();
			continue;
		}
		Fiber* f = running();
		uint64_t r = random.next();
		if (pending && (r >> 48 & 3) == 0) late();
		int i;
		if (ahead >= 0 && runnable >> ahead & 1 && (r >> 32 & 63)) {
			i = ahead;
		} else if (f && runnable >> f->warp->index & 1 && (r & 255) <= sticky) {
			i = f->warp->index;
		} else {
			i = any_bit(runnable, random);
			if (ahead >= 0 && (r >> 40 & 63) == 0) ahead = i;
		}
		burst = pending ? 2 : (int)((r >> 8 & 31) * sticky >> 8);
		return &warp[i].fibers[take(warp[i])];
	}
}

void Block::leave_block() {
	pass({running(), &worker->home});
	__builtin_unreachable();
}

void Block::yield() {
	Fiber* f = running();
	wake(*f->warp, 1u << f->lane);
	suspend();
}

bool Block::late() { return bulk_step(this) || wgmma_step(this); }

void diverged(Fiber* f, Meet kind, const void* pc) {
	Warp& w = *f->warp;
	if (w.exited)
		fail(Code::launch_failed, pc, "divergent warp: lane %d of warp %d is at %s, and lane %d has returned", f->lane, w.index, name(kind), __builtin_ctz(w.exited));
	fail(Code::launch_failed, pc, "divergent warp: lane %d of warp %d is at %s, while others wait at %s, %s", f->lane, w.index, name(kind), name(w.meets),
	     place(w.first).c_str());
}

void Block::deadlock() {
	std::string text = "deadlock: no thread of the block can go on";
	for (int i = 0; i < warps; i++) {
		Warp& w = warp[i];
		if (w.exited == ALL) continue;
		text += "\n  warp " + std::to_string(i) + ": ";
		int l = __builtin_ctz(~w.exited);
		Fiber& f = w.fibers[l];
		if (w.barrier >= 0) {
			Barrier& b = barriers[w.barrier];
			text += "waits at barrier " + std::to_string(w.barrier) + ", where " + std::to_string(b.count) + " of " + std::to_string(b.expected) +
			        " threads are, " + place(f.at);
		} else if (w.arrived) {
			int here = __builtin_ctz(w.arrived);
			uint32_t others = ~w.arrived & ~w.exited;
			text += "lane " + std::to_string(here) + " waits at " + name(w.meets) + ", " + place(w.first);
			if (others) {
				Fiber& o = w.fibers[__builtin_ctz(others)];
				text += "; lane " + std::to_string(o.lane) + " at " + place(o.at);
			}
		} else if (f.waits) {
			text += "waits for the mbarrier at byte " + std::to_string((char*)f.waits - shared) + ", phase " + std::to_string(f.parity) + ", " + place(f.at);
		} else {
			text += "at " + place(f.at);
		}
	}
	Fiber* f = running();
	fail(Code::launch_failed, f ? f->at : nullptr, "%s", text.c_str());
}

} // namespace emu
