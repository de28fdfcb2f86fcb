// linear     y = x·wᵀ                 y (T, N), x (T, K), w (N, K)
// linear_dx  dx = round(acc + dy·w)   dx (T, K), dy (T, N)
// linear_dw  dw += dyᵀ·x              dw (N, K) float32
//
// A block has a tile of the output, all of the reduction, and one accumulator per output: no split over k, so that a row's
// bits depend on neither the batch nor the tile. Many rows: tiles of 128×128, 2 blocks of 8 warps on a multiprocessor;
// the roof is the tensor cores'. Few rows (decoding): w is read once, in tiles of 64 or 32 of its rows so that there are
// enough blocks to keep the memory busy; the roof is N·K·2 bytes.
#include "gemm.cuh"
#include "linear.cuh"

template <class G, int BM, int BN>
DEVICE void linear(const LinearArgs& a, char* shared) {
	int t, n;
	tile_at(blockIdx.x, a.T, a.N, BM, BN, t, n);
	G g;
	g.zero();
	g.add(shared, Matrix{a.x, a.T, a.K, a.K}, Matrix{a.w, a.N, a.K, a.K}, t, n, a.K);
	g.pairs([&](int r, int c, float c0, float c1) {
		r += t, c += n;
		if (r >= a.T || c >= a.N) return;
		i64 at = (i64)r * a.N + c;
		if (a.out == F32)
			put_pair((float*)a.y + at, c0, c1, c + 1 < a.N);
		else
			put_pair((bf16*)a.y + at, c0, c1, c + 1 < a.N);
	});
}

typedef Gemm<128, 128, 64, 64, 32, 3, false, false> Linear128;
typedef Gemm<64, 64, 64, 32, 32, 4, false, false> Linear64;
typedef Gemm<32, 32, 128, 16, 16, 4, false, false> Linear32;
typedef Gemm<16, 32, 128, 16, 16, 5, false, false> Linear16;

KERNEL(linear_128, LinearArgs, a, Linear128::THREADS, 2) {
	SHARED(shared);
	linear<Linear128, 128, 128>(a, shared);
}

KERNEL(linear_64, LinearArgs, a, Linear64::THREADS, 3) {
	SHARED(shared);
	linear<Linear64, 64, 64>(a, shared);
}

KERNEL(linear_32, LinearArgs, a, Linear32::THREADS, 3) {
	SHARED(shared);
	linear<Linear32, 32, 32>(a, shared);
}

KERNEL(linear_16, LinearArgs, a, Linear16::THREADS, 3) {
	SHARED(shared);
	linear<Linear16, 16, 32>(a, shared);
}

template <class G, int BM, int BN>
DEVICE void linear_dx(const LinearDXArgs& a, char* shared) {
	int t, k;
	tile_at(blockIdx.x, a.T, a.K, BM, BN, t, k);
	G g;
	g.zero();
	if (!a.start)
		g.pairs([&](int r, int c, float& c0, float& c1) {
			r += t, c += k;
			if (r < a.T && c < a.K) get_pair(a.acc + (i64)r * a.K + c, c0, c1, c + 1 < a.K);
		});
	g.add(shared, Matrix{a.dy, a.T, a.N, a.ld}, Matrix{a.w, a.N, a.K, a.K}, t, k, a.N);
	g.pairs([&](int r, int c, float c0, float c1) {
		r += t, c += k;
		if (r >= a.T || c >= a.K) return;
		i64 at = (i64)r * a.K + c;
		if (a.dx)
			put_pair(a.dx + at, c0, c1, c + 1 < a.K);
		else
			put_pair(a.acc + at, c0, c1, c + 1 < a.K);
	});
}

typedef Gemm<128, 128, 64, 64, 32, 3, false, true> LinearDX128;
typedef Gemm<64, 64, 64, 32, 32, 4, false, true> LinearDX64;

KERNEL(linear_dx_128, LinearDXArgs, a, LinearDX128::THREADS, 2) {
	SHARED(shared);
	linear_dx<LinearDX128, 128, 128>(a, shared);
}

KERNEL(linear_dx_64, LinearDXArgs, a, LinearDX64::THREADS, 3) {
	SHARED(shared);
	linear_dx<LinearDX64, 64, 64>(a, shared);
}

template <class G, int BM, int BN>
DEVICE void linear_dw(const LinearDWArgs& a, char* shared) {
	int n, k;
	tile_at(blockIdx.x, a.N, a.K, BM, BN, n, k);
	G g;
	g.zero();
	g.pairs([&](int r, int c, float& c0, float& c1) {
		r += n, c += k;
		if (r < a.N && c < a.K) get_pair(a.dw + (i64)r * a.K + c, c0, c1, c + 1 < a.K);
	});
	g.add(shared, Matrix{a.dy, a.T, a.N, a.ld}, Matrix{a.x, a.T, a.K, a.K}, n, k, a.T);
	g.pairs([&](int r, int c, float c0, float c1) {
		r += n, c += k;
		if (r < a.N && c < a.K) put_pair(a.dw + (i64)r * a.K + c, c0, c1, c + 1 < a.K);
	});
}

typedef Gemm<128, 128, 64, 64, 32, 3, true, true> LinearDW128;
typedef Gemm<64, 64, 64, 32, 32, 4, true, true> LinearDW64;

KERNEL(linear_dw_128, LinearDWArgs, a, LinearDW128::THREADS, 2) {
	SHARED(shared);
	linear_dw<LinearDW128, 128, 128>(a, shared);
}

KERNEL(linear_dw_64, LinearDWArgs, a, LinearDW64::THREADS, 3) {
	SHARED(shared);
	linear_dw<LinearDW64, 64, 64>(a, shared);
}
