// swiglu           out = silu(gate)·up, silu(g) = g/(1 + e^-g)
// swiglu_backward  with s = 1/(1 + e^-gate): dgate = dout·up·s·(1 + gate·(1-s)), dup = dout·gate·s
//
// Elementwise with the bits of vec.silu. Blocks are (row, columns); a thread has two octets, threads apart, all loaded before
// any is used. The roof is memory: T·F·6 bytes forward, 10 backward. An element takes about 38 instructions forward, 45
// backward: less than the memory's time on H100 and H200, as much on B200.
#include "rows.cuh"

struct SwiGLUArgs {
	bf16* dgateup;       // (T, 2F), backward; may be gateup
	bf16* out;           // (T, F); backward dout
	const bf16* gateup;  // (T, 2F)
	int T, F, dtype, _;
};

const int OCTETS = 2;  // of a thread

DEVICE float exp_minus(float gate) { return exp2_poly(gate * -LOG2E); }

template <bool WIDE>
DEVICE void forward(const SwiGLUArgs& a) {
	const bf16* gate = a.gateup + (i64)blockIdx.x * 2 * a.F;
	bf16* out = a.out + (i64)blockIdx.x * a.F;
	int first = 8 * (blockIdx.y * OCTETS * blockDim.x + threadIdx.x), step = 8 * blockDim.x;
	Octet g[OCTETS], u[OCTETS];
#pragma unroll
	for (int k = 0; k < OCTETS; k++) {
		int f = first + k * step;
		g[k] = load_octet<WIDE>(gate + f, a.F - f);
		u[k] = load_octet<WIDE>(gate + a.F + f, a.F - f);
	}
#pragma unroll
	for (int k = 0; k < OCTETS; k++) {
		int f = first + k * step;
		float y[8];
		for (int i = 0; i < 8; i++) y[i] = element(g[k], i) / (1 + exp_minus(element(g[k], i))) * element(u[k], i);
		store_octet<WIDE>(out + f, round_octet(y), a.F - f);
	}
}

template <bool WIDE>
DEVICE void backward(const SwiGLUArgs& a) {
	i64 row = (i64)blockIdx.x * 2 * a.F;
	const bf16 *gate = a.gateup + row, *dout = a.out + (i64)blockIdx.x * a.F;
	bf16* dgate = a.dgateup + row;
	int first = 8 * (blockIdx.y * OCTETS * blockDim.x + threadIdx.x), step = 8 * blockDim.x;
	Octet g[OCTETS], u[OCTETS], d[OCTETS];
#pragma unroll
	for (int k = 0; k < OCTETS; k++) {
		int f = first + k * step;
		g[k] = load_octet<WIDE>(gate + f, a.F - f);
		u[k] = load_octet<WIDE>(gate + a.F + f, a.F - f);
		d[k] = load_octet<WIDE>(dout + f, a.F - f);
	}
#pragma unroll
	for (int k = 0; k < OCTETS; k++) {
		int f = first + k * step;
		float dg[8], du[8];
		for (int i = 0; i < 8; i++) {
			float x = element(g[k], i), y = element(d[k], i), s = 1 / (1 + exp_minus(x));
			du[i] = y * (x * s);
			dg[i] = y * element(u[k], i) * (s * fma32(x, 1 - s, 1));
		}
		store_octet<WIDE>(dgate + f, round_octet(dg), a.F - f);
		store_octet<WIDE>(dgate + a.F + f, round_octet(du), a.F - f);
	}
}

KERNEL(swiglu, SwiGLUArgs, a, 256, 4) { forward<true>(a); }
KERNEL(swiglu_narrow, SwiGLUArgs, a, 256, 2) { forward<false>(a); }
KERNEL(swiglu_backward, SwiGLUArgs, a, 256, 4) { backward<true>(a); }
KERNEL(swiglu_backward_narrow, SwiGLUArgs, a, 256, 2) { backward<false>(a); }
