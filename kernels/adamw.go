package kernels

import (
	"fmt"
	"math"
	"strconv"
	"unsafe"
)

const adamWTile = 4096 // elements per item

// AdamWConfig is one step's constants.
type AdamWConfig struct {
	LR    float32
	Beta1 float32
	Beta2 float32
	Eps   float32
	Decay float32 // decoupled: w shrinks by LR·Decay
	Scale float32 // multiplies every gradient element first: clipping and token totals
	Step  int     // 1 is the first
}

// A Moment is a running mean of every parameter's gradient, or of its square.
//
// In bfloat16 it keeps 8 bits. A mean that moves by less than half of the last of them stands still, so the rest 1-Beta must
// be at least MomentRest(BF16): with 0.999 the second moment would rise and never fall.
//
// In float16 it keeps 11 bits, but spans only 40 powers of two, so that blocks of MomentBlock elements share an exponent
// of their own, fitted to the largest at every step. What is 2⁻²⁸ of the largest or less loses bits, one by one; at 2⁻³⁹ a
// first moment is 0. A second moment that is not 0 stays at least 2⁻³⁹ of the largest, or a division by its root would take a
// step beyond all measure; it holds elements back whose gradient is less than 2⁻¹⁹ of the block's largest.
type Moment struct {
	Mean     Tensor // (N) F32, BF16 or F16
	Exponent Tensor // (⌈N/64⌉) U8, of F16 only: a block's elements are Mean·2^(Exponent-125)
}

// MomentBlock is the number of elements that share an exponent.
const MomentBlock = 64

// Rows is elements lo to hi; lo is a multiple of MomentBlock.
func (m Moment) Rows(lo, hi int) Moment {
	m.Mean = m.Mean.Rows(lo, hi)
	if m.Exponent.Ptr != 0 {
		m.Exponent = m.Exponent.Rows(lo/MomentBlock, blocks(hi, MomentBlock))
	}
	return m
}

// MomentRest is the least 1-Beta with which a moment of the dtype follows its gradients: half of a last bit.
func MomentRest(d DType) float32 {
	switch d {
	case BF16:
		return 0x1p-8
	case F16:
		return 0x1p-11
	}
	return 0x1p-24
}

// AdamW is one step of torch.optim.AdamW, in its order of operations: with d = g·Scale,
//
//	master = master·(1 - LR·Decay)
//	m = m + (1-Beta1)·(d - m)        v = v·Beta2 + (1-Beta2)·d·d
//	master = master - LR/(1-Beta1^Step) · m / (√v/√(1-Beta2^Step) + Eps)        w = round(master)
//
// The constants are worked out in float64, where a float32 means the shortest decimal that reads as it (0.999, not
// 0.99900001), as torch takes them. Moments are rounded when they are stored, after the step has used them.
//
//	w       (N)          = F32, which may be the master itself, or BF16: rounded as by SplitMaster
//	master  (N)          updated; F32, or U16 for the low halves of masters whose upper ones are w, with the same bits
//	m, v    (N)          updated
//	g       (N) F32, or BF16: gradients that were rounded on their way here
func AdamW(q Queue, w, master Tensor, m, v Moment, g Tensor, c AdamWConfig) {
	b := dims{op: "AdamW"}
	b.want(w, "w", "N", F32, BF16)
	b.want(master, "master", "N", F32, U16)
	b.wantMoment(m, "m")
	b.wantMoment(v, "v")
	b.want(g, "g", "N", F32, BF16)
	if master.DType == U16 && w.DType != BF16 {
		panic(fmt.Sprintf("AdamW: master is the low halves of w, which is %v, want %v", w.DType, BF16))
	}
	launch(q, &adamWOp, blocks(w.Shape[0], adamWTile), adamWArgs{
		W: w.Ptr, Master: master.Ptr, M: m.Mean.Ptr, V: v.Mean.Ptr, MExponent: m.Exponent.Ptr, VExponent: v.Exponent.Ptr, G: g.Ptr,
		N: int64(w.Shape[0]), Coeffs: c.coeffs(),
		WType: int32(w.DType), MasterType: int32(master.DType), MType: int32(m.Mean.DType), VType: int32(v.Mean.DType), GType: int32(g.DType),
	})
}

func (b *dims) wantMoment(m Moment, name string) {
	b.want(m.Mean, name, "N", F32, BF16, F16)
	if m.Mean.DType == F16 {
		b.at["N/64"] = blocks(m.Mean.Shape[0], MomentBlock)
		b.want(m.Exponent, name+"'s exponents", "N/64", U8)
	}
}

func (c AdamWConfig) coeffs() adamWCoeffs {
	if c.Step < 1 {
		panic(fmt.Sprintf("AdamW: step %d, want 1 for the first", c.Step))
	}
	lr, beta1, beta2 := decimal(c.LR), decimal(c.Beta1), decimal(c.Beta2)
	return adamWCoeffs{
		scale: c.Scale,
		decay: float32(1 - float64(lr*decimal(c.Decay))),
		rest1: float32(1 - beta1),
		beta2: c.Beta2,
		rest2: float32(1 - beta2),
		bias2: float32(math.Sqrt(1 - math.Pow(beta2, float64(c.Step)))),
		eps:   c.Eps,
		step:  float32(lr / (1 - math.Pow(beta1, float64(c.Step)))),
	}
}

