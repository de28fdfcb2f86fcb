// adamw  one step of AdamW, with the bits of vec.adamW: d = g·scale; m = m + rest1·(d-m); v = v·beta2 + (rest2·d)·d;
//        master = master·decay - (step·m) / (√v/bias2 + eps); w = round(master)
//
// Masters are float32, or 16 bits below w (master.go); moments are float32, bfloat16, or float16 with an exponent for 64
// elements (adamw.go); gradients are float32 or bfloat16. A thread has two pieces of four elements, loaded before any is
// used; adjacent threads have adjacent pieces, so that a warp reads and writes whole sectors in either width. Sixteen threads
// have the 64 that share an exponent.
//
// The roof is memory: 4 bytes of g an element, and w, master, m and v read and written (w only written where the master is
// float32): 28 bytes with float32 masters and moments, 20 with everything else in 16 bits. 96 bytes or more a thread are on
// their way.
#include "rows.cuh"

struct AdamWCoeffs {
	float scale;  // of the gradient
	float decay;  // 1 - lr·weight decay
	float rest1;  // 1 - beta1
	float beta2;
	float rest2;  // 1 - beta2
	float bias2;  // √(1 - beta2^step)
	float eps;
	float step;  // lr / (1 - beta1^step)
};

struct AdamWArgs {
	void* w;         // (N)
	void* master;    // (N), may be w
	void* m;         // (N)
	void* v;         // (N)
	u8* m_exponent;  // (⌈N/64⌉)
	u8* v_exponent;  // (⌈N/64⌉)
	const void* g;   // (N)
	i64 N;
	AdamWCoeffs c;
	int w_type, master_type, m_type, v_type, g_type, pad;
};

const int THREADS = 256;
const int HALF_EXPONENTS = 125;  // 2^-24, the least float16, times the least power of a block is the least float32
const int HALF_TOP = 14;         // a block's largest element is stored as 2^14 to 2^15

// 2^e, e from -126 to 127.
DEVICE float pow2(int e) { return bits_float((u32)(e + 127) << 23); }

const int PIECES = 2;            // of a thread
typedef float Four[4];           // elements of a piece
struct alignas(8) Packed {
	u32 pair[2];  // elements of 16 bits, 2i (low half) and 2i+1
};

DEVICE u32 half(const Packed& h, int i) { return i % 2 ? h.pair[i / 2] >> 16 : h.pair[i / 2] & 0xffff; }

// A piece begins at element `at` and has n elements; all four are read or written at once if WIDE says that addresses allow it.
template <bool WIDE>
DEVICE Packed load16(const void* p, i64 at, int n) {
	const u16* x = (const u16*)p + at;
	if (WIDE && n == 4) return *(const Packed*)x;
	Packed h = {};
	for (int i = 0; i < 4; i++)
		if (i < n) h.pair[i / 2] |= (u32)x[i] << 16 * (i % 2);
	return h;
}

template <bool WIDE>
DEVICE void store16(void* p, i64 at, const Packed& h, int n) {
	u16* x = (u16*)p + at;
	if (WIDE && n == 4) {
		*(Packed*)x = h;
		return;
	}
	for (int i = 0; i < 4; i++)
		if (i < n) x[i] = (u16)half(h, i);
}

template <bool WIDE>
DEVICE void load32(Four& x, const void* p, i64 at, int n) {
	const float* y = (const float*)p + at;
	Quad q = {};
	if (WIDE && n == 4)
		q = *(const Quad*)y;
	else
		for (int i = 0; i < 4; i++)
			if (i < n) q.v[i] = y[i];
	for (int i = 0; i < 4; i++) x[i] = q.v[i];
}

template <bool WIDE>
DEVICE void store32(void* p, i64 at, const Four& x, int n) {
	float* y = (float*)p + at;
	if (WIDE && n == 4) {
		*(Quad*)y = Quad{x[0], x[1], x[2], x[3]};
		return;
	}
	for (int i = 0; i < 4; i++)
		if (i < n) y[i] = x[i];
}

DEVICE void unpack(Four& x, const Packed& h) {
	for (int i = 0; i < 4; i++) x[i] = bits_float(half(h, i) << 16);
}

template <bool WIDE>
DEVICE void load_gradient(Four& x, const AdamWArgs& a, i64 at, int n) {
	if (a.g_type == BF16)
		unpack(x, load16<WIDE>(a.g, at, n));
	else
		load32<WIDE>(x, a.g, at, n);
}

// The master that split cut.
DEVICE float join(u32 w, u32 low) {
	if ((w & 0x7fff) > 0x7f80) return bits_float(w << 16 | low);
	return bits_float((w << 16) + (u32)(int)(short)low);
}

// The weight in the upper half, which is x to nearest, ties away from zero, and the low half of x.
DEVICE u32 split(float x) {
	u32 b = float_bits(x);
	if ((b & 0x7fffffff) > 0x7f800000) return b | 0x400000;
	return ((b + 0x8000) & 0xffff0000) | (b & 0xffff);
}

template <bool WIDE>
DEVICE void load_master(Four& x, const AdamWArgs& a, i64 at, int n) {
	if (a.master_type == F32) {
		load32<WIDE>(x, a.master, at, n);
		return;
	}
	Packed w = load16<WIDE>(a.w, at, n), low = load16<WIDE>(a.master, at, n);
	for (int i = 0; i < 4; i++) x[i] = join(half(w, i), half(low, i));
}

