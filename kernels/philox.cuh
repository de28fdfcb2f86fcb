// Philox4x32-10 with the bits of philox.go.
#pragma once

#include "kernel.cuh"

struct Random {
	u32 r[4];
};

// 128 random bits that are a function of a key, whose lower half is its first word, and a counter.
DEVICE Random philox(u64 key, u32 c0, u32 c1, u32 c2, u32 c3) {
	u32 k0 = (u32)key, k1 = (u32)(key >> 32);
	for (int i = 0; i < 10; i++) {
		u64 p0 = (u64)0xd2511f53u * c0, p1 = (u64)0xcd9e8d57u * c2;
		u32 next0 = (u32)(p1 >> 32) ^ c1 ^ k0, next2 = (u32)(p0 >> 32) ^ c3 ^ k1;
		c0 = next0, c1 = (u32)p1, c2 = next2, c3 = (u32)p0;
		k0 += 0x9e3779b9u;  // the golden ratio
		k1 += 0xbb67ae85u;  // √3 - 1
	}
	return Random{{c0, c1, c2, c3}};
}

// The first 53 of the bits, in [0, 1).
DEVICE double uniform(const Random& x) { return (double)(((u64)x.r[0] << 32 | x.r[1]) >> 11) * 0x1p-53; }
