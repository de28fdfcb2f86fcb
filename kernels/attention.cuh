// What the attention kernels share: the parts of their arguments, which rows of the batch a block takes, and how queries,
// keys and values come to shared memory.
#pragma once

#include "tile.cuh"

const int PAGE = 64;  // tokens of a page
const int QUERIES = 64;  // of a chunk, at most: heads of one key head, of consecutive rows

struct RowsArgs {
	const int* pos;  // (T)
	const int* seq;  // (T)
	int T, H;
	float scale, c;  // c is scale·log2 e
};

struct PagesArgs {
	bf16* kv;          // (pages, 2, K, 64, E): one layer
	const int* table;  // (S, N)
	int S, N, pages, K, E, dtype;

	// Keys (half 0) or values (half 1) of head k at positions 64·i and on of sequence s: (64, E).
	DEVICE const bf16* plane(int s, int i, int half, int k) const {
		i64 page = table[(i64)s * N + i];
		return kv + ((page * 2 + half) * K + k) * PAGE * E;
	}

	DEVICE bool whole() const { return E % 8 == 0 && (u64)kv % 16 == 0; }
};

// A Chunk is `count` rows of one sequence from row t on, and of each the G heads that share key head k. Query i is head
// k·G + i%G of row t + i/G.
struct Chunk {
	int t, count, pos, k, G;

	DEVICE int queries() const { return count * G; }
	DEVICE int keys() const { return pos + count; }  // that its last row sees

	// How many keys query i sees: none if there is no such query.
	DEVICE int sees(int i) const { return i < queries() ? pos + i / G + 1 : 0; }

	// Query i as one of (T, heads, E).
	DEVICE i64 at(int i, int heads) const { return (i64)(t + i / G) * heads + k * G + i % G; }
};

// The chunk of at most `rows` rows that begins at row t. The whole warp calls it.
DEVICE Chunk chunk_at(const RowsArgs& r, int t, int k, int G, int rows) {
	int s = r.seq[t], pos = r.pos[t];
	Chunk c = {t, 0, pos, k, G};
	int most = min(rows - pos % rows, r.T - t), lane = threadIdx.x % 32;
	for (u32 other = 0; !other; c.count += other ? lowest_bit(other) : 32)
		other = vote_ballot(c.count + lane >= most || r.seq[t + c.count + lane] != s);
	return c;
}

// The first row after row `t` in a window of `rows` rows where a chunk begins, or -1: they begin where sequences do and where
// the position is a multiple of `rows`. The whole warp calls it.
DEVICE int next_chunk(const RowsArgs& r, int window, int rows, int t) {
	int lane = threadIdx.x % 32;
	for (int at = 0; at < rows; at += 32) {
		int row = window * rows + at + lane;
		bool there = at + lane < rows && row < r.T && row > t && r.seq[row] >= 0;
		u32 begins = vote_ballot(there && (row == 0 || r.seq[row - 1] != r.seq[row] || r.pos[row] % rows == 0));
		if (begins) return window * rows + at + lowest_bit(begins);
	}
	return -1;
}

// Calls attend for the chunks that begin in a window, mostly one. The whole warp calls it. Between two of them nothing is
// kept but where the last one began: attend takes all registers there are.
template <class Attend>
DEVICE void each_chunk(const RowsArgs& r, int window, int rows, int k, int G, Attend attend) {
	for (int t = -1; (t = next_chunk(r, window, rows, t)) >= 0;) attend(chunk_at(r, t, k, G, rows));
}

// The chunk's rows of x (T, heads, E), queries as tile rows.
template <int CHUNKS, int THREADS>
DEVICE void fetch_queries(char* tile, const Chunk& c, const bf16* x, int heads, int E) {
	fetch_rows<QUERIES, CHUNKS, THREADS>(tile, c.queries(), E, E % 8 == 0 && (u64)x % 16 == 0, [&](int i) { return x + c.at(i, heads) * E; });
}

// The first `rows` tokens of a plane.
template <int CHUNKS, int THREADS>
DEVICE void fetch_plane(char* tile, const PagesArgs& p, const bf16* plane, int rows) {
	fetch_rows<PAGE, CHUNKS, THREADS>(tile, rows, p.E, p.whole(), [&](int r) { return plane + r * p.E; });
}

// Two columns of a row of output, of which E exist.
DEVICE void put_columns(bf16* row, int col, float x0, float x1, int E) {
	if (col < E) put_pair(row + col, x0, x1, col + 1 < E);
}

// ---- The softmax of a tile, of the forms of the forward

struct AttentionArgs {
	bf16* out;       // (T, H, E)
	float* lse;      // (T, H), or 0
	const bf16* qk;  // (T, H+K, E)
	RowsArgs rows;
	PagesArgs pages;
	int block;
	int _;
};

