// Causal attention through the page table: out = softmax(scale·q·kᵀ)·v for every row of a packed batch.
//
// A block has up to 64 queries that share a key head: the G heads of consecutive rows of one sequence. There is a block for
// every 64/G rows and key head, the last rows, which see most, first; it takes the chunks of queries that begin there. It
// walks tiles of 128 keys, ascending; keys and values come page by page through a ring of four, while the tile before is multiplied. Four warps of 16 queries each hold q,
// the scores of a tile and the output in registers: 4·E·queries·keys flops at the rate of mma.sync is the roof.
//
// attention_decode is for batches of single rows: of 16 queries only G exist. There the four warps share a tile's keys for
// the scores and the columns of the output for P·V, and the roof is the bytes of keys and values. Either way a query's bits are those of
// doc.go: the order of its keys, lanes and rescalings is the same.
#include "attention.cuh"

// Scores (16 queries, 8·N keys) of q, which is in registers, against the keys of a tile from row `key` on.
template <int E, int N>
DEVICE void scores(float (&s)[N][4], const u32 (&q)[E / 16][4], const char* keys, int key) {
#pragma unroll
	for (int j = 0; j < N; j++)
		for (int e = 0; e < 4; e++) s[j][e] = 0;
#pragma unroll
	for (int e = 0; e < E / 16; e++)
#pragma unroll
		for (int j = 0; j < N / 2; j++) {
			u32 k[4];
			fragment_b<E / 8, false>(k, keys, key + 16 * j, 16 * e);
			mma_bf16_columns(s, 2 * j, q[e], k);
		}
}

template <int E>
struct Attention {
	static constexpr int THREADS = 128, STAGES = 4, PLANE = PAGE * E * 2, SHARED_BYTES = QUERIES * E * 2 + STAGES * PLANE;

	const AttentionArgs& a;
	const Chunk chunk;
	char *queries, *ring;
	int planes;  // to come through the ring: for every tile its pages of keys, then those of values

	DEVICE Attention(const AttentionArgs& a, const Chunk& chunk, char* shared) : a(a), chunk(chunk), queries(shared), ring(shared + QUERIES * E * 2) {
		planes = 2 * blocks(chunk.keys(), PAGE);
	}

	// Asks for plane i of the ring's sequence. Tiles have 4 planes, the last one perhaps 2.
	DEVICE void fetch(int i) {
		if (i < planes) {
			int tile = i / 4, pages = min(2, planes / 2 - 2 * tile), half = i % 4 / pages, page = 2 * tile + i % 4 % pages;
			const bf16* plane = a.pages.plane(a.rows.seq[chunk.t], page, half, chunk.k);
			fetch_plane<E / 8, THREADS>(ring + i % STAGES * PLANE, a.pages, plane, chunk.keys() - page * PAGE);
		}
		cp_async_commit();
	}

	// Waits for plane i and asks for the one that takes the place of the plane before it.
	DEVICE const char* next(int i) {
		cp_async_wait<STAGES - 2>();
		sync_block();
		fetch(i + STAGES - 1);
		return ring + i % STAGES * PLANE;
	}

	DEVICE void run() {
		fetch_queries<E / 8, THREADS>(queries, chunk, a.qk, a.rows.H + a.pages.K, a.pages.E);
		for (int i = 0; i < STAGES - 1; i++) fetch(i);  // the queries are in the first group
		int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4;
		u32 q[E / 16][4];
		float o[E / 8][4];
		for (int j = 0; j < E / 8; j++)
			for (int e = 0; e < 4; e++) o[j][e] = 0;
		Running<4> r;
		int sees[2] = {chunk.sees(16 * warp + g), chunk.sees(16 * warp + g + 8)};
		for (int i = 0, at = 0; i < planes; i += 4, at += TILE) {
			int pages = min(2, planes / 2 - i / 2);
			float s[16][4];
			const char* keys = next(i);
			if (i == 0)
				for (int e = 0; e < E / 16; e++) fragment_a<E / 8, false>(q[e], queries, 16 * warp, 16 * e);
			scores<E, 8>((float(&)[8][4])s[0], q, keys, 0);
			if (pages == 2)
				scores<E, 8>((float(&)[8][4])s[8], q, next(i + 1), 0);
			else
				for (int j = 8; j < 16; j++)
					for (int e = 0; e < 4; e++) s[j][e] = 0;
			soften<E / 8>(r, s, o, sees, at, a.rows.c);
			for (int p = 0; p < pages; p++) {
				const char* values = next(i + pages + p);
				if (p == 0)
					add_values((const float(&)[8][4])s[0], o, values);
				else
					add_values((const float(&)[8][4])s[8], o, values);
			}
		}
		finish(r, o, warp, g);
	}

