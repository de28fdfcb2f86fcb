// attention_delta     delta = dout·out per row and head; zeros in the rows of dqkv that no sequence owns
// attention_backward  dq, dk, dv of whole sequences
//
// With s the scores, p = exp2(s·c - lse) and ds = p·(dout·v - delta)·scale: dv = Σ pᵀ·dout, dk = Σ dsᵀ·q, dq = Σ ds·k. Two kinds
// of block run side by side, and each output has one accumulator, so that nothing is added by whoever comes first:
// - a page of keys of one head: walks the rows that see it, ascending, 64 queries at a time; 4 warps of 16 keys each hold dk
//   and dv in registers and form the scores transposed;
// - a chunk of 64 queries: walks the pages, ascending, and holds dq.
// Scores are computed in both: 14·E·queries·keys/2 flops where the fewest possible are 10, for sums in a fixed order.
#include "attention.cuh"

struct AttentionBackwardArgs {
	bf16* dqkv;        // (T, H+2K, E)
	float* delta;      // (T, H)
	const bf16* dout;  // (T, H, E)
	const bf16* out;   // (T, H, E)
	const float* lse;  // (T, H)
	const bf16* qk;    // (T, H+K, E)
	const int* first;  // (S)
	const int* count;  // (S)
	RowsArgs rows;
	PagesArgs pages;
};

// A warp has a row and head; lane l adds elements 2l, 2l+1, then those 64 further, ascending.
KERNEL(attention_delta, AttentionBackwardArgs, a, 128, 8) {
	int E = a.pages.E, H = a.rows.H, K = a.pages.K, lane = threadIdx.x % 32;
	int t = blockIdx.x;
	if (a.rows.seq[t] < 0) {
		i64 width = (i64)(H + 2 * K) * E;
		for (int i = threadIdx.x; i < width; i += 128) a.dqkv[t * width + i].bits = 0;
		for (int h = threadIdx.x; h < H; h += 128) a.delta[(i64)t * H + h] = 0;
		return;
	}
	for (int h = threadIdx.x / 32; h < H; h += 4) {
		i64 at = (i64)t * H + h;
		float sum = 0;
		for (int e = 2 * lane; e < E; e += 64)
			for (int i = e; i < min(e + 2, E); i++) sum = fma32(to_float(a.dout[at * E + i]), to_float(a.out[at * E + i]), sum);
		sum = sum_warp(sum);
		if (lane == 0) a.delta[at] = sum;
	}
}

const int THREADS = 128;

// p of a score, 0 where the query does not see the key.
DEVICE float probability(float s, float c, float lse, bool seen) { return exp2_poly(seen ? fma32(s, c, -lse) : -128); }

// ds of a probability; where that is 0 it is 0, whatever a row that does not see the key has in dout·v.
DEVICE float gradient(float p, float doutv, float delta, float scale) { return p == 0 ? 0 : p * (doutv - delta) * scale; }

// acc (16 rows of the warp, 8·N columns) += left·right, both tiles of E/8 chunks a row, over their columns.
template <int E, int N>
DEVICE void products(float (&acc)[N][4], const char* left, int row, const char* right, int col) {
#pragma unroll
	for (int j = 0; j < N; j++)
		for (int e = 0; e < 4; e++) acc[j][e] = 0;
#pragma unroll
	for (int e = 0; e < E; e += 16) {
		u32 l[4];
		fragment_a<E / 8, false>(l, left, row, e);
#pragma unroll
		for (int j = 0; j < N / 2; j++) {
			u32 r[4];
			fragment_b<E / 8, false>(r, right, col + 16 * j, e);
			mma_bf16_columns(acc, 2 * j, l, r);
		}
	}
}

// acc (16 rows, E) += x·tile, where x (16, 8·N) is in registers and its columns are the tile's rows from `row` on.
template <int E, int N>
DEVICE void accumulate(float (&acc)[E / 8][4], const float (&x)[N][4], const char* tile, int row) {
#pragma unroll
	for (int k = 0; k < N / 2; k++) {
		u32 left[4] = {cvt_bf16x2(x[2 * k][1], x[2 * k][0]), cvt_bf16x2(x[2 * k][3], x[2 * k][2]),
		               cvt_bf16x2(x[2 * k + 1][1], x[2 * k + 1][0]), cvt_bf16x2(x[2 * k + 1][3], x[2 * k + 1][2])};
#pragma unroll
		for (int j = 0; j < E / 16; j++) {
			u32 r[4];
			fragment_b<E / 8, true>(r, tile, 16 * j, row + 16 * k);
			mma_bf16_columns(acc, 2 * j, left, r);
		}
	}
}

