// attention in Hopper's form, for heads of 128: keys and values come by TMA, products are a warpgroup's, and producer and
// consumers are different warps. A block has up to 128 queries that share a key head, two warpgroups of 64; it walks tiles of 128
// keys as attention.cu does, sum by sum, so a query's bits are the same. While one warpgroup is at its exponentials the other one multiplies.
#include "attention.cuh"

struct AttentionSM90Args {
	AttentionArgs a;
	TensorMap kv;  // (pages·2·K·64, E)
};

struct AttentionSM90 {
	static constexpr int E = 128, THREADS = 384, STAGES = 2, QUERIES = 128;
	static constexpr int HALF = TILE * 64 * 2;      // 64 columns of a tile's keys or values
	static constexpr int OPERAND = 2 * HALF;        // its keys, or its values
	static constexpr int Q_HALF = 64 * 64 * 2;      // 64 columns of a warpgroup's queries
	static constexpr int SHARED_BYTES = 1024 + 4 * Q_HALF + 2 * STAGES * OPERAND;
	enum { QUERIES_1 = 1, QUERIES_2, ZEROS };       // named barriers

	const AttentionArgs& a;
	char *queries, *ring;
	u64 *full, *empty;  // (2·STAGES): keys and values in turns; what is there, and what all eight consumer warps have read
	int G, k;
	int boxes;  // so far through the ring, on either side of it

	DEVICE AttentionSM90(const AttentionArgs& a, char* shared) : a(a), queries(shared + 1024), ring(queries + 4 * Q_HALF), boxes(0) {
		full = (u64*)shared, empty = full + 2 * STAGES;
		G = a.rows.H / a.pages.K, k = blockIdx.y;
		if (threadIdx.x == 0) {
			for (int s = 0; s < 2 * STAGES; s++) mbarrier_init(&full[s], 1), mbarrier_init(&empty[s], 8);
			fence_mbarrier_init();
		}
		sync_block();  // the barriers are made
	}

	DEVICE void run(const TensorMap* kv) {
		int window = gridDim.x - 1 - blockIdx.x, rows = QUERIES / G;  // what sees most comes first
		if (threadIdx.x < 128) {
			setmaxnreg_dec<56>();
			if (threadIdx.x >= 32) return;
			each_chunk(a.rows, window, rows, k, G, [&](const Chunk& chunk) {
				if (threadIdx.x == 0) produce(chunk, kv);
			});
		} else {
			setmaxnreg_inc<224>();
			zero_padding(a, window, rows, k, G, threadIdx.x - 128, 256);
			each_chunk(a.rows, window, rows, k, G, [&](const Chunk& chunk) { consume(chunk, threadIdx.x / 128 - 1); });
		}
	}

	DEVICE static int tiles(const Chunk& chunk) { return blocks(chunk.keys(), TILE); }

	DEVICE static int slot(int box) { return box % (2 * STAGES); }
	DEVICE static int phase(int box) { return box / (2 * STAGES) & 1; }

	// Keys of tile 0, values of tile 0, keys of tile 1 and so on, each by pages and halves of the columns.
	DEVICE void produce(const Chunk& chunk, const TensorMap* kv) {
		int s = a.rows.seq[chunk.t];
		for (int i = 0; i < 2 * tiles(chunk); i++, boxes++) {
			int to = slot(boxes), pages = min(2, blocks(chunk.keys(), PAGE) - i / 2 * 2);
			if (boxes >= 2 * STAGES) mbarrier_wait(&empty[to], phase(boxes) ^ 1);
			mbarrier_expect_tx(&full[to], pages * PAGE * E * 2);
			for (int p = 0; p < pages; p++) {
				i64 row = (a.pages.plane(s, i / 2 * 2 + p, i % 2, chunk.k) - a.pages.kv) / E;
				for (int half = 0; half < 2; half++)
					tma_load_2d(ring + to * OPERAND + half * HALF + p * PAGE * 128, kv, &full[to], 64 * half, (int)row);
			}
		}
	}

	// The warpgroup's queries, 64 columns at a time, and their descriptors for each 16 of E.
	DEVICE void fetch(const Chunk& chunk, int group) {
		int heads = a.rows.H + a.pages.K, first = 64 * group;
		bar_sync(QUERIES_1 + group, 128);  // nobody multiplies those of the chunk before
		for (int i = threadIdx.x % 128; i < 64 * 16; i += 128) {
			int r = i / 16, c = i % 16;
			char* dst = queries + (2 * group + c / 8) * Q_HALF + swizzled<8>(r, c % 8);
			const bf16* src = a.qk + chunk.at(first + r, heads) * E + 8 * c;
			cp_async16(dst, src, first + r < chunk.queries() ? 16 : 0);
		}
		cp_async_commit();
		cp_async_wait<0>();
		fence_proxy_async();
		bar_sync(QUERIES_1 + group, 128);
	}