const int TILE = 128;  // keys between two rescalings

// The largest and the sum over the four lanes that share a row.
DEVICE float quad_max(float x) {
	x = larger(x, shfl_xor(x, 2));
	return larger(x, shfl_xor(x, 1));
}
DEVICE float quad_sum(float x) {
	x += shfl_xor(x, 2);
	return x + shfl_xor(x, 1);
}

// A Running is the state of the two queries of a lane, rows g and g+8 of the warp's 16.
template <int LANES>
struct Running {
	float top[2];         // largest score so far
	float sums[2][LANES];  // of probabilities: a quarter of the tile each

	DEVICE Running() {
		for (int h = 0; h < 2; h++) {
			top[h] = minus_infinity();
			for (int i = 0; i < LANES; i++) sums[h][i] = 0;
		}
	}

	// Takes the largest score of the tile, returns what everything so far is multiplied by.
	DEVICE float raise(int h, float most, float c) {
		if (!(most > top[h])) return 1;
		float α = exp2_small(top[h] * c - most * c);
		top[h] = most;
		for (int i = 0; i < LANES; i++) sums[h][i] *= α;
		return α;
	}

	// The row's sum: the four lanes that share it by a tree, quarters ascending.
	DEVICE float total(int h) const {
		float sum = quad_sum(sums[h][0]);
		for (int i = 1; i < LANES; i++) sum += quad_sum(sums[h][i]);
		return sum;
	}
};

// Turns the scores of 32 keys from column 8·first on into probabilities and adds them to a lane's sum. The first `seen` of the
// tile's keys count; ALL says that all do.
template <int N, bool ALL>
DEVICE void exps(float (&s)[N][4], int first, int h, int seen, float c, float top, float& sum) {
	int q = threadIdx.x % 4;
	float shift = -(top * c);
#pragma unroll
	for (int j = 0; j < 4; j++)
		for (int i = 0; i < 2; i++) {
			float& x = s[first + j][2 * h + i];
			bool counts = ALL || 8 * (first + j) + 2 * q + i < seen + PLANT(attention_mask);
			x = exp2_small(counts ? fma32(x, c, shift) : -128);  // which gives 0, without a branch
			sum += x;
		}
}

// The largest of the first `seen` of a row's N·8 scores.
template <int N, bool ALL>
DEVICE float most(const float (&s)[N][4], int h, int seen) {
	int q = threadIdx.x % 4;
	float top = minus_infinity();
#pragma unroll
	for (int j = 0; j < N; j++)
		for (int i = 0; i < 2; i++)
			if (ALL || 8 * j + 2 * q + i < seen) top = larger(top, s[j][2 * h + i]);
	return top;
}

template <int N, bool ALL>
DEVICE void soften_tile(Running<4>& r, float (&s)[16][4], float (&o)[N][4], const int (&sees)[2], int at, float c) {
	float α[2];
#pragma unroll
	for (int h = 0; h < 2; h++) α[h] = r.raise(h, quad_max(most<16, ALL>(s, h, sees[h] - at)), c);
	if (vote_ballot(α[0] != 1 || α[1] != 1)) {  // most tiles leave the largest score of all as it is
#pragma unroll
		for (int j = 0; j < N; j++)
			for (int e = 0; e < 4; e++) o[j][e] *= α[e / 2];
	}
#pragma unroll
	for (int h = 0; h < 2; h++)
#pragma unroll
		for (int i = 0; i < 4; i++) exps<16, ALL>(s, 4 * i, h, sees[h] - at, c, r.top[h], r.sums[h][i]);
}

// Scores of a tile to probabilities, with everything so far rescaled. Key `at` is the tile's first; columns are 8·N.
template <int N>
DEVICE void soften(Running<4>& r, float (&s)[16][4], float (&o)[N][4], const int (&sees)[2], int at, float c) {
	if (vote_ballot(min(sees[0], sees[1]) < at + TILE))
		soften_tile<N, false>(r, s, o, sees, at, c);
	else
		soften_tile<N, true>(r, s, o, sees, at, c);
}

// Zeros for a key head's part of a row of padding, by `threads` threads.
DEVICE void zero_row(const AttentionArgs& a, int t, int k, int G, int thread, int threads) {
	i64 at = (i64)t * a.rows.H + k * G;
	for (int i = thread; i < G * a.pages.E; i += threads) a.out[at * a.pages.E + i].bits = 0;
	if (a.lse)
		for (int i = thread; i < G; i += threads) a.lse[at + i] = 0;
}

// Zeros for those in a window.
DEVICE void zero_padding(const AttentionArgs& a, int window, int rows, int k, int G, int thread, int threads) {
	for (int t = window * rows; t < min((window + 1) * rows, a.rows.T); t++)
		if (a.rows.seq[t] < 0) zero_row(a, t, k, G, thread, threads);
}
