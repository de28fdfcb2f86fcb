// zero  x = 0, any bytes
//
// All threads together, 16 bytes at a time, the bytes before the first and after the last multiple of 16 one by one. The roof
// is memory: bytes, written once.
#include "rows.cuh"

struct ZeroArgs {
	u8* x;
	i64 bytes;
};

KERNEL(zero, ZeroArgs, a, 256, 8) {
	i64 thread = (i64)blockIdx.x * blockDim.x + threadIdx.x, threads = (i64)gridDim.x * blockDim.x;
	i64 head = (16 - (u64)a.x % 16) % 16;
	if (head > a.bytes) head = a.bytes;
	i64 pieces = (a.bytes - head) / 16, tail = head + 16 * pieces;
	for (i64 i = thread; i < pieces; i += threads) ((Octet*)(a.x + head))[i] = Octet{};
	if (thread < head) a.x[thread] = 0;
	if (tail + thread < a.bytes) a.x[tail + thread] = 0;
}
