// qknormrope           out = the pairs (i, i+E/2) of x·rstd·w turned by the angle of pos, rstd = 1/√(mean(x²) + eps) of a head
// qknormrope_backward  dqkv turned back, then through the norm, in place; leaves[t/16] = Σ of the weights' terms of 16 rows
// qknormrope_dw        dwq, dwk += leaves, ascending
//
// A head belongs to a group of lanes, the power of two that gives each at most 16 elements: octet i of either half is lane i's,
// so that both of a pair are in one thread. A lane adds each octet in order and then the two sums; a tree joins lanes.
// Forward, a group has two heads, loaded before either is used. Backward, a block has 16 rows, first the queries, then the
// keys: group g takes heads g, g + groups, ... counted through the rows, and loads one while it computes the one before;
// the terms of dw stay in its registers, and groups are added ascending at the end.
//
// The roof is memory: forward T·(H+K)·E·4 bytes, backward 6, and T·E/2 for the leaves. On their way are 64 bytes a thread, 64 KB
// a multiprocessor forward and 32 KB backward. Tables and weights come from L1.
#include "rows.cuh"

struct QKNormRopeArgs {
	bf16* out;         // (T, H+K, E); backward dqkv (T, H+2K, E)
	float* rstd;       // (T, H+K) or null
	float* dwq;        // (E), backward
	float* dwk;        // (E), backward
	float* leaves;     // (⌈T/16⌉, 2, E), backward
	const bf16* qkv;   // (T, H+2K, E)
	const bf16* wq;    // (E)
	const bf16* wk;    // (E)
	const int* pos;    // (T)
	const float* cos;  // (N, E/2)
	const float* sin;  // (N, E/2)
	int T, H, K, E, N, dtype;
	float eps;
	int _;
};

const int THREADS = 256;
const int AT_ONCE = 2;  // heads of a group, forward

DEVICE int lanes_of_head(int E) {
	int lanes = 1;
	while (16 * lanes < E) lanes *= 2;
	return lanes;
}

// A lane's octets of the two halves of a head.
struct Halves {
	Octet lo, hi;
};

template <bool WIDE>
DEVICE Halves load_halves(const bf16* head, int lane, int half) {
	const bf16* p = head + 8 * lane;
	return Halves{load_octet<WIDE>(p, half - 8 * lane), load_octet<WIDE>(p + half, half - 8 * lane)};
}

template <bool WIDE>
DEVICE void store_halves(bf16* head, const float (&lo)[8], const float (&hi)[8], int lane, int half) {
	bf16* p = head + 8 * lane;
	store_octet<WIDE>(p, round_octet(lo), half - 8 * lane);
	store_octet<WIDE>(p + half, round_octet(hi), half - 8 * lane);
}

template <bool WIDE>
DEVICE void forward(const QKNormRopeArgs& a, int lanes) {
	int M = a.H + a.K, half = a.E / 2, lane = threadIdx.x % lanes, groups = THREADS / lanes;
	int first = blockIdx.x * groups * AT_ONCE + threadIdx.x / lanes, heads = a.T * M;
	Halves x[AT_ONCE];
#pragma unroll
	for (int k = 0; k < AT_ONCE; k++) {
		int i = first + k * groups, t = i / M, h = i % M;
		x[k] = Halves{};
		if (i < heads) x[k] = load_halves<WIDE>(a.qkv + ((i64)t * (M + a.K) + h) * a.E, lane, half);
	}
#pragma unroll
	for (int k = 0; k < AT_ONCE; k++) {
		int i = first + k * groups, t = i / M, h = i % M;
		float lo = 0, hi = 0;
		for (int j = 0; j < 8; j++) {
			lo = fma32(element(x[k].lo, j), element(x[k].lo, j), lo);
			hi = fma32(element(x[k].hi, j), element(x[k].hi, j), hi);
		}
		float r = inv_root(sum_lanes(lo + hi, lanes), a.E, a.eps);
		if (i >= heads) continue;

		float y0[8] = {}, y1[8] = {};
		int p = a.pos[t];
		if (p >= 0) {
			Halves w = load_halves<WIDE>(h < a.H ? a.wq : a.wk, lane, half);
			float c[8], s[8];
			load_floats<WIDE>(c, a.cos + (i64)p * half + 8 * lane, half - 8 * lane);
			load_floats<WIDE>(s, a.sin + (i64)p * half + 8 * lane, half - 8 * lane);
			for (int j = 0; j < 8; j++) {
				float x0 = element(x[k].lo, j) * r * element(w.lo, j), x1 = element(x[k].hi, j) * r * element(w.hi, j);
				y0[j] = x0 * c[j] - x1 * s[j];
				y1[j] = x1 * c[j] + x0 * s[j];
			}
		}
		store_halves<WIDE>(a.out + (i64)i * a.E, y0, y1, lane, half);
		if (a.rstd && lane == 0) a.rstd[i] = p >= 0 ? r : 0;
	}
}

