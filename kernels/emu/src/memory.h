// Memory of the device and pinned memory of the host: each allocation has pages around it that nobody may touch.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <atomic>
#include <string>

namespace emu {

extern const bool records; // true in the checked library: who touched what is kept

struct Allocation {
	char* base; // a multiple of 16; the page after its last 16 bytes is a guard
	size_t size = 0;
	char* map;
	size_t mapped;
	bool host;
	bool adopted; // from whoever mapped it: no guards around it
	uint64_t* shadow; // who touched what, by pairs of bytes: see race.h
};

// Null if there is no room.
char* allocate(size_t size, bool host);
bool release(void* base, bool adopted = false);

// Takes memory that others have mapped for the host's; false if some of it is an allocation.
bool adopt(void* base, size_t size);
void release_all();
size_t allocated(); // bytes on the device

// The allocation that holds p: false if there is none. `when` is told what allocation_changes was.
bool find(const void* p, Allocation* a, uint64_t* when = nullptr);

inline bool inside(const Allocation& a, const void* p, size_t n) {
	const char* c = (const char*)p;
	return c >= a.base && n <= a.size && c <= a.base + a.size - n;
}

// How often an allocation has come or gone.
extern std::atomic<uint64_t> allocation_changes;

// The last few allocations that somebody looked into, while none has come or gone.
struct Recent {
	Allocation last[4];
	unsigned turn = 0;
	uint64_t when = 0;

	const Allocation* find(const void* p) {
		if (__builtin_expect(when == allocation_changes.load(std::memory_order_acquire), 1))
			for (const Allocation& a : last)
				if ((size_t)((const char*)p - a.base) < a.size) return &a;
		return look(p);
	}

private:
	const Allocation* look(const void* p);
};

// "8 bytes after an allocation of 4096 bytes", for a message.
std::string where(const void* p);

// Fills with a value; whole pages of zeros are given back to the system.
void fill(void* p, int value, size_t n);

// The bytes between an allocation's end and its guard were left alone.
bool tails_intact(std::string* which);

} // namespace emu
