// Random numbers of a schedule: a seed gives the same ones on every machine.
#pragma once

#include <stdint.h>

namespace emu {

struct Random {
	uint64_t state = 1;

	void seed(uint64_t a, uint64_t b) {
		state = (a * 0x9e3779b97f4a7c15u) ^ (b + 0xbf58476d1ce4e5b9u);
		for (int i = 0; i < 3; i++) next();
	}
	// splitmix64.
	uint64_t next() {
		uint64_t z = state += 0x9e3779b97f4a7c15u;
		z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
		z = (z ^ z >> 27) * 0x94d049bb133111ebu;
		return z ^ z >> 31;
	}
	unsigned below(unsigned n) { return (unsigned)((next() >> 32) * n >> 32); }
	bool one_in(unsigned n) { return below(n) == 0; }
};

// The number of a bit of a non-empty mask, any of them.
inline int any_bit(uint32_t mask, Random& r) {
	unsigned turn = r.next() & 31;
	uint32_t turned = mask >> turn | mask << (-turn & 31);
	return (__builtin_ctz(turned) + turn) & 31;
}

} // namespace emu
