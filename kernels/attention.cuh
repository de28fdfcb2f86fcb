// What the attention kernels share: the parts of their arguments, which rows of the batch a block takes, and how queries,
// keys and values come to shared memory.
#pragma once

#include "tile.cuh"

const int PAGE = 64;  // tokens of a page
const int QUERIES = 64;  // of a block: heads of one key head, of consecutive rows

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

// The chunk that begins at row t. Chunks begin where sequences do and at multiples of QUERIES/G of the position; count is 0
// where none begins. All threads of the block get the same answer.
DEVICE Chunk chunk_at(const RowsArgs& r, int t, int k, int G) {
	int s = r.seq[t], rows = QUERIES / G, pos = r.pos[t];
	Chunk c = {t, 0, pos, k, G};
	if (t > 0 && r.seq[t - 1] == s && pos % rows != 0) return c;
	int most = min(rows - pos % rows, r.T - t), lane = threadIdx.x % 32;
	u32 other0 = vote_ballot(lane >= most || r.seq[t + lane] != s);
	u32 other1 = vote_ballot(lane + 32 >= most || r.seq[t + lane + 32] != s);
	c.count = other0 ? lowest_bit(other0) : other1 ? 32 + lowest_bit(other1) : 64;
	return c;
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
