// rmsnorm           sum = round(x + r) if there is an r; out = round(sum·rstd·w), rstd = 1/√(mean(sum²) + eps)
// rmsnorm_backward  dx = round(dres + g·rstd - x·rstd³·Σ g·x/D) with g = dout·w; leaves[t/16] = Σ dout·(x·rstd) over 16 rows
// rmsnorm_dw        dw += leaves, ascending
//
// A row has a block of ⌈D/512⌉ warps, of which every thread keeps two octets: octet i belongs to thread i % threads. A thread
// adds each of its octets in order, then the two sums; a tree joins threads, another one warps. Backward, a block goes through
// the 16 rows of a leaf, so that the terms of dw stay in registers, and loads a row while it computes the one before.
//
// The roof is memory: forward T·D·4 bytes, 8 with a residual; backward T·D·8 (6 without dres) and T·D/2 for the leaves. What
// is on its way while a row is computed: 32 bytes a thread forward, 96 backward, 50 KB or more a multiprocessor.
#include "rows.cuh"

struct RMSNormArgs {
	bf16* sum;      // (T, D), null if r is
	bf16* out;      // (T, D)
	float* rstd;    // (T) or null
	const bf16* x;  // (T, D)
	const bf16* r;  // (T, D) or null
	const bf16* w;  // (D)
	int T, D, dtype;
	float eps;
};

const int OCTETS = 2;  // of a thread

// Octet k of the thread: its first column.
DEVICE int column(int k) { return 8 * (threadIdx.x + k * blockDim.x); }

// The thread's part of a row of D.
template <bool WIDE>
DEVICE void load_row(Octet (&o)[OCTETS], const bf16* row, int D) {
	for (int k = 0; k < OCTETS; k++) o[k] = load_octet<WIDE>(row + column(k), D - column(k));
}

template <bool WIDE>
DEVICE void normalise(const RMSNormArgs& a, float* partial) {
	i64 row = (i64)blockIdx.x * a.D;
	Octet x[OCTETS], r[OCTETS], w[OCTETS];
	load_row<WIDE>(x, a.x + row, a.D);
	if (a.r) load_row<WIDE>(r, a.r + row, a.D);
	load_row<WIDE>(w, a.w, a.D);

	float squares[OCTETS];
	for (int k = 0; k < OCTETS; k++) {
		if (a.r) {
			float sum[8];
			for (int i = 0; i < 8; i++) sum[i] = element(x[k], i) + element(r[k], i);
			x[k] = round_octet(sum);
			store_octet<WIDE>(a.sum + row + column(k), x[k], a.D - column(k));
		}
		squares[k] = 0;
		for (int i = 0; i < 8; i++) squares[k] = fma32(element(x[k], i), element(x[k], i), squares[k]);
	}
	float rstd = inv_root(sum_block(squares[0] + squares[1], partial), a.D, a.eps);
	if (a.rstd && threadIdx.x == 0) a.rstd[blockIdx.x] = rstd;

	for (int k = 0; k < OCTETS; k++) {
		float out[8];
		for (int i = 0; i < 8; i++) out[i] = element(x[k], i) * rstd * element(w[k], i);
		store_octet<WIDE>(a.out + row + column(k), round_octet(out), a.D - column(k));
	}
}

KERNEL(rmsnorm, RMSNormArgs, a, 512, 3) {
	SHARED(shared);
	normalise<true>(a, (float*)shared);
}

KERNEL(rmsnorm_narrow, RMSNormArgs, a, 512, 1) {
	SHARED(shared);
	normalise<false>(a, (float*)shared);
}

struct RMSNormBackwardArgs {
	bf16* dx;           // (T, D), may be dout or dres
	float* dw;          // (D)
	float* leaves;      // (⌈T/16⌉, D)
	const bf16* dout;   // (T, D)
	const bf16* dres;   // (T, D) or null
	const float* rstd;  // (T)
	const bf16* x;      // (T, D)
	const bf16* w;      // (D)
	int T, D, dtype, _;
};

// The thread's part of what a row's gradient takes.
struct Row {
	Octet dout[OCTETS], x[OCTETS], dres[OCTETS];
	float rstd;
};

template <bool WIDE>
DEVICE void load_row(Row& row, const RMSNormBackwardArgs& a, int t) {
	i64 at = (i64)t * a.D;
	load_row<WIDE>(row.dout, a.dout + at, a.D);
	load_row<WIDE>(row.x, a.x + at, a.D);
	for (int k = 0; k < OCTETS; k++) row.dres[k] = Octet{};
	if (a.dres) load_row<WIDE>(row.dres, a.dres + at, a.D);
	row.rstd = a.rstd[t];
}

template <bool WIDE>
DEVICE void backward(const RMSNormBackwardArgs& a, float* partial) {
	int first = blockIdx.x * LEAF_ROWS, end = first + LEAF_ROWS < a.T ? first + LEAF_ROWS : a.T;
	Octet w[OCTETS];
	load_row<WIDE>(w, a.w, a.D);
	float leaf[OCTETS][8] = {};
	Row next;
	load_row<WIDE>(next, a, first);
	for (int t = first; t < end; t++) {
		Row row = next;
		if (t + 1 < end) load_row<WIDE>(next, a, t + 1);

		float sums[OCTETS] = {};
		for (int k = 0; k < OCTETS; k++)
			for (int i = 0; i < 8; i++) {
				float dout = element(row.dout[k], i), x = element(row.x[k], i);
				sums[k] = fma32(dout * element(w[k], i), x, sums[k]);
				leaf[k][i] += x * row.rstd * dout;
			}
		float c = norm_factor(row.rstd, sum_block(sums[0] + sums[1], partial + 32 * (t % 2)), a.D);

		for (int k = 0; k < OCTETS; k++) {
			float dx[8];
			for (int i = 0; i < 8; i++) {
				float g = element(row.dout[k], i) * element(w[k], i);
				dx[i] = element(row.dres[k], i) + (g * row.rstd + element(row.x[k], i) * c);
			}
			store_octet<WIDE>(a.dx + (i64)t * a.D + column(k), round_octet(dx), a.D - column(k));
		}
	}
	for (int k = 0; k < OCTETS; k++) store_floats<WIDE>(a.leaves + (i64)blockIdx.x * a.D + column(k), leaf[k], a.D - column(k));
}

KERNEL(rmsnorm_backward, RMSNormBackwardArgs, a, 512, 1) {
	SHARED(shared);
	backward<true>(a, (float*)shared);
}

KERNEL(rmsnorm_backward_narrow, RMSNormBackwardArgs, a, 512, 1) {
	SHARED(shared);
	backward<false>(a, (float*)shared);
}

KERNEL(rmsnorm_dw, RMSNormBackwardArgs, a, LEAF_COLUMNS, 1) {
	int d = blockIdx.x * LEAF_COLUMNS + threadIdx.x;
	if (d < a.D) add_leaves(a.dw + d, a.leaves + d, a.D, blocks(a.T, LEAF_ROWS));
}
