// add  dst += src, float32
//
// A block takes 4,096 elements at a time, four quads of both a thread, loaded before any is added. The roof is memory: N·12
// bytes.
#include "rows.cuh"

struct AddArgs {
	float* dst;        // (N)
	const float* src;  // (N)
	i64 N;
};

const int QUADS = 4;  // of a thread at a time
const int THREADS = 256;
const int PIECE = 4 * QUADS * THREADS;

// Elements at to at+PIECE, all of which exist.
DEVICE void add_piece(const AddArgs& a, i64 at) {
	Quad* dst = (Quad*)(a.dst + at) + threadIdx.x;
	const Quad* src = (const Quad*)(a.src + at) + threadIdx.x;
	Quad x[QUADS], y[QUADS];
	for (int k = 0; k < QUADS; k++) x[k] = dst[k * THREADS], y[k] = src[k * THREADS];
	for (int k = 0; k < QUADS; k++) {
		for (int i = 0; i < 4; i++) x[k].v[i] += y[k].v[i];
		dst[k * THREADS] = x[k];
	}
}

KERNEL(add, AddArgs, a, THREADS, 4) {
	bool wide = aligned(a.dst) && aligned(a.src);
	for (i64 at = (i64)blockIdx.x * PIECE; at < a.N; at += (i64)gridDim.x * PIECE) {
		i64 end = at + PIECE < a.N ? at + PIECE : a.N;
		if (wide && end == at + PIECE)
			add_piece(a, at);
		else
			for (i64 i = at + threadIdx.x; i < end; i += THREADS) a.dst[i] += a.src[i];
	}
}
