// Looks for accesses to shared memory that no barrier orders, and for words of the device's memory that two blocks touch,
// of which one writes. It sees every access of a kernel that was compiled with -fsanitize=thread (the checked library);
// in the plain one nothing is recorded.
#pragma once

#include "block.h"

namespace emu {

// A block begins; a thread of it returns; the memory after the end of its shared memory was left alone.
void enter(Block* b);
void leave(Fiber* f);
void check_tail(Block* b);

// An access by an instruction: bounds and alignment are checked always, order in the checked library.
[[noreturn]] void fail_shared(Fiber* f, const void* p, unsigned n, unsigned align, bool write, const void* pc);
[[noreturn]] void fail_global(const void* p, size_t n, unsigned align, bool write, const void* pc);

inline void check_shared(Fiber* f, const void* p, unsigned n, unsigned align, bool write, const void* pc) { // not their order
	long at = (const char*)p - f->of->shared;
	if (__builtin_expect(at < 0 || at + n > f->of->shared_bytes || (uintptr_t)p % align, 0)) fail_shared(f, p, n, align, write, pc);
}

inline const Allocation* check_global(Fiber* f, const void* p, size_t n, unsigned align, bool write, const void* pc) { // null for no bytes
	if (__builtin_expect((uintptr_t)p % align, 0)) fail_global(p, n, align, write, pc);
	if (n == 0) return nullptr;
	const Allocation* a = f->of->recent.find(p);
	if (__builtin_expect(!a || !inside(*a, p, n), 0)) fail_global(p, n, align, write, pc);
	return a;
}

// An access within bounds, for the order only.
void note_shared(Fiber* f, const void* p, size_t n, bool write, const void* pc);
void note_global(Fiber* f, const Allocation& a, const void* p, size_t n, bool write, const void* pc);

inline void shared_access(Fiber* f, const void* p, unsigned n, unsigned align, bool write, const void* pc) {
	check_shared(f, p, n, align, write, pc);
	if (records) note_shared(f, p, n, write, pc);
}

inline void global_access(Fiber* f, const void* p, size_t n, unsigned align, bool write, const void* pc) {
	const Allocation* a = check_global(f, p, n, align, write, pc);
	if (records && a) note_global(f, *a, p, n, write, pc);
}

// Accesses that go on after the instruction. An asynchronous copy fills bytes of shared memory from now on, or reads
// them, in the async proxy or not; it has filled them, for the thread that waited or for whoever waits for an mbarrier; it
// has read them.
void async_begins(Fiber* f, const void* p, size_t n, bool write, bool proxy, const void* pc);
void async_arrives(Fiber* f, const void* p, size_t n, const void* pc);
void async_arrives(Fiber* f, const void* p, size_t n, Mbarrier& bar, const void* pc);
void async_ends(Fiber* f, const void* p, size_t n, const void* pc);

// What comes before and what after: lanes of a warp, warps at a barrier, threads at an mbarrier.
void order_warp(Warp& w);
void order_arrive(Block* b, int barrier, Warp& w);
void order_barrier(Block* b, int barrier, uint32_t warps);
void order_release(Fiber* f, Mbarrier& bar);
void order_acquire(Fiber* f, Mbarrier& bar);

inline bool is_shared(Block* b, const void* p) {
	const char* c = (const char*)p;
	return c >= b->shared && c < b->shared + b->shared_bytes;
}

} // namespace emu
