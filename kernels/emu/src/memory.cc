#include "memory.h"

#include <string.h>
#include <sys/mman.h>
#include <atomic>
#include <map>
#include <mutex>
#include <shared_mutex>

namespace emu {

const size_t PAGE = 4096;
const size_t LARGE = 16 << 20; // from here on memory starts as zeros, which cost nothing until they are touched
const int TAIL = 0xa5;

static std::shared_mutex mutex;
static size_t on_device;
std::atomic<uint64_t> allocation_changes = 1;

static std::map<const char*, Allocation>& all() {
	static auto* m = new std::map<const char*, Allocation>; // by base; threads may outlive what is destroyed at the end
	return *m;
}

static char* end(const Allocation& a) { return a.base + ((a.size + 15) & ~(size_t)15); }

char* allocate(size_t size, bool host) {
	size_t padded = (size + 15) & ~(size_t)15;
	size_t pages = (padded + PAGE - 1) & ~(PAGE - 1);
	size_t mapped = pages + 2 * PAGE;
	char* map = (char*)mmap(nullptr, mapped, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (map == MAP_FAILED) return nullptr;
	if (mprotect(map + PAGE, pages, PROT_READ | PROT_WRITE)) {
		munmap(map, mapped);
		return nullptr;
	}
	Allocation a{map + PAGE + pages - padded, size, map, mapped, host, false, nullptr};
	if (records) {
		void* shadow = mmap(nullptr, 4 * padded + 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
		if (shadow != MAP_FAILED) a.shadow = (uint64_t*)shadow;
	}
	if (size < LARGE) memset(a.base, 0xff, size);
	memset(a.base + size, TAIL, padded - size);
	std::unique_lock lock(mutex);
	allocation_changes++;
	all()[a.base] = a;
	if (!host) on_device += size;
	return a.base;
}

bool adopt(void* base, size_t size) {
	std::unique_lock lock(mutex);
	auto i = all().lower_bound((char*)base + size);
	if (i != all().begin() && end((--i)->second) > (char*)base) return false;
	allocation_changes++;
	all()[(char*)base] = Allocation{(char*)base, size, nullptr, 0, true, true, nullptr};
	return true;
}

static void unmap(const Allocation& a) {
	if (a.adopted) return;
	munmap(a.map, a.mapped);
	if (a.shadow) munmap(a.shadow, 4 * (size_t)(end(a) - a.base) + 8);
	if (!a.host) on_device -= a.size;
}

bool release(void* base, bool adopted) {
	std::unique_lock lock(mutex);
	auto i = all().find((char*)base);
	if (i == all().end() || i->second.adopted != adopted) return false;
	allocation_changes++;
	unmap(i->second);
	all().erase(i);
	return true;
}

void release_all() {
	std::unique_lock lock(mutex);
	allocation_changes++;
	for (auto& [_, a] : all()) unmap(a);
	all().clear();
}

size_t allocated() {
	std::shared_lock lock(mutex);
	return on_device;
}

bool find(const void* p, Allocation* found, uint64_t* when) {
	std::shared_lock lock(mutex);
	if (when) *when = allocation_changes;
	auto i = all().upper_bound((const char*)p);
	if (i == all().begin()) return false;
	const Allocation& a = (--i)->second;
	if (!inside(a, p, 1)) return false;
	*found = a;
	return true;
}

const Allocation* Recent::look(const void* p) {
	Allocation a;
	uint64_t now;
	if (!emu::find(p, &a, &now)) return nullptr;
	if (when != now)
		for (Allocation& l : last) l.size = 0;
	when = now;
	return &(last[turn++ % 4] = a);
}

std::string where(const void* p) {
	std::shared_lock lock(mutex);
	const char* c = (const char*)p;
	auto i = all().upper_bound(c);
	std::string text;
	uint64_t best = ~0ull;
	auto look = [&](const Allocation& a) {
		uint64_t before = c < a.base ? a.base - c : 0, after = c >= a.base + a.size ? c - (a.base + a.size) : 0;
		if (std::max(before, after) >= best) return;
		best = std::max(before, after);
		std::string of = " an allocation of " + std::to_string(a.size) + " bytes";
		if (before) text = std::to_string(before) + " bytes before" + of;
		else if (c >= a.base + a.size) text = std::to_string(after) + " bytes after the end of" + of;
		else text = std::to_string(c - a.base) + " bytes into" + of;
	};
	if (i != all().end()) look(i->second);
	if (i != all().begin()) look((--i)->second);
	return text.empty() || best > 1ull << 32 ? "nowhere near an allocation" : text;
}

void fill(void* p, int value, size_t n) {
	char* from = (char*)(((uintptr_t)p + PAGE - 1) & ~(PAGE - 1));
	char* to = (char*)(((uintptr_t)p + n) & ~(PAGE - 1));
	if (value || n < LARGE || to <= from || madvise(from, to - from, MADV_DONTNEED)) {
		memset(p, value, n);
		return;
	}
	memset(p, 0, from - (char*)p);
	memset(to, 0, (char*)p + n - to);
}

bool tails_intact(std::string* which) {
	std::shared_lock lock(mutex);
	for (auto& [_, a] : all())
		for (const char* c = a.base + a.size; c < end(a) && !a.adopted; c++)
			if (*c != (char)TAIL) {
				*which = std::to_string(c - a.base - a.size) + " bytes after the end of an allocation of " + std::to_string(a.size) + " bytes";
				return false;
			}
	return true;
}

} // namespace emu