// decimal is the number that was written where x was read.
func decimal(x float32) float64 {
	d, err := strconv.ParseFloat(strconv.FormatFloat(float64(x), 'g', -1, 32), 64)
	if err != nil {
		panic(fmt.Sprintf("AdamW: %v: %v", x, err))
	}
	return d
}

type adamWArgs struct {
	W          Ptr // (N)
	Master     Ptr // (N)
	M          Ptr // (N)
	V          Ptr // (N)
	MExponent  Ptr // (⌈N/64⌉)
	VExponent  Ptr // (⌈N/64⌉)
	G          Ptr // (N)
	N          int64
	Coeffs     adamWCoeffs
	WType      int32
	MasterType int32
	MType      int32
	VType      int32
	GType      int32
	_          int32
}

var adamWOp = Op{Name: "adamw", Size: unsafe.Sizeof(adamWArgs{}), CPU: adamWOpGo, CUDA: adamWGrid}

func adamWOpGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*adamWArgs)(args)
	for i := lo; i < hi; i++ {
		at := i * adamWTile
		n := min(adamWTile, int(a.N)-at)
		keep := m.Keep()
		master := m.loadMaster(a, at, n)
		m1, v1 := m.loadMoment(a.M, a.MExponent, DType(a.MType), at, n), m.loadMoment(a.V, a.VExponent, DType(a.VType), at, n)
		m.vec.adamW(master, m1, v1, m.Load(a.G, DType(a.GType), at, n), &a.Coeffs)
		m.storeMoment(a.M, a.MExponent, DType(a.MType), at, m1, 0)
		m.storeMoment(a.V, a.VExponent, DType(a.VType), at, v1, 1)
		m.storeMaster(a, at, master)
		m.Reset(keep)
	}
}

// adamWGrid gives a thread eight elements.
func adamWGrid(_ GPU, args unsafe.Pointer) Grid {
	a := (*adamWArgs)(args)
	return Grid{Kernel: wide("adamw", 0, a.W, a.Master, a.M, a.V, a.G), X: blocks(int(a.N), 8*gpuThreads), Y: 1, Threads: gpuThreads}
}

// loadMaster is the memory itself where the masters are whole.
func (m *Memory) loadMaster(a *adamWArgs, at, n int) []float32 {
	if DType(a.MasterType) == F32 {
		return m.F32(a.Master+Ptr(4*at), n)
	}
	x := m.ScratchF32(n)
	m.vec.join(x, m.BF16(a.W+Ptr(2*at), n), m.BF16(a.Master+Ptr(2*at), n))
	return x
}

// storeMaster writes weights, and the low halves where they are all that is kept.
func (m *Memory) storeMaster(a *adamWArgs, at int, x []float32) {
	switch {
	case a.W == a.Master:
	case DType(a.WType) == F32:
		copy(m.F32(a.W+Ptr(4*at), len(x)), x)
	case DType(a.MasterType) == F32:
		m.vec.split(m.BF16(a.W+Ptr(2*at), len(x)), m.ScratchBF16(len(x)), x)
	default:
		m.vec.split(m.BF16(a.W+Ptr(2*at), len(x)), m.BF16(a.Master+Ptr(2*at), len(x)), x)
	}
}

const (
	halfExponents = 125 // so that 2⁻²⁴, the least float16, times the least power of a block is the least float32
	halfTop       = 14  // a block's largest element is stored as 2¹⁴ to 2¹⁵, which no rounding takes to infinity
)

func (m *Memory) loadMoment(p, exponents Ptr, d DType, at, n int) []float32 {
	if d != F16 {
		return m.Load(p, d, at, n)
	}
	x, h := m.ScratchF32(n), m.BF16(p+Ptr(2*at), n)
	for b, e := range m.U8(exponents+Ptr(at/MomentBlock), blocks(n, MomentBlock)) {
		lo, hi := b*MomentBlock, min((b+1)*MomentBlock, n)
		m.vec.unhalve(x[lo:hi], h[lo:hi], pow2(int(e)-halfExponents))
	}
	return x
}

// storeMoment rounds x to dtype d. In float16 an element that is not 0 becomes least or more, as bits.
func (m *Memory) storeMoment(p, exponents Ptr, d DType, at int, x []float32, least uint16) {
	if d != F16 {
		if d != F32 { // else x is the memory itself
			m.Store(p, d, at, x)
		}
		return
	}
	h, es := m.BF16(p+Ptr(2*at), len(x)), m.U8(exponents+Ptr(at/MomentBlock), blocks(len(x), MomentBlock))
	for b := range es {
		lo, hi := b*MomentBlock, min((b+1)*MomentBlock, len(x))
		block, out := x[lo:hi], h[lo:hi]
		e := blockExponent(block)
		es[b] = uint8(e + halfExponents)
		m.vec.halve(out, block, pow2(-e))
		for i := range out {
			if least != 0 && out[i] == 0 && block[i] != 0 {
				out[i] = least
			}
		}
	}
}

// blockExponent is e such that the largest of |x|·2^-e is 2^halfTop to 2·2^halfTop, as far as a block's exponent goes.
func blockExponent(x []float32) int {
	top := uint32(0)
	for _, v := range x {
		top = max(top, math.Float32bits(v)&0x7fffffff)
	}
	return max(int(top>>23)-127-halfTop, -halfExponents)
}

// pow2 is 2^e for e from -126 to 127.
func pow2(e int) float32 { return math.Float32frombits(uint32(e+127) << 23) }
