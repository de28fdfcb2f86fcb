// The plain library: nothing is recorded.
#include "race.h"
#include "settings.h"

namespace emu {

extern const bool records = false;
void enter(Block*) {}
void leave(Fiber*) {}
void async_begins(Fiber*, const void*, size_t, bool, bool, const void*) {}
void async_arrives(Fiber*, const void*, size_t, const void*) {}
void note_shared(Fiber*, const void*, size_t, bool, const void*) {}
void note_global(Fiber*, const Allocation&, const void*, size_t, bool, const void*) {}
void async_arrives(Fiber*, const void*, size_t, Mbarrier&, const void*) {}
void async_ends(Fiber*, const void*, size_t, const void*) {}
void order_warp(Warp&) {}
void order_arrive(Block*, int, Warp&) {}
void order_barrier(Block*, int, uint32_t) {}
void order_release(Fiber*, Mbarrier&) {}
void order_acquire(Fiber*, Mbarrier&) {}

} // namespace emu