	// o += p·v for a page: the scores' fragments are those of a left operand.
	DEVICE void add_values(const float (&p)[8][4], float (&o)[E / 8][4], const char* values) {
#pragma unroll
		for (int k = 0; k < PAGE / 16; k++) {
			u32 left[4] = {cvt_bf16x2(p[2 * k][1], p[2 * k][0]), cvt_bf16x2(p[2 * k][3], p[2 * k][2]),
			               cvt_bf16x2(p[2 * k + 1][1], p[2 * k + 1][0]), cvt_bf16x2(p[2 * k + 1][3], p[2 * k + 1][2])};
#pragma unroll
			for (int j = 0; j < E / 16; j++) {
				u32 v[4];
				fragment_b<E / 8, true>(v, values, 16 * j, 16 * k);
				mma_bf16_columns(o, 2 * j, left, v);
			}
		}
	}

	DEVICE void finish(Running<4>& r, float (&o)[E / 8][4], int warp, int g) {
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float sum = r.total(h);
			int query = 16 * warp + g + 8 * h;
			if (query >= chunk.queries()) continue;
			i64 at = chunk.at(query, a.rows.H);
			bf16* row = a.out + at * a.pages.E;
#pragma unroll
			for (int j = 0; j < E / 8; j++) put_columns(row, 8 * j + threadIdx.x % 4 * 2, o[j][2 * h] / sum, o[j][2 * h + 1] / sum, a.pages.E);
			if (a.lse && threadIdx.x % 4 == 0) a.lse[at] = r.top[h] * a.rows.c + log2_once(sum);
		}
	}
};

template <int E>
DEVICE void attention(const AttentionArgs& a, char* shared) {
	int G = a.rows.H / a.pages.K, k = blockIdx.y, window = gridDim.x - 1 - blockIdx.x;
	zero_padding(a, window, QUERIES / G, k, G, threadIdx.x, Attention<E>::THREADS);
	each_chunk(a.rows, window, QUERIES / G, k, G, [&](const Chunk& chunk) {
		Attention<E>(a, chunk, shared).run();
		sync_block();  // shared memory is free
	});
}

KERNEL(attention_128, AttentionArgs, a, 128, 2) {
	SHARED(shared);
	attention<128>(a, shared);
}

KERNEL(attention_64, AttentionArgs, a, 128, 2) {
	SHARED(shared);
	attention<64>(a, shared);
}

// ---- Single rows

template <int E>
struct Decode {
	static constexpr int THREADS = 128, STAGES = 3, TILE_BYTES = TILE * E * 2, PLANE = PAGE * E * 2;
	static constexpr int SHARED_BYTES = 16 * E * 2 + 16 * TILE * 2 + 4 * 16 * 4 * 2 + STAGES * TILE_BYTES;

	const AttentionArgs& a;
	const Chunk chunk;
	char *queries, *probs, *ring;
	float *tops, *sums;  // (4, 16), a warp's
	int tiles;

	DEVICE Decode(const AttentionArgs& a, const Chunk& chunk, char* shared) : a(a), chunk(chunk) {
		ring = shared;
		queries = ring + STAGES * TILE_BYTES;
		probs = queries + 16 * E * 2;
		tops = (float*)(probs + 16 * TILE * 2);
		sums = tops + 4 * 16;
		tiles = 2 * blocks(chunk.keys(), TILE);  // keys, then values of each
	}

	DEVICE void fetch(int i) {
		if (i < tiles) {
			for (int p = 0; p < 2; p++) {
				int page = i / 2 * 2 + p, left = chunk.keys() - page * PAGE;
				const bf16* plane = left > 0 ? a.pages.plane(a.rows.seq[chunk.t], page, i % 2, chunk.k) : a.pages.kv;
				fetch_plane<E / 8, THREADS>(ring + i % STAGES * TILE_BYTES + p * PLANE, a.pages, plane, left);
			}
		}
		cp_async_commit();
	}

	DEVICE const char* next(int i) {
		cp_async_wait<STAGES - 2>();
		sync_block();
		fetch(i + STAGES - 1);
		return ring + i % STAGES * TILE_BYTES;
	}

