// embedding           out[t] = w[tokens[t]], zeros for -1
// embedding_backward  dw[v] += dout[t] for every t with tokens[t] = v, ascending
//
// Forward, a block copies a row, 4 pieces of 16 bytes a thread at once; the roof is memory, a row read and a row written.
//
// Backward, blocks (t, columns): the block of a token's first row adds all of the token's rows, eight columns a thread, and
// the others find that they are not the first and end. Tokens are looked through 1,024 at a time, a bit each in 32 words of
// shared memory. Eight rows are loaded before they are added. The roof is T·D·2 bytes of dout and 8 for every element of dw
// that changes; T² comparisons come to less up to T = 16,384 or so.
#include "rows.cuh"

struct EmbeddingArgs {
	char* out;          // (T, D); backward dout
	const int* tokens;  // (T)
	char* w;            // (V, D); backward dw float32
	int T, D, V, dtype;
};

template <bool WIDE>
DEVICE void look_up(const EmbeddingArgs& a) {
	i64 t = blockIdx.x, v = a.tokens[t], bytes = a.D * (a.dtype == F32 ? 4 : 2);
	copy_row<WIDE>(a.out + t * bytes, v < 0 ? nullptr : a.w + v * bytes, bytes);
}

KERNEL(embedding, EmbeddingArgs, a, 256, 4) { look_up<true>(a); }
KERNEL(embedding_narrow, EmbeddingArgs, a, 256, 4) { look_up<false>(a); }

const int THREADS = 256;
const int WORDS = 32;   // that the block looks at between barriers, a bit for each row
const int AT_ONCE = 8;  // rows loaded before they are added

// The rows whose bits are set, ascending. All lanes of a warp walk alike.
struct Rows {
	u32 word;   // lane l's: rows first + 32·l on
	u32 words;  // lanes whose words hold rows yet
	u32 bits;   // what is left of the word that is being walked
	int first, at;

	DEVICE Rows(u32 word, int first) : word(word), words(vote_ballot(word != 0)), bits(0), first(first), at(0) {}

	// The next row, or -1.
	DEVICE int next() {
		if (bits == 0) {
			if (words == 0) return -1;
			int lane = lowest_bit(words);
			words &= words - 1;
			bits = shfl(word, lane);
			at = first + 32 * lane;
		}
		int row = at + lowest_bit(bits);
		bits &= bits - 1;
		return row;
	}
};

// found is (2, WORDS) in shared memory: what one warp still reads, another does not write.
template <bool WIDE>
DEVICE void add_rows(const EmbeddingArgs& a, u32* found) {
	const int MINE = WORDS * 32 / THREADS;  // words of a warp
	int t = blockIdx.x, d = 8 * (blockIdx.y * THREADS + threadIdx.x), n = a.D - d, v = a.tokens[t];
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	if (v < 0) return;
	const bf16* dout = (const bf16*)a.out + d;
	float* dw = (float*)a.w + (i64)v * a.D + d;

	int token[MINE];
	auto load_tokens = [&](int first) {
		for (int k = 0; k < MINE; k++) {
			int row = first + 32 * (MINE * warp + k) + lane;
			token[k] = row < a.T ? a.tokens[row] : -1;
		}
	};
	float sum[8] = {};
	load_tokens(0);
	for (int first = 0; first < a.T; first += 32 * WORDS) {
		u32* words = found + WORDS * (first / (32 * WORDS) % 2);
		for (int k = 0; k < MINE; k++) {
			u32 word = vote_ballot(token[k] == v);
			if (lane == 0) words[MINE * warp + k] = word;
		}
		load_tokens(first + 32 * WORDS);
		sync_block();
		Rows rows(words[lane], first);
		int row[AT_ONCE];
		do {
			for (int k = 0; k < AT_ONCE; k++) row[k] = rows.next();
			if (row[0] >= 0 && row[0] < t) return;  // the first match of all: row t is not the token's first
			if (row[0] == t) load_floats<WIDE>(sum, dw, n);
			Octet x[AT_ONCE];
			for (int k = 0; k < AT_ONCE; k++) x[k] = load_octet<WIDE>(dout + (i64)row[k] * a.D, row[k] < 0 ? 0 : n);
			for (int k = 0; k < AT_ONCE; k++)
				if (row[k] >= 0)
					for (int i = 0; i < 8; i++) sum[i] += element(x[k], i);
		} while (row[AT_ONCE - 1] >= 0);
	}
	store_floats<WIDE>(dw, sum, n);
}

KERNEL(embedding_backward, EmbeddingArgs, a, THREADS, 4) {
	SHARED(shared);
	add_rows<true>(a, (u32*)shared);
}

KERNEL(embedding_backward_narrow, EmbeddingArgs, a, THREADS, 3) {
	SHARED(shared);
	add_rows<false>(a, (u32*)shared);
}
