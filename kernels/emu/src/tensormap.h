// A tensor map, as the emulator's cuTensorMapEncodeTiled lays it out in the 128 bytes that are nobody else's business.
#pragma once

#include <stdint.h>

namespace emu {

const uint64_t TENSOR_MAP = 0x70616d726f736e74;

struct TensorMap {
	uint64_t magic;
	char* base;
	uint64_t strides[4]; // bytes, of dimensions 1 and up
	uint32_t dims[5];
	uint16_t box[5];
	uint8_t steps[5];
	uint8_t rank, bytes, swizzle, nan; // bytes of an element; swizzle 0 to 3: none, 32, 64, 128 bytes
	uint8_t pad[41];
};
static_assert(sizeof(TensorMap) == 128);

// Where byte `at` of shared memory lies under a swizzle: units of 16 bytes change places within 128, 64 or 32 bytes, by
// the number of the line of 128.
inline uint64_t swizzled(uint64_t at, int mode) { return at ^ (at >> 7 & ((1u << mode) - 1)) << 4; }

} // namespace emu
