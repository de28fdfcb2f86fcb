// linear, linear_dx and linear_dw in Hopper's form, by tiles of 128×256, one block for each multiprocessor, with the bits of
// linear.cu. For large products, whose roof is the tensor cores'; lines of operands begin at multiples of 16 bytes, which boxes
// want, and so do those of dx, acc and dw; those of y begin at even multiples of an element.
//
//	linear     both operands have k along their rows
//	linear_dx  dy has, w has it down its columns
//	linear_dw  both have it down their columns
//
// linear_dw reads and writes 8·N·K bytes besides, and its consumers wait for what a tile starts from: their sums are all the
// registers that they have. On an H100 (3.35 TB/s, 989 TFLOP/s) that is as long as the products of 1,200 tokens, so that at
// 8,192 tokens the roof is 87 % of the tensor cores'.
#include "gemm_sm90.cuh"
#include "linear.cuh"

struct LinearSM90Args {
	LinearArgs a;
	TensorMap x, w;
};

KERNEL(linear_sm90, LinearSM90Args, p, 384, 1) {
	SHARED(shared);
	const LinearArgs& a = p.a;
	typedef GemmSM90<false, false> Product;
	Product(shared).run(&p.x, &p.w, a.T, a.N, a.K, [&](int row, int col, float (&c)[32][4]) {
		if (a.out == F32)
			Product::store((float*)a.y, row, col, a.T, a.N, c);
		else
			Product::store((bf16*)a.y, row, col, a.T, a.N, c);
	});
}

struct LinearDXSM90Args {
	LinearDXArgs a;
	TensorMap dy, w;
};

KERNEL(linear_dx_sm90, LinearDXSM90Args, p, 384, 1) {
	SHARED(shared);
	const LinearDXArgs& a = p.a;
	typedef GemmSM90<false, true> Product;
	// No row of acc is one to start from: without a branch, which would cost wgmma its place in the pipeline.
	int rows = a.start ? 0 : a.T;
	auto begin = [&](int row, int col, float (&c)[32][4]) { Product::load(a.acc, row, col, rows, a.K, c); };
	Product(shared).run(&p.dy, &p.w, a.T, a.K, a.N, begin, [&](int row, int col, float (&c)[32][4]) {
		if (a.dx)
			Product::store(a.dx, row, col, a.T, a.K, c);
		else
			Product::store(a.acc, row, col, a.T, a.K, c);
	});
}

struct LinearDWSM90Args {
	LinearDWArgs a;
	TensorMap dy, x;
};

KERNEL(linear_dw_sm90, LinearDWSM90Args, p, 384, 1) {
	SHARED(shared);
	const LinearDWArgs& a = p.a;
	typedef GemmSM90<true, true> Product;
	Product(shared).run(
		&p.dy, &p.x, a.N, a.K, a.T, [&](int row, int col, float (&c)[32][4]) { Product::load(a.dw, row, col, a.N, a.K, c); },
		[&](int row, int col, float (&c)[32][4]) { Product::store(a.dw, row, col, a.N, a.K, c); });
}