template <bool WIDE>
DEVICE void store_master(const Four& x, const AdamWArgs& a, i64 at, int n) {
	if (a.master_type == F32) store32<WIDE>(a.master, at, x, n);
	if (a.w_type == F32) {
		if (a.w != a.master) store32<WIDE>(a.w, at, x, n);
		return;
	}
	Packed w, low;
	for (int i = 0; i < 2; i++) {
		u32 even = split(x[2 * i]), odd = split(x[2 * i + 1]);
		w.pair[i] = (odd & 0xffff0000) | even >> 16;
		low.pair[i] = odd << 16 | (even & 0xffff);
	}
	store16<WIDE>(a.w, at, w, n);
	if (a.master_type != F32) store16<WIDE>(a.master, at, low, n);
}

// A moment in memory.
struct Moment {
	void* mean;
	u8* exponents;  // of F16
	int type;
	u32 least;  // what an element that is not 0 becomes at least in F16, as bits
};

template <bool WIDE>
DEVICE void load_moment(Four& x, const Moment& m, i64 at, int n) {
	if (m.type == F32) {
		load32<WIDE>(x, m.mean, at, n);
		return;
	}
	Packed h = load16<WIDE>(m.mean, at, n);
	if (m.type == BF16) {
		unpack(x, h);
		return;
	}
	float scale = n > 0 ? pow2(m.exponents[at / 64] - HALF_EXPONENTS) : 0;
	for (int i = 0; i < 4; i++) x[i] = cvt_f32_f16(half(h, i)) * scale;
}

// The exponent e of the 64 elements of sixteen lanes: the largest times 2^-e is 2^14 to 2^15, as far as exponents go.
DEVICE int block_exponent(const Four& x) {
	u32 top = 0;
	for (int i = 0; i < 4; i++) {
		u32 b = float_bits(x[i]) & 0x7fffffff;
		top = b > top ? b : top;
	}
	for (int d = 8; d > 0; d /= 2) {
		u32 other = shfl_xor(top, d);
		top = other > top ? other : top;
	}
	int e = (int)(top >> 23) - 127 - HALF_TOP;
	return e < -HALF_EXPONENTS ? -HALF_EXPONENTS : e;
}

// All lanes take part.
template <bool WIDE>
DEVICE void store_moment(const Four& x, const Moment& m, i64 at, int n) {
	Packed h;
	if (m.type == F32) {
		store32<WIDE>(m.mean, at, x, n);
		return;
	}
	if (m.type == BF16) {
		for (int i = 0; i < 2; i++) h.pair[i] = cvt_bf16x2(x[2 * i + 1], x[2 * i]);
		store16<WIDE>(m.mean, at, h, n);
		return;
	}
	int e = block_exponent(x);
	float scale = pow2(-e);
	u32 bits[4];
	for (int i = 0; i < 4; i++) {
		bits[i] = cvt_f16_f32(x[i] * scale);
		if (bits[i] == 0 && x[i] != 0) bits[i] = m.least;
	}
	for (int i = 0; i < 2; i++) h.pair[i] = bits[2 * i] | bits[2 * i + 1] << 16;
	store16<WIDE>(m.mean, at, h, n);
	if (n > 0 && at % 64 == 0) m.exponents[at / 64] = (u8)(e + HALF_EXPONENTS);
}

template <bool WIDE>
DEVICE void step(const AdamWArgs& a) {
	const AdamWCoeffs& c = a.c;
	Moment mean = {a.m, a.m_exponent, a.m_type, 0}, square = {a.v, a.v_exponent, a.v_type, 1};
	Four g[PIECES], w[PIECES], m[PIECES], v[PIECES];
	i64 at[PIECES];
	int n[PIECES];
#pragma unroll
	for (int k = 0; k < PIECES; k++) {
		at[k] = 4 * (((i64)blockIdx.x * PIECES + k) * THREADS + threadIdx.x);
		i64 rest = a.N - at[k];
		n[k] = rest < 0 ? 0 : rest < 4 ? (int)rest : 4;
		load_gradient<WIDE>(g[k], a, at[k], n[k]);
		load_master<WIDE>(w[k], a, at[k], n[k]);
		load_moment<WIDE>(m[k], mean, at[k], n[k]);
		load_moment<WIDE>(v[k], square, at[k], n[k]);
	}
#pragma unroll
	for (int k = 0; k < PIECES; k++) {
		for (int i = 0; i < 4; i++) {
			float d = g[k][i] * c.scale;
			m[k][i] = m[k][i] + c.rest1 * (d - m[k][i]);
			v[k][i] = v[k][i] * c.beta2 + c.rest2 * d * d;
			w[k][i] = w[k][i] * c.decay - c.step * m[k][i] / (sqrtf(v[k][i]) / c.bias2 + c.eps);
		}
		store_moment<WIDE>(m[k], mean, at[k], n[k]);
		store_moment<WIDE>(v[k], square, at[k], n[k]);
		store_master<WIDE>(w[k], a, at[k], n[k]);
	}
}

KERNEL(adamw, AdamWArgs, a, THREADS, 3) { step<true>(a); }
KERNEL(adamw_narrow, AdamWArgs, a, THREADS, 3) { step<false>(a); }