	DEVICE void run() {
		int heads = a.rows.H + a.pages.K;
		fetch_rows<16, E / 8, THREADS>(queries, chunk.queries(), a.pages.E, a.pages.E % 8 == 0 && (u64)a.qk % 16 == 0,
		                               [&](int i) { return a.qk + chunk.at(i, heads) * a.pages.E; });
		for (int i = 0; i < STAGES - 1; i++) fetch(i);
		int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4;
		u32 q[E / 16][4];
		float o[E / 32][4];
		for (int j = 0; j < E / 32; j++)
			for (int e = 0; e < 4; e++) o[j][e] = 0;
		Running<1> r;
		int sees[2] = {chunk.sees(g), chunk.sees(g + 8)};
		for (int i = 0, at = 32 * warp; i < tiles; i += 2, at += TILE) {
			float s[4][4];
			const char* keys = next(i);
			if (i == 0)
				for (int e = 0; e < E / 16; e++) fragment_a<E / 8, false>(q[e], queries, 0, 16 * e);
			scores<E, 4>(s, q, keys + warp / 2 * PLANE, warp % 2 * 32);
			float own[2];
			for (int h = 0; h < 2; h++) {
				own[h] = quad_max(most<4, false>(s, h, sees[h] - at));
				if (lane % 4 == 0) tops[16 * warp + g + 8 * h] = own[h];
			}
			sync_block();  // tops
			for (int h = 0; h < 2; h++) {
				float top = own[h];
				for (int w = 0; w < 4; w++) top = larger(top, tops[16 * w + g + 8 * h]);
				float α = r.raise(h, top, a.rows.c);
				for (int j = 0; j < E / 32; j++) o[j][2 * h] *= α, o[j][2 * h + 1] *= α;
				exps<4, false>(s, 0, h, sees[h] - at, a.rows.c, r.top[h], r.sums[h][0]);
				for (int j = 0; j < 4; j++)
					*(u32*)(probs + swizzled<TILE / 8>(g + 8 * h, 4 * warp + j) + lane % 4 * 4) = cvt_bf16x2(s[j][2 * h + 1], s[j][2 * h]);
			}
			const char* values = next(i + 1);  // and the probabilities of all warps
			for (int k = 0; k < TILE / 16; k++) {
				u32 left[4];
				fragment_a<TILE / 8, false>(left, probs, 0, 16 * k);
				for (int j = 0; j < E / 64; j++) {
					u32 v[4];
					fragment_b<E / 8, true>(v, values + k / 4 * PLANE, E / 4 * warp + 16 * j, k % 4 * 16);
					mma_bf16_columns(o, 2 * j, left, v);
				}
			}
		}
		finish(r, o, warp, lane);
	}

	DEVICE void finish(Running<1>& r, float (&o)[E / 32][4], int warp, int lane) {
		int g = lane / 4;
		for (int h = 0; h < 2; h++) {
			float own = quad_sum(r.sums[h][0]);
			if (lane % 4 == 0) sums[16 * warp + g + 8 * h] = own;
		}
		sync_block();  // sums
		for (int h = 0; h < 2; h++) {
			int query = g + 8 * h;
			if (query >= chunk.queries()) continue;
			float sum = sums[query];
			for (int w = 1; w < 4; w++) sum += sums[16 * w + query];
			i64 at = chunk.at(query, a.rows.H);
			bf16* row = a.out + at * a.pages.E;
			for (int j = 0; j < E / 32; j++) put_columns(row, E / 4 * warp + 8 * j + lane % 4 * 2, o[j][2 * h] / sum, o[j][2 * h + 1] / sum, a.pages.E);
			if (a.lse && warp == 0 && lane % 4 == 0) a.lse[at] = r.top[h] * a.rows.c + log2_once(sum);
		}
	}
};

template <int E>
DEVICE void decode(const AttentionArgs& a, char* shared) {
	int G = a.rows.H / a.pages.K, t = blockIdx.x, k = blockIdx.y;
	if (a.rows.seq[t] < 0)
		zero_row(a, t, k, G, threadIdx.x, Decode<E>::THREADS);
	else
		Decode<E>(a, Chunk{t, 1, a.rows.pos[t], k, G}, shared).run();
}

KERNEL(attention_decode_128, AttentionArgs, a, 128, 2) {
	SHARED(shared);
	decode<128>(a, shared);
}

KERNEL(attention_decode_64, AttentionArgs, a, 128, 4) {
	SHARED(shared);
	decode<64>(a, shared);
}