	DEVICE void consume(const Chunk& chunk, int group) {
		fetch(chunk, group);
		int warp = threadIdx.x % 128 / 32, lane = threadIdx.x % 32, g = lane / 4;
		float o[16][4];
		for (int j = 0; j < 16; j++)
			for (int e = 0; e < 4; e++) o[j][e] = 0;
		Running<4> r;
		int query[2], sees[2];
		for (int h = 0; h < 2; h++) query[h] = 64 * group + 16 * warp + g + 8 * h, sees[h] = chunk.sees(query[h]);
		for (int tile = 0; tile < tiles(chunk); tile++, boxes += 2) {
			float s[16][4];
			int at = slot(boxes);  // of keys; values are in the next one
			mbarrier_wait(&full[at], phase(boxes));
			wgmma_registers(s);
			wgmma_fence();
#pragma unroll
			for (int e = 0; e < 8; e++)
				wgmma_m64n128k16(s, wgmma_matrix(queries + (2 * group + e / 4) * Q_HALF) + e % 4 * 2,
				                 wgmma_matrix(ring + at * OPERAND + e / 4 * HALF) + e % 4 * 2, e > 0);
			wgmma_commit();
			wgmma_wait<0>();
			wgmma_registers(s);
			if (lane == 0) mbarrier_arrive(&empty[at]);
			soften(r, s, o, sees, tile * TILE);
			mbarrier_wait(&full[at + 1], phase(boxes));
			char* values = ring + (at + 1) * OPERAND;
			if ((tile + 1) * TILE > chunk.keys()) clear_values(values, chunk.keys() - tile * TILE);
			u32 p[TILE / 16][4];
			left_operands(p, s);
			if (!PLANT(attention_sm90_registers)) wgmma_registers(p);
			wgmma_registers(o);
			wgmma_fence();
#pragma unroll
			for (int k = 0; k < TILE / 16; k++) wgmma_m64n128k16_registers<true>(o, p[k], wgmma_matrix_down(values + k * 16 * 128, HALF), true);
			wgmma_commit();
			wgmma_wait<0>();
			wgmma_registers(o);
			if (lane == 0) mbarrier_arrive(&empty[at + 1]);
		}
		finish(chunk, r, o, query);
	}

	// Probabilities as a left operand of 16 keys at a time has them: written before the fence, which is for registers, too.
	DEVICE static void left_operands(u32 (&p)[TILE / 16][4], const float (&s)[16][4]) {
#pragma unroll
		for (int k = 0; k < TILE / 16; k++)
			for (int i = 0; i < 4; i++) p[k][i] = cvt_bf16x2(s[2 * k + i / 2][i % 2 * 2 + 1], s[2 * k + i / 2][i % 2 * 2]);
	}

	// Rows of values that nobody has written are zeros: what is there may be NaN.
	DEVICE void clear_values(char* values, int rows) {
		for (int i = threadIdx.x - 128; i < (TILE - rows) * 16; i += 256)
			*(uint4*)(values + i % 16 / 8 * HALF + (rows + i / 16) * 128 + i % 8 * 16) = make_uint4(0, 0, 0, 0);
		fence_proxy_async();
		bar_sync(ZEROS, 256);
	}

	DEVICE void finish(const Chunk& chunk, Running<4>& r, float (&o)[16][4], const int (&query)[2]) {
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float sum = r.total(h);
			if (query[h] >= chunk.queries()) continue;
			i64 at = chunk.at(query[h], a.rows.H);
#pragma unroll
			for (int j = 0; j < 16; j++) put_columns(a.out + at * E, 8 * j + threadIdx.x % 4 * 2, o[j][2 * h] / sum, o[j][2 * h + 1] / sum, E);
			if (a.lse && threadIdx.x % 4 == 0) a.lse[at] = r.top[h] * a.rows.c + log2_once(sum);
		}
	}

	DEVICE void soften(Running<4>& r, float (&s)[16][4], float (&o)[16][4], const int (&sees)[2], int at) { ::soften<16>(r, s, o, sees, at + PLANT(attention_sm90_mask), a.rows.c); }
};

KERNEL(attention_sm90, AttentionSM90Args, p, AttentionSM90::THREADS, 1) {
	SHARED(shared);
	AttentionSM90(p.a, shared).run(&p.kv);
}
