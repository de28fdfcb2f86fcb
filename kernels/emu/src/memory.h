// Memory of the device and pinned memory of the host: each allocation has pages around it that nobody may touch.
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string>

namespace emu {

struct Allocation {
	char* base; // a multiple of 16; the page after its last 16 bytes is a guard
	size_t size;
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

// The allocation that holds p, or null. What was found is kept for recall, which finds it again while no allocation has
// come or gone.
struct Found {
	Allocation a{};
	uint64_t when = 0;
};
const Allocation* find(const void* p, Found* keep);
const Allocation* recall(const void* p, const Found& kept);
bool inside(const Allocation* a, const void* p, size_t n);

// "8 bytes after an allocation of 4096 bytes", for a message.
std::string where(const void* p);

// Fills with a value; whole pages of zeros are given back to the system.
void fill(void* p, int value, size_t n);

// The bytes between an allocation's end and its guard were left alone.
bool tails_intact(std::string* which);

} // namespace emu