template <int E>
DEVICE void clear(float (&acc)[E / 8][4]) {
#pragma unroll
	for (int j = 0; j < E / 8; j++)
		for (int e = 0; e < 4; e++) acc[j][e] = 0;
}

template <int E>
struct Backward {
	static constexpr int TILE = 64 * E * 2, STAGES = 2, SHARED_BYTES = (2 + 2 * STAGES) * TILE + STAGES * 2 * QUERIES * 4;

	const AttentionBackwardArgs& a;
	char *fixed0, *fixed1, *ring;  // two tiles that stay, and pairs of tiles that pass
	float* numbers;                // (STAGES, 2, 64): lse and delta of the queries that pass
	int G, k, heads;

	DEVICE Backward(const AttentionBackwardArgs& a, char* shared) : a(a), fixed0(shared), fixed1(shared + TILE), ring(shared + 2 * TILE) {
		numbers = (float*)(ring + 2 * STAGES * TILE);
		G = a.rows.H / a.pages.K, k = blockIdx.y, heads = a.rows.H + a.pages.K;
	}

	// ---- dk and dv of page p of sequence s

	// Queries that see the page: chunks of 64/G rows from the page's first on.
	DEVICE Chunk passing(int i, int first, int count, int p) const {
		int rows = QUERIES / G, row = p * PAGE + i * rows;
		return Chunk{first + row, min(rows, count - row), row, k, G};
	}

	DEVICE void fetch_queries_of(int i, int chunks, int first, int count, int p) {
		if (i < chunks) {
			Chunk c = passing(i, first, count, p);
			char* stage = ring + i % STAGES * 2 * TILE;
			fetch_queries<E / 8, THREADS>(stage, c, a.qk, heads, a.pages.E);
			fetch_queries<E / 8, THREADS>(stage + TILE, c, a.dout, a.rows.H, a.pages.E);
			float* n = numbers + i % STAGES * 2 * QUERIES;
			for (int j = threadIdx.x; j < QUERIES; j += THREADS) {
				bool there = j < c.queries();
				n[j] = there ? a.lse[c.at(j, a.rows.H)] : 0;
				n[QUERIES + j] = there ? a.delta[c.at(j, a.rows.H)] : 0;
			}
		}
		cp_async_commit();
	}

	DEVICE void keys(int s, int p) {
		int first = a.first[s], count = a.count[s];
		if (p * PAGE >= count) return;
		int chunks = blocks(count - p * PAGE, QUERIES / G), there = min(PAGE, count - p * PAGE);
		fetch_plane<E / 8, THREADS>(fixed0, a.pages, a.pages.plane(s, p, 0, k), there);
		fetch_plane<E / 8, THREADS>(fixed1, a.pages, a.pages.plane(s, p, 1, k), there);
		fetch_queries_of(0, chunks, first, count, p);
		int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4;
		float dk[E / 8][4], dv[E / 8][4];
		clear<E>(dk);
		clear<E>(dv);
		for (int i = 0; i < chunks; i++) {
			fetch_queries_of(i + 1, chunks, first, count, p);
			cp_async_wait<1>();
			sync_block();  // the queries are there for all
			const char *queries = ring + i % STAGES * 2 * TILE, *douts = queries + TILE;
			const float* n = numbers + i % STAGES * 2 * QUERIES;
			Chunk c = passing(i, first, count, p);
#pragma unroll 1
			for (int col = 0; col < QUERIES; col += 32) {
				float x[4][4], y[4][4];
				products<E, 4>(x, fixed0, 16 * warp, queries, col);
#pragma unroll
				for (int j = 0; j < 4; j++)
					for (int e = 0; e < 4; e++) {
						int query = col + 8 * j + lane % 4 * 2 + e % 2, key = p * PAGE + 16 * warp + g + e / 2 * 8;
						x[j][e] = probability(x[j][e], a.rows.c, n[query], key < c.sees(query));
					}
				accumulate<E, 4>(dv, x, douts, col);
				products<E, 4>(y, fixed1, 16 * warp, douts, col);
#pragma unroll
				for (int j = 0; j < 4; j++)
					for (int e = 0; e < 4; e++) {
						int query = col + 8 * j + lane % 4 * 2 + e % 2;
						x[j][e] = gradient(x[j][e], y[j][e], n[QUERIES + query], a.rows.scale);
					}
				accumulate<E, 4>(dk, x, queries, col);
			}
			sync_block();  // nobody reads the stage any more
		}
		store(dk, dv, s, first + p * PAGE, there);
	}

