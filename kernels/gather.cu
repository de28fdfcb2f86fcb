// gather           out[i] = x[rows[i]], zeros for -1
// gather_backward  dx[rows[i]] = dout[i]; the other rows of dx are zero before
//
// A block copies a row, 4 pieces of 16 bytes a thread at once. The roof is memory: a row read and a row written.
#include "rows.cuh"

struct GatherArgs {
	char* out;        // (R, D); backward (T, D)
	const char* x;    // (T, D); backward (R, D)
	const int* rows;  // (R)
	int R, T, D, dtype;
};

DEVICE int row_bytes(const GatherArgs& a) { return a.D * (a.dtype == F32 ? 4 : 2); }

template <bool WIDE>
DEVICE void gather(const GatherArgs& a) {
	i64 i = blockIdx.x, from = a.rows[i], bytes = row_bytes(a);
	copy_row<WIDE>(a.out + i * bytes, from < 0 ? nullptr : a.x + from * bytes, bytes);
}

template <bool WIDE>
DEVICE void scatter(const GatherArgs& a) {
	i64 i = blockIdx.x, to = a.rows[i], bytes = row_bytes(a);
	if (to >= 0) copy_row<WIDE>(a.out + to * bytes, a.x + i * bytes, bytes);
}

KERNEL(gather, GatherArgs, a, 256, 4) { gather<true>(a); }
KERNEL(gather_narrow, GatherArgs, a, 256, 4) { gather<false>(a); }
KERNEL(gather_backward, GatherArgs, a, 256, 4) { scatter<true>(a); }
KERNEL(gather_backward_narrow, GatherArgs, a, 256, 4) { scatter<false>(a); }
