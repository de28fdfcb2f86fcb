// What the compiler calls at each access of a kernel in the checked library (-fsanitize=thread), and where arithmetic has
// no meaning (-fsanitize=alignment and others). None of a sanitizer's own library is linked.
#include <dlfcn.h>

#include "race.h"
#include "report.h"
#include "settings.h"
#include "stats.h"
#include "worker.h"

extern "C" {
extern char __ehdr_start __attribute__((visibility("hidden")));
extern char _end __attribute__((visibility("hidden")));
}

namespace emu {

const char* library() { return &__ehdr_start; }

static __attribute__((noinline)) void elsewhere(const void* p, size_t n, bool write, const void* pc) {
	if (!self) return;
	const char* c = (const char*)p;
	auto within = [&](const void* from, size_t size) { return (size_t)(c - (const char*)from) < size; };
	Fiber* f = running();
	if (within(f, sizeof(Thread)) || p == &self) return; // threadIdx and the like
	const Launch& l = *f->of->launch;
	if (within(l.args.get(), l.entry->size)) return;
	const Worker& w = *f->of->worker;
	if (w.in_window(p)) return shared_access(f, p, (unsigned)n, 1, write, pc);
	if (w.on_stack(p)) return;
	if (!write && within(library(), (size_t)(&_end - library()))) return;
	global_access(f, p, n, 1, write, pc);
}

// Most accesses are to the thread's own stack.
static inline __attribute__((always_inline)) void access(const void* p, size_t n, bool write, const void* pc) {
	uintptr_t sp;
	asm("movq %%rsp, %0" : "=r"(sp));
	if ((uintptr_t)p - sp >= STACK) elsewhere(p, n, write, pc);
}

// Two blocks touch a word in one launch, and one of them writes: nothing orders them.
// A pair of bytes has launch << 40 | writing block + 1 << 20 | reading block + 1; SEVERAL readers.
const uint64_t SEVERAL = 0xfffff;

void note_global(Fiber* f, const Allocation& a, const void* p, size_t n, bool write, const void* pc) {
	Block* b = f->of;
	Traffic& t = traffic();
	(write ? t.written : t.read) += n;
	const Launch& l = *b->launch;
	if (!a.shadow || n < 2 || (uint64_t)l.grid.x * l.grid.y * l.grid.z >= SEVERAL) return;
	uint64_t launch = l.number & 0xffffff, me = b->number + 1;
	size_t first = (const char*)p - a.base;
	uint64_t known = ~0ull, becomes = 0; // what was last found, which the next pair mostly is as well
	for (size_t i = first / 2; i <= (first + n - 1) / 2; i++) {
		uint64_t v = __atomic_load_n(&a.shadow[i], __ATOMIC_RELAXED);
		do {
			if (v == known) continue;
			known = v;
			if (v >> 40 != launch) v = launch << 40;
			uint64_t writer = v >> 20 & SEVERAL, reader = v & SEVERAL;
			if (settings().races && writer && writer != me)
				fail(Code::launch_failed, pc, "race: block %u %s %zu bytes at %p, %s, which block %lu has written in the same launch", b->number, write ? "writes" : "reads", n, p,
				     where(p).c_str(), (unsigned long)writer - 1);
			if (write && settings().races && reader && reader != me)
				fail(Code::launch_failed, pc, "race: block %u writes %zu bytes at %p, %s, which %s in the same launch", b->number, n, p, where(p).c_str(),
				     reader == SEVERAL ? "several blocks read" : ("block " + std::to_string(reader - 1) + " reads").c_str());
			becomes = write ? (v & ~(SEVERAL << 20)) | me << 20 : (v & ~SEVERAL) | (reader == 0 || reader == me ? me : SEVERAL);
			v = known;
		} while (becomes != v && !__atomic_compare_exchange_n(&a.shadow[i], &v, becomes, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
		if (v >> 40 != launch) v = 0;
		if (write) t.written_least += v >> 20 & SEVERAL ? 0 : 2;
		else t.read_least += v & (SEVERAL << 20 | SEVERAL) ? 0 : 2;
	}
}

// ---- Arithmetic

struct Location {
	const char* file;
	uint32_t line, column;
};

struct Mismatch {
	Location at;
	const void* type;
	unsigned char log_alignment, kind;
};

} // namespace emu

using namespace emu;

#define EMU_CALLED extern "C" __attribute__((visibility("hidden")))

EMU_CALLED void __tsan_init() {}
EMU_CALLED void __tsan_func_entry(void*) {}
EMU_CALLED void __tsan_func_exit() {}

#define SIZE(n)                                                                              \
	EMU_CALLED void __tsan_read##n(void* p) { access(p, n, false, CALLER); }                   \
	EMU_CALLED void __tsan_write##n(void* p) { access(p, n, true, CALLER); }                   \
	EMU_CALLED void __tsan_unaligned_read##n(void* p) { access(p, n, false, CALLER); }         \
	EMU_CALLED void __tsan_unaligned_write##n(void* p) { access(p, n, true, CALLER); }         \
	EMU_CALLED void __tsan_volatile_read##n(void* p) { access(p, n, false, CALLER); }          \
	EMU_CALLED void __tsan_volatile_write##n(void* p) { access(p, n, true, CALLER); }
SIZE(1)
SIZE(2)
SIZE(4)
SIZE(8)
SIZE(16)

EMU_CALLED void __tsan_read_range(void* p, size_t n) { access(p, n, false, CALLER); }
EMU_CALLED void __tsan_write_range(void* p, size_t n) { access(p, n, true, CALLER); }

#define ARITHMETIC(name, what)                                                             \
	EMU_CALLED void __ubsan_handle_##name(void*, uint64_t, uint64_t) {                         \
		if (self) fail(Code::launch_failed, CALLER, what);                                       \
	}
ARITHMETIC(add_overflow, "overflow: a sum passes 32 bits")
ARITHMETIC(sub_overflow, "overflow: a difference passes 32 bits")
ARITHMETIC(mul_overflow, "overflow: a product passes 32 bits")
ARITHMETIC(divrem_overflow, "division by zero")
ARITHMETIC(shift_out_of_bounds, "a shift by more bits than there are, or of a negative number")

EMU_CALLED void __ubsan_handle_negate_overflow(void*, uint64_t) {
	if (self) fail(Code::launch_failed, CALLER, "overflow: a negation");
}
EMU_CALLED void __ubsan_handle_out_of_bounds(void*, uint64_t i) {
	if (self) fail(Code::illegal_address, CALLER, "out of bounds: element %ld of an array", (long)i);
}
EMU_CALLED void __ubsan_handle_type_mismatch_v1(Mismatch* m, uint64_t p) {
	if (self) fail(Code::misaligned_address, CALLER, "misaligned: address %#lx is no multiple of %d", (unsigned long)p, 1 << m->log_alignment);
}
EMU_CALLED void __ubsan_handle_builtin_unreachable(void*) {
	if (self) fail(Code::launch_failed, CALLER, "code that can't be reached");
}
EMU_CALLED void __ubsan_handle_missing_return(void*) {
	if (self) fail(Code::launch_failed, CALLER, "a function ends without a value");
}