	DEVICE void store(const float (&dk)[E / 8][4], const float (&dv)[E / 8][4], int s, int t, int there) {
		int warp = threadIdx.x / 32, lane = threadIdx.x % 32, width = a.rows.H + 2 * a.pages.K;
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int row = 16 * warp + lane / 4 + 8 * h;
			if (row >= there) continue;
			bf16* to = a.dqkv + ((i64)(t + row) * width + a.rows.H + k) * a.pages.E;
#pragma unroll
			for (int j = 0; j < E / 8; j++) {
				put_columns(to, 8 * j + lane % 4 * 2, dk[j][2 * h], dk[j][2 * h + 1], a.pages.E);
				put_columns(to + (i64)a.pages.K * a.pages.E, 8 * j + lane % 4 * 2, dv[j][2 * h], dv[j][2 * h + 1], a.pages.E);
			}
		}
	}

	// ---- dq of a chunk

	DEVICE void fetch_page(int i, const Chunk& c) {
		if (i * PAGE < c.keys()) {
			int s = a.rows.seq[c.t];
			char* stage = ring + i % STAGES * 2 * TILE;
			fetch_plane<E / 8, THREADS>(stage, a.pages, a.pages.plane(s, i, 0, k), c.keys() - i * PAGE);
			fetch_plane<E / 8, THREADS>(stage + TILE, a.pages, a.pages.plane(s, i, 1, k), c.keys() - i * PAGE);
		}
		cp_async_commit();
	}

	DEVICE void queries(const Chunk& c) {
		fetch_queries<E / 8, THREADS>(fixed0, c, a.qk, heads, a.pages.E);
		fetch_queries<E / 8, THREADS>(fixed1, c, a.dout, a.rows.H, a.pages.E);
		fetch_page(0, c);
		int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row[2], sees[2];
		float lse[2], delta[2], dq[E / 8][4];
		clear<E>(dq);
		for (int h = 0; h < 2; h++) {
			row[h] = 16 * warp + lane / 4 + 8 * h;
			sees[h] = c.sees(row[h]);
			lse[h] = sees[h] ? a.lse[c.at(row[h], a.rows.H)] : 0;
			delta[h] = sees[h] ? a.delta[c.at(row[h], a.rows.H)] : 0;
		}
		for (int i = 0; i * PAGE < c.keys(); i++) {
			fetch_page(i + 1, c);
			cp_async_wait<1>();
			sync_block();  // the page is there for all
			const char *keys = ring + i % STAGES * 2 * TILE, *values = keys + TILE;
#pragma unroll 1
			for (int col = 0; col < PAGE; col += 32) {
				float x[4][4], y[4][4];
				products<E, 4>(x, fixed0, 16 * warp, keys, col);
				products<E, 4>(y, fixed1, 16 * warp, values, col);
#pragma unroll
				for (int j = 0; j < 4; j++)
					for (int e = 0; e < 4; e++) {
						int key = i * PAGE + col + 8 * j + lane % 4 * 2 + e % 2, h = e / 2;
						float p = probability(x[j][e], a.rows.c, lse[h], key < sees[h]);
						x[j][e] = gradient(p, y[j][e], delta[h], a.rows.scale);
					}
				accumulate<E, 4>(dq, x, keys, col);
			}
			sync_block();  // nobody reads the stage any more
		}
#pragma unroll
		for (int h = 0; h < 2; h++) {
			if (row[h] >= c.queries()) continue;
			bf16* to = a.dqkv + c.at(row[h], a.rows.H + 2 * a.pages.K) * a.pages.E;
#pragma unroll
			for (int j = 0; j < E / 8; j++) put_columns(to, 8 * j + lane % 4 * 2, dq[j][2 * h], dq[j][2 * h + 1], a.pages.E);
		}
	}

	DEVICE void run() {
		int x = blockIdx.x, pages = a.pages.S * a.pages.N;
		if (x < pages)
			keys(x / a.pages.N, x % a.pages.N);
		else
			each_chunk(a.rows, gridDim.x - 1 - x, QUERIES / G, k, G, [&](const Chunk& c) { queries(c); });
	}
};

KERNEL(attention_backward_128, AttentionBackwardArgs, a, THREADS, 2) {
	SHARED(shared);
	Backward<128>(a, shared).run();
}

KERNEL(attention_backward_64, AttentionBackwardArgs, a, THREADS, 2) {
	SHARED(shared);
	Backward<64>(a, shared).run();
}
