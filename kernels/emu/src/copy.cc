// cp.async: bytes arrive when the thread waits for their group; until then poison is there.
#include <string.h>

#include "race.h"
#include "report.h"

namespace emu {

void cp_async16(void* dst, const void* src, int bytes) {
	const void* pc = CALLER;
	Fiber* f = running();
	f->at = pc;
	if (bytes < 0 || bytes > 16) fail(Code::illegal_instruction, pc, "cp.async of %d bytes", bytes);
	check_shared(f, dst, 16, 16, true, pc);
	global_access(f, src, bytes, 16, false, pc);
	if (records) async_begins(f, dst, 16, true, false, pc);
	memset(dst, 0xff, 16);
	f->copies.push_back({(char*)dst, (const char*)src, pc, allocation_changes, bytes});
	f->open++;
}

static void arrive(Fiber* f, const Copy& c) {
	if (c.when != allocation_changes) check_global(f, c.src, c.bytes, 16, false, c.pc);
	if (__builtin_expect(c.bytes == 16, 1)) {
		memcpy(c.dst, c.src, 16);
	} else {
		memset(c.dst, 0, 16);
		memcpy(c.dst, c.src, c.bytes);
	}
	if (records) async_arrives(f, c.dst, 16, c.pc);
}

void cp_async_commit() {
	Fiber* f = running();
	f->groups.push_back(f->open);
	f->open = 0;
}

void cp_async_wait(int groups) {
	Fiber* f = running();
	f->at = CALLER;
	for (; (int)(f->groups.size() - f->waited) > groups; f->waited++)
		for (int n = f->groups[f->waited]; n > 0; n--) arrive(f, f->copies[f->arrived++]);
	if (f->arrived == f->copies.size()) {
		f->copies.clear();
		f->arrived = 0;
	}
	if (f->waited == f->groups.size()) {
		f->groups.clear();
		f->waited = 0;
	}
}

} // namespace emu
