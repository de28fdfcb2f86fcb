// roundscaled  out = x·scale, rounded to bfloat16
//
// A thread has eight elements: two loads of 16 bytes and one store. The roof is memory: 6 bytes an element.
#include "rows.cuh"

struct RoundScaledArgs {
	bf16* out;       // (N)
	const float* x;  // (N)
	i64 N;
	float scale;
	int pad;
};

template <bool WIDE>
DEVICE void round_eight(const RoundScaledArgs& a) {
	i64 at = 8 * ((i64)blockIdx.x * blockDim.x + threadIdx.x), rest = a.N - at;
	if (rest <= 0) return;
	float x[8];
	if (WIDE && rest >= 8) {
		load_floats<true>(x, a.x + at, 8);
		for (int i = 0; i < 8; i++) x[i] *= a.scale;
		store_octet<true>(a.out + at, round_octet(x), 8);
	} else {
		int n = rest < 8 ? (int)rest : 8;
		load_floats<false>(x, a.x + at, n);
		for (int i = 0; i < 8; i++) x[i] *= a.scale;
		store_octet<false>(a.out + at, round_octet(x), n);
	}
}

KERNEL(roundscaled, RoundScaledArgs, a, 256, 8) { round_eight<true>(a); }
KERNEL(roundscaled_narrow, RoundScaledArgs, a, 256, 8) { round_eight<false>(a); }
