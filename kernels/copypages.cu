// copypages  kv[l][dst] = kv[l][src] for every layer and pair; none for a pair with a -1
//
// A block moves 16 KB, 4 pieces of 16 bytes a thread, all loaded before any is stored. The roof is memory: the pages read and
// written.
#include "rows.cuh"

struct CopyPagesArgs {
	char* kv;          // (L, pages, page)
	const int* pairs;  // (N, 2)
	i64 page;          // bytes of a page of one layer
	int L, N, pages, _;
};

const int CHUNK = 16384;  // bytes of a block

KERNEL(copypages, CopyPagesArgs, a, 256, 4) {
	i64 chunks = (a.page + CHUNK - 1) / CHUNK, item = blockIdx.x / chunks, at = blockIdx.x % chunks * CHUNK;
	i64 layer = item / a.N, src = a.pairs[item % a.N * 2], dst = a.pairs[item % a.N * 2 + 1];
	if (src < 0 || dst < 0) return;
	char* base = a.kv + layer * a.pages * a.page + at;
	int bytes = a.page - at < CHUNK ? a.page - at : CHUNK;
	copy_row<true>(base + dst * a.page, base + src * a.page, bytes);
}
