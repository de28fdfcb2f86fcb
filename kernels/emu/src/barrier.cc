// Named barriers of a block. Their instructions are a warp's: all lanes of it take part.
#include "race.h"
#include "report.h"

namespace emu {

static void arrive(Meet kind, int id, unsigned threads, const void* pc) {
	Fiber* f = running();
	Warp& w = *f->warp;
	Block* b = f->of;
	if (id < 0 || id > 15 || threads == 0 || threads % 32 || threads > (unsigned)b->threads)
		fail(Code::illegal_instruction, pc, "barrier %d of %u threads, in a block of %d", id, threads, b->threads);
	w.in[f->lane] = id;
	w.extra[f->lane] = threads;
	if (!meet(f, kind, pc)) return;
	for (int l = 0; l < 32; l++)
		if (w.in[l] != (unsigned)id || w.extra[l] != threads)
			fail(Code::launch_failed, pc, "divergent barrier: lane %d of warp %d is at barrier %d of %u threads, lane %d at barrier %d of %u", f->lane, w.index, id,
			     threads, l, w.in[l], w.extra[l]);
	Barrier& bar = b->barriers[id];
	if (bar.count && bar.expected != threads)
		fail(Code::launch_failed, pc, "divergent barrier: barrier %d is waited at by %u threads here and by %u at %s", id, threads, bar.expected, place(bar.pc).c_str());
	bar.expected = threads;
	bar.pc = pc;
	bar.count += 32;
	order_arrive(b, id, w);
	bool full = bar.count == bar.expected;
	if (kind == Meet::bar_sync) bar.warps |= 1u << w.index;
	if (full) {
		order_barrier(b, id, bar.warps);
		for (uint32_t m = bar.warps & ~(1u << w.index); m; m &= m - 1) {
			Warp& o = b->warp[__builtin_ctz(m)];
			o.barrier = -1;
			b->wake(o, ALL);
		}
		bar = {};
		go(f);
	} else if (kind == Meet::bar_arrive) {
		go(f);
	} else {
		w.barrier = id;
		b->suspend();
	}
}

void bar_sync(int id, unsigned threads) { arrive(Meet::bar_sync, id, threads, CALLER); }
void bar_arrive(int id, unsigned threads) { arrive(Meet::bar_arrive, id, threads, CALLER); }

} // namespace emu
