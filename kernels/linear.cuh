// What both forms of linear and its gradients take.
#pragma once

#include "kernel.cuh"

struct LinearArgs {
	void* y;        // (T, N)
	const bf16* x;  // (T, K)
	const bf16* w;  // (N, K)
	int T, N, K;
	int rows, cols;
	int in, out;  // dtypes; out is BF16 or F32
	int _;
};

struct LinearDXArgs {
	bf16* dx;        // (T, K), or 0: the chain goes on
	float* acc;      // (T, K), or 0
	const bf16* dy;  // (T, N)
	const bf16* w;   // (N, K)
	int T, N, K;
	int ld;  // between rows of dy
	int rows, cols;
	int dtype;
	int start;  // the chain starts from 0, not from acc
};

struct LinearDWArgs {
	float* dw;       // (N, K)
	const bf16* dy;  // (T, N)
	const bf16* x;   // (T, K)
	int T, N, K;
	int ld;  // between rows of dy
	int rows;
	int dtype;
};
