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

// AdamW is one step of torch.optim.AdamW, in its order of operations: with d = g·Scale,
//
//	master = master·(1 - LR·Decay)
//	m = m + (1-Beta1)·(d - m)        v = v·Beta2 + (1-Beta2)·d·d
//	master = master - LR/(1-Beta1^Step) · m / (√v/√(1-Beta2^Step) + Eps)        w = round(master)
//
// The constants are worked out in float64, where a float32 means the shortest decimal that reads as it (0.999, not
// 0.99900001), as torch takes them.
//
//	w       (N)          = may be master if both are F32
//	master  (N) F32      updated
//	m, v    (N)          updated; F32 or BF16, one dtype
//	g       (N) F32
func AdamW(q Queue, w, master, m, v, g Tensor, c AdamWConfig) {
	b := dims{op: "AdamW"}
	b.want(w, "w", "N", F32, BF16)
	b.want(master, "master", "N", F32)
	b.want(m, "m", "N", F32, BF16)
	b.want(v, "v", "N", m.DType)
	b.want(g, "g", "N", F32)
	launch(q, &adamWOp, blocks(w.Shape[0], adamWTile), adamWArgs{
		W: w.Ptr, Master: master.Ptr, M: m.Ptr, V: v.Ptr, G: g.Ptr, N: int64(w.Shape[0]),
		Coeffs: c.coeffs(), WType: int32(w.DType), MType: int32(m.DType),
	})
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
	W      Ptr // (N)
	Master Ptr // (N)
	M      Ptr // (N)
	V      Ptr // (N)
	G      Ptr // (N)
	N      int64
	Coeffs adamWCoeffs
	WType  int32
	MType  int32
}

var adamWOp = Op{Name: "adamw", Size: unsafe.Sizeof(adamWArgs{}), CPU: adamWOpGo}

func adamWOpGo(m *Memory, args unsafe.Pointer, lo, hi int) {
	a := (*adamWArgs)(args)
	for i := lo; i < hi; i++ {
		at := i * adamWTile
		n := min(adamWTile, int(a.N)-at)
		keep := m.Keep()
		master := m.F32(a.Master+Ptr(4*at), n)
		m1, v1 := m.Load(a.M, DType(a.MType), at, n), m.Load(a.V, DType(a.MType), at, n)
		m.vec.adamW(master, m1, v1, m.F32(a.G+Ptr(4*at), n), &a.Coeffs)
		if DType(a.MType) == BF16 {
			m.Store(a.M, BF16, at, m1)
			m.Store(a.V, BF16, at, v1)
		}
		if a.W != a.Master {
			m.Store(a.W, DType(a.WType), at, master)
		}
		m.Reset(keep)
	}
}
