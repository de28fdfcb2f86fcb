// append  keys and values of every row to their slots in the pages: kv[table[seq][pos/64]][half][k][pos%64] = k or v; none for
//         padding rows
//
// A thread moves a piece of 16 bytes of a key and the same piece of its value (narrow: an element of each), which are on their
// way before the page is known. The roof is memory: T·K·E·2 elements read and written.
#include "rows.cuh"

struct PagesArgs {
	char* kv;          // (pages, 2, K, 64, E): one layer
	const int* table;  // (S, N)
	int S, N, pages, K, E, dtype;
};

struct AppendArgs {
	const char* qk;   // (T, H+K, E)
	const char* qkv;  // (T, H+2K, E)
	const int* pos;   // (T)
	const int* seq;   // (T)
	PagesArgs pages;
	int T, H;
};

const int PAGE_TOKENS = 64;

// Pieces are what one thread moves at a time, E/per of them a head.
template <class Piece>
DEVICE void append(const AppendArgs& a, int pieces) {
	const PagesArgs& p = a.pages;
	i64 i = (i64)blockIdx.x * blockDim.x + threadIdx.x, head = i / pieces;
	int piece = i % pieces, k = head % p.K, t = head / p.K;
	if (t >= a.T || a.seq[t] < 0) return;
	Piece key = ((const Piece*)a.qk)[((i64)t * (a.H + p.K) + a.H + k) * pieces + piece];
	Piece value = ((const Piece*)a.qkv)[((i64)t * (a.H + 2 * p.K) + a.H + p.K + k) * pieces + piece];
	int pos = a.pos[t];
	i64 page = p.table[(i64)a.seq[t] * p.N + pos / PAGE_TOKENS];
	Piece* slot = (Piece*)p.kv + (((page * 2) * p.K + k) * PAGE_TOKENS + pos % PAGE_TOKENS) * pieces + piece;
	slot[0] = key;
	slot[(i64)p.K * PAGE_TOKENS * pieces] = value;
}

KERNEL(append, AppendArgs, a, 256, 8) { append<Octet>(a, a.pages.E * (a.pages.dtype == F32 ? 4 : 2) / 16); }
KERNEL(append_narrow, AppendArgs, a, 256, 8) { append<u16>(a, a.pages.E * (a.pages.dtype == F32 ? 2 : 1)); }