KERNEL(qknormrope_128, QKNormRopeArgs, a, THREADS, 4) { forward<true>(a, 8); }
KERNEL(qknormrope_64, QKNormRopeArgs, a, THREADS, 4) { forward<true>(a, 4); }
KERNEL(qknormrope_narrow, QKNormRopeArgs, a, THREADS, 2) { forward<false>(a, lanes_of_head(a.E)); }

// The heads of one side, h0 to h0+heads, in the rows of a leaf. terms is (groups, E) in shared memory.
template <bool WIDE>
DEVICE void backward(const QKNormRopeArgs& a, float* terms, float* leaf, const bf16* weight, int h0, int heads, int lanes) {
	int M = a.H + a.K, N = M + a.K, half = a.E / 2, lane = threadIdx.x % lanes, group = threadIdx.x / lanes, groups = THREADS / lanes;
	int first = blockIdx.x * LEAF_ROWS, rows = a.T - first < LEAF_ROWS ? a.T - first : LEAF_ROWS, count = rows * heads;
	Halves w = load_halves<WIDE>(weight, lane, half);
	float sum0[8] = {}, sum1[8] = {};
	Halves x = {}, dy = {}, next_x = {}, next_dy = {};
	auto load = [&](int i) {
		next_x = next_dy = Halves{};
		if (i >= count) return;
		i64 at = ((i64)(first + i / heads) * N + h0 + i % heads) * a.E;
		next_x = load_halves<WIDE>(a.qkv + at, lane, half);
		next_dy = load_halves<WIDE>(a.out + at, lane, half);
	};
	load(group);
	for (int base = 0; base < count; base += groups) {
		int i = base + group, t = first + i / heads, h = h0 + i % heads;
		x = next_x, dy = next_dy;
		load(i + groups);

		int p = i < count ? a.pos[t] : -1;
		float c[8] = {}, s[8] = {}, r = 0;
		if (p >= 0) {
			load_floats<WIDE>(c, a.cos + (i64)p * half + 8 * lane, half - 8 * lane);
			load_floats<WIDE>(s, a.sin + (i64)p * half + 8 * lane, half - 8 * lane);
			r = a.rstd[(i64)t * M + h];
		} else {
			x = dy = Halves{};
		}
		float g0[8], g1[8], lo = 0, hi = 0;
		for (int j = 0; j < 8; j++) {
			float y0 = element(dy.lo, j), y1 = element(dy.hi, j), x0 = element(x.lo, j), x1 = element(x.hi, j);
			g0[j] = y0 * c[j] + y1 * s[j];
			g1[j] = y1 * c[j] - y0 * s[j];
			sum0[j] += x0 * r * g0[j];
			sum1[j] += x1 * r * g1[j];
			g0[j] *= element(w.lo, j);
			g1[j] *= element(w.hi, j);
			lo = fma32(g0[j], x0, lo);
			hi = fma32(g1[j], x1, hi);
		}
		float f = norm_factor(r, sum_lanes(lo + hi, lanes), a.E);
		if (i >= count) continue;
		for (int j = 0; j < 8; j++) {
			g0[j] = g0[j] * r + element(x.lo, j) * f;
			g1[j] = g1[j] * r + element(x.hi, j) * f;
		}
		store_halves<WIDE>(a.out + ((i64)t * N + h) * a.E, g0, g1, lane, half);
	}
	for (int j = 0; j < 8 && 8 * lane + j < half; j++) {
		terms[group * a.E + 8 * lane + j] = sum0[j];
		terms[group * a.E + half + 8 * lane + j] = sum1[j];
	}
	sync_block();
	for (int j = threadIdx.x; j < a.E; j += THREADS) {
		float sum = 0;
		for (int g = 0; g < groups; g++) sum += terms[g * a.E + j];
		leaf[j] = sum;
	}
	sync_block();
}

template <bool WIDE>
DEVICE void backward(const QKNormRopeArgs& a, char* shared, int lanes) {
	float* leaf = a.leaves + (i64)blockIdx.x * 2 * a.E;
	backward<WIDE>(a, (float*)shared, leaf, a.wq, 0, a.H, lanes);
	backward<WIDE>(a, (float*)shared, leaf + a.E, a.wk, a.H, a.K, lanes);
}

KERNEL(qknormrope_backward_128, QKNormRopeArgs, a, THREADS, 2) {
	SHARED(shared);
	backward<true>(a, shared, 8);
}

KERNEL(qknormrope_backward_64, QKNormRopeArgs, a, THREADS, 2) {
	SHARED(shared);
	backward<true>(a, shared, 4);
}

KERNEL(qknormrope_backward_narrow, QKNormRopeArgs, a, THREADS, 2) {
	SHARED(shared);
	backward<false>(a, shared, lanes_of_head(a.E));
}

KERNEL(qknormrope_dw, QKNormRopeArgs, a, LEAF_COLUMNS, 1) {
	int j = blockIdx.x * LEAF_COLUMNS + threadIdx.x;
	if (j < 2 * a.E) add_leaves(j < a.E ? a.dwq + j : a.dwk + (j - a.E), a.leaves + j, 2 * a.E, blocks(a.T, LEAF_ROWS));
}
