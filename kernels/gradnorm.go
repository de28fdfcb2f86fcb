package kernels

import (
	"math"
	"unsafe"
)

// NormLeaf is the number of elements whose squares GradNorm adds before it adds the sums.
const NormLeaf = 4096

// GradNorm is norm = √(Σ g²) in float64: sums of NormLeaf elements, added in order. A NaN or an infinity in g gives a NaN
// or an infinity; so does, as infinity, a norm beyond float32.
//
//	norm    (1) F32              =
//	leaves  (⌈N/NormLeaf⌉) U64   = scratch, float64 inside
//	g       (N) F32
func GradNorm(q Queue, norm, leaves, g Tensor) {
	b := dims{op: "GradNorm"}
	b.want(norm, "norm", "1", F32)
	b.want(g, "g", "N", F32)
	b.at["N/4096"] = blocks(g.Shape[0], NormLeaf)
	b.want(leaves, "leaves", "N/4096", U64)
	a := gradNormArgs{Norm: norm.Ptr, Leaves: leaves.Ptr, G: g.Ptr, N: int64(g.Shape[0])}
	launch(q, &gradNormLeavesOp, leaves.Shape[0], a)
	launch(q, &gradNormOp, 1, a)
}

type gradNormArgs struct {
	Norm   Ptr // (1)
	Leaves Ptr // (⌈N/NormLeaf⌉)
	G      Ptr // (N)
	N      int64
}

var (
	gradNormLeavesOp = Op{Name: "gradnorm_leaves", Size: unsafe.Sizeof(gradNormArgs{}), CPU: gradNormLeavesGo, CUDA: gradNormLeavesGrid}
	gradNormOp       = Op{Name: "gradnorm", Size: unsafe.Sizeof(gradNormArgs{}), CPU: gradNormGo, CUDA: gradNormGrid}
)

func gradNormLeavesGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*gradNormArgs)(args)
	N := int(a.N)
	leaves := m.U64(a.Leaves, blocks(N, NormLeaf))
	for i := lo; i < hi; i++ {
		at := i * NormLeaf
		leaves[i] = math.Float64bits(sumSquares(m.F32(a.G+Ptr(4*at), min(NormLeaf, N-at))))
	}
}

// sumSquares adds on four lanes, since one would wait for each addition. A square of a float32 is exact in float64.
func sumSquares(x []float32) float64 {
	var s0, s1, s2, s3 float64
	for len(x) >= 4 {
		a, b, c, d := float64(x[0]), float64(x[1]), float64(x[2]), float64(x[3])
		s0 += float64(a * a)
		s1 += float64(b * b)
		s2 += float64(c * c)
		s3 += float64(d * d)
		x = x[4:]
	}
	for _, v := range x {
		s0 += float64(float64(v) * float64(v))
	}
	return (s0 + s1) + (s2 + s3)
}

func gradNormGo(m *Memory, args unsafe.Pointer, _, _ int) {
	a := (*gradNormArgs)(args)
	sum := 0.0
	for _, l := range m.U64(a.Leaves, blocks(int(a.N), NormLeaf)) {
		sum += math.Float64frombits(l)
	}
	m.F32(a.Norm, 1)[0] = float32(math.Sqrt(sum))
}

func gradNormLeavesGrid(_ GPU, args unsafe.Pointer) Grid {
	return Grid{X: blocks(int((*gradNormArgs)(args).N), NormLeaf), Y: 1, Threads: 128, Shared: 8 * 32}
}

func gradNormGrid(GPU, unsafe.Pointer) Grid { return Grid{X: 1, Y: 1, Threads: 1024, Shared: 8 * 32} }
