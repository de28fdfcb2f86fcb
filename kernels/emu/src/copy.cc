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
	async_begins(f, dst, 16, true, false, pc);
	memset(dst, 0xff, 16);
	f->copies.push_back({(char*)dst, (const char*)src, bytes, pc});
	f->open++;
}

void cp_async_commit() {
	Fiber* f = running();
	f->groups.push_back(f->open);
	f->open = 0;
}

void cp_async_wait(int groups) {
	Fiber* f = running();
	f->at = CALLER;
	int over = (int)f->groups.size() - groups;
	if (over <= 0) return;
	size_t n = 0;
	for (int i = 0; i < over; i++) n += f->groups[i];
	for (size_t i = 0; i < n; i++) {
		Copy& c = f->copies[i];
		memcpy(c.dst, c.src, c.bytes);
		memset(c.dst + c.bytes, 0, 16 - c.bytes);
		async_arrives(f, c.dst, 16, c.pc);
	}
	f->copies.erase(f->copies.begin(), f->copies.begin() + n);
	f->groups.erase(f->groups.begin(), f->groups.begin() + over);
}

} // namespace emu
