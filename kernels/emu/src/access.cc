// Bounds and alignment of what instructions touch.
#include "race.h"
#include "report.h"
#include "worker.h"

namespace emu {

void check_tail(Block* b) {
	for (const char* c = b->shared + b->shared_bytes; c < b->worker->shared_end; c++)
		if (*c != (char)0xff) {
			report(Code::illegal_address, b->launch,
			       "out of bounds: a write " + std::to_string(c - b->shared - b->shared_bytes) + " bytes after the end of shared memory of " +
			           std::to_string(b->shared_bytes) + " bytes, seen when block " + std::to_string(b->number) + " had ended");
			return;
		}
}

void fail_shared(Fiber* f, const void* p, unsigned n, unsigned align, bool write, const void* pc) {
	Block* b = f->of;
	long at = (const char*)p - b->shared;
	if (at < 0 || at + n > b->shared_bytes)
		fail(Code::illegal_address, pc, "out of bounds: a %s of %u bytes at byte %ld of shared memory of %u bytes", write ? "write" : "read", n, at,
		     b->shared_bytes);
	fail(Code::misaligned_address, pc, "misaligned: byte %ld of shared memory is no multiple of %u", at, align);
}

void fail_global(const void* p, size_t n, unsigned align, bool write, const void* pc) {
	if ((uintptr_t)p % align) fail(Code::misaligned_address, pc, "misaligned: address %p is no multiple of %u", p, align);
	fail(Code::illegal_address, pc, "out of bounds: a %s of %zu bytes at %p, %s", write ? "write" : "read", n, p, where(p).c_str());
}

} // namespace emu
