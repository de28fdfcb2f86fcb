// Tensor maps as the driver makes them, with what it refuses.
#include <string.h>

#include "api.h"
#include "tensormap.h"

using namespace emu;

static int element_bytes(int type) {
	const int bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4}; // CUtensorMapDataType: uint8 ... bfloat16, flushed float32, tfloat32
	return type >= 0 && type < 13 ? bytes[type] : 0;
}

EMU_API cuTensorMapEncodeTiled(void* map, int type, unsigned rank, void* address, const uint64_t* dims, const uint64_t* strides, const uint32_t* box,
                               const uint32_t* steps, int interleave, int swizzle, int l2, int fill) {
	TensorMap m{};
	m.magic = TENSOR_MAP;
	m.base = (char*)address;
	m.rank = (uint8_t)rank;
	m.bytes = (uint8_t)element_bytes(type);
	m.swizzle = (uint8_t)swizzle;
	m.nan = (uint8_t)fill;
	if ((uintptr_t)map % 64 || (uintptr_t)address % 16 || rank < 1 || rank > 5 || !m.bytes || interleave != 0 || swizzle < 0 || swizzle > 3 || l2 < 0 || l2 > 3 || fill < 0 ||
	    fill > 1)
		return INVALID_VALUE;
	for (unsigned i = 0; i < rank; i++) {
		if (dims[i] < 1 || dims[i] > 1ull << 32 || box[i] < 1 || box[i] > 256 || steps[i] < 1 || steps[i] > 8) return INVALID_VALUE;
		m.dims[i] = (uint32_t)dims[i];
		m.box[i] = (uint16_t)box[i];
		m.steps[i] = (uint8_t)steps[i];
		if (i == 0) continue;
		if (strides[i - 1] % 16 || strides[i - 1] >= 1ull << 40) return INVALID_VALUE;
		m.strides[i - 1] = strides[i - 1];
	}
	unsigned line = box[0] * m.bytes; // innermost bytes fit the swizzle
	if (line % 16 || (swizzle && line > 16u << swizzle)) return INVALID_VALUE;
	memcpy(map, &m, sizeof m);
	return SUCCESS;
}
