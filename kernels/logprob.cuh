// What both forms of logprob's kernels share: their arguments, how a quarter of a tile is summed, and a row of the gradient.
#pragma once

#include "softmax.cuh"
#include "tile.cuh"

struct LogProbArgs {
	float* logp;        // (R)
	float* entropy;     // (R), or 0
	float* lse;         // (R)
	const bf16* x;      // (R, D)
	const bf16* w;      // (V, D)
	const int* target;  // (R), -1 is padding
	float4* parts;      // (R, 1 + tiles): the target's u; top, sum, rest and mean of every tile
	int R, V, D;
	int rows;
	int dtype;
	float invT;
};

// The sum over 32 neighbouring columns, of which a lane has v[j] = columns 8j + 2·(lane%4) and the one beside it: 16
// apart first, then 8, 4, 2, 1.
DEVICE float sum_quarter(const float (&v)[4][2]) {
	float even = (v[0][0] + v[2][0]) + (v[1][0] + v[3][0]), odd = (v[0][1] + v[2][1]) + (v[1][1] + v[3][1]);
	even += shfl_xor(even, 2), odd += shfl_xor(odd, 2);
	even += shfl_xor(even, 1), odd += shfl_xor(odd, 1);
	return even + odd;
}

// Sums of a quarter, relative to the tile's maximum.
struct Quarter {
	float sum;   // of p
	float rest;  // of p other than 1
	float ones;  // how many p are 1
	float mean;  // of p·(u - top)
};

DEVICE Quarter quarter(const float (&u)[4][2], float top, bool entropy) {
	float p[4][2], rest[4][2], ones[4][2], mean[4][2];
#pragma unroll
	for (int j = 0; j < 4; j++)
		for (int e = 0; e < 2; e++) {
			float v = below(u[j][e], top);
			p[j][e] = exp2_small(v * LOG2E);
			ones[j][e] = p[j][e] == 1, rest[j][e] = p[j][e] == 1 ? 0 : p[j][e], mean[j][e] = p[j][e] * v;
		}
	Quarter q = {sum_quarter(p), 0, 0, 0};
	if (entropy) q.rest = sum_quarter(rest), q.ones = sum_quarter(ones), q.mean = sum_quarter(mean);
	return q;
}

// What is kept of a tile whose quarters are added ascending.
DEVICE void add_quarter(Quarter& q, const Quarter& next) { q.sum += next.sum, q.rest += next.rest, q.ones += next.ones, q.mean += next.mean; }

// Of the tile's largest terms, which are 1, all but one are part of the rest.
DEVICE float4 tile_part(float top, const Quarter& q) { return make_float4(top, q.sum, q.rest + (q.ones - 1), q.mean); }

struct LogProbDZArgs {
	bf16* dz;               // (R, C)
	const float* dlogp;     // (R)
	const float* dentropy;  // (R), or 0
	const float* lse;       // (R)
	const float* entropy;   // (R), or 0
	const bf16* x;          // (R, D)
	const bf16* w;          // (C, D)
	const int* target;      // (R)
	int R, C, D;
	int ld;  // between rows of dz
	int at;  // the chunk's first token
	int rows, cols;
	int dtype;
	float invT;
	int _;
};

// A row of the gradient of the logits.
struct DZRow {
	const LogProbDZArgs& a;
	int row, own;  // the target's column in the chunk
	bool some;     // gradient
	float dlogp, dentropy, lse, entropy;

	DEVICE DZRow(const LogProbDZArgs& a, int row) : a(a), row(row) {
		own = a.target[row] - a.at;
		dlogp = a.dlogp[row] * a.invT, dentropy = a.dentropy ? a.dentropy[row] * a.invT : 0;
		some = a.target[row] >= 0 && (dlogp != 0 || dentropy != 0);
		lse = a.lse[row], entropy = a.entropy ? a.entropy[row] : 0;
	}

	DEVICE float at(int c, float z) const {
		float v = below(z * a.invT, lse), p = exp2_small(v * LOG2E);
		float d = own == c ? dlogp * (1 - p) : -(dlogp * p);
		d = dentropy == 0 ? d : d - dentropy * p * (v + entropy);
		return some ? d : 0;  // last, so that there is no branch
	}

	// Of the logits z0, z1 at columns c, which is even, and c+1.
	DEVICE void put(int c, float z0, float z1) const { put_pair(a.dz + (i64)row * a.ld + c, at(c, z0), at(c + 1, z1), c + 1 < a.C); }
};
