package kernels_test

import (
	"math"
	"math/rand/v2"

	"tandem/kernels"
	"tandem/kernels/kerneltest"
)

// A sequence is one whole sequence's inputs of attention, as the dtype holds them, and the float64 reference.
type sequence struct {
	n, H, K, E    int
	dtype         kernels.DType
	scale         float64
	q, dout, k, v []float64 // (n, H, E), (n, H, E), (n, K, E), (n, K, E)

	out, lse   []float64 // (n, H, E), (n, H)
	dq, dk, dv []float64 // (n, H, E), (n, K, E), (n, K, E)

	// What the roundings of doc.go can do, to first order: to the worst element of each.
	outTol, lseTol, dqTol, dkTol, dvTol float64
}

func randomSequence(r *rand.Rand, dtype kernels.DType, n, H, K, E int) *sequence {
	normal := func(heads int) []float64 {
		return kerneltest.F64(kerneltest.Round(dtype, kerneltest.Normal(r, n*heads*E, 1)))
	}
	return &sequence{
		n: n, H: H, K: K, E: E, dtype: dtype, scale: float64(float32(1 / math.Sqrt(float64(E)))),
		q: normal(H), dout: normal(H), k: normal(K), v: normal(K),
	}
}

func (s *sequence) query(i, h int) []float64 { return s.q[(i*s.H+h)*s.E:][:s.E] }
func (s *sequence) grad(i, h int) []float64  { return s.dout[(i*s.H+h)*s.E:][:s.E] }
func (s *sequence) keyAt(j, h int) int       { return (j*s.K + h*s.K/s.H) * s.E }

// solve computes the reference.
func (s *sequence) solve() {
	s.out, s.lse = make([]float64, len(s.q)), make([]float64, s.n*s.H)
	s.dq, s.dk, s.dv = make([]float64, len(s.q)), make([]float64, len(s.k)), make([]float64, len(s.v))
	dqErr, dkErr, dvErr := make([]float64, len(s.q)), make([]float64, len(s.k)), make([]float64, len(s.v))
	for i := range s.n {
		for h := range s.H {
			p, pErr := s.forward(i, h)
			s.backward(i, h, p, pErr, dqErr, dkErr, dvErr)
		}
	}
	u := kerneltest.Unit(s.dtype)
	s.dqTol = largestOf(dqErr) + u*largestOf(s.dq)
	s.dkTol = largestOf(dkErr) + u*largestOf(s.dk)
	s.dvTol = largestOf(dvErr) + u*largestOf(s.dv)
}

const unit32 = 0x1p-24

// forward is row i of head h: its probabilities, and the relative error of one of them in float32: that of the score,
// of the exponential, and of the sum.
func (s *sequence) forward(i, h int) (p []float64, pErr float64) {
	p = make([]float64, i+1)
	top, sum, size := math.Inf(-1), 0.0, 0.0
	for j := range p {
		key := s.k[s.keyAt(j, h):][:s.E]
		p[j] = s.scale * kerneltest.Dot(s.query(i, h), key)
		top = max(top, p[j])
		size = max(size, s.scale*sizeOf(s.query(i, h), key))
	}
	for j := range p {
		p[j] = math.Exp(p[j] - top)
		sum += p[j]
	}
	pErr = (size*s.dotErr() + float64(s.n/16+10) + 4*math.Abs(top)) * unit32
	at := i*s.H + h
	s.lse[at] = (top + math.Log(sum)) * math.Log2E
	s.lseTol = max(s.lseTol, 2*pErr+4*unit32*math.Abs(s.lse[at]))
	u := kerneltest.Unit(s.dtype)
	for e := range s.E {
		o, size := 0.0, 0.0
		for j := range p {
			v := p[j] / sum * s.v[s.keyAt(j, h)+e]
			o, size = o+v, size+math.Abs(v)
		}
		s.out[at*s.E+e] = o
		s.outTol = max(s.outTol, size*(pErr+u+float64(i+4)*unit32)+u*math.Abs(o))
	}
	for j := range p {
		p[j] /= sum
	}
	return p, pErr
}

// dotErr is the error of a dot of E, in units of float32 and of the sum of magnitudes.
func (s *sequence) dotErr() float64 { return float64(s.E/16 + 8) }

// backward adds what row i of head h gives to the gradients, and to the bounds of their errors.
func (s *sequence) backward(i, h int, p []float64, pErr float64, dqErr, dkErr, dvErr []float64) {
	u, chain := kerneltest.Unit(s.dtype), float64(s.n*s.H/s.K+2)*unit32
	at := (i*s.H + h) * s.E
	q, dout, out := s.query(i, h), s.grad(i, h), s.out[at:at+s.E]
	delta := kerneltest.Dot(dout, out)
	// The roundings of the E elements of out are independent.
	deltaErr := s.outTol*math.Sqrt(kerneltest.Dot(dout, dout)) + s.dotErr()*unit32*sizeOf(dout, out)
	for j := range p {
		key := s.keyAt(j, h)
		v := s.v[key : key+s.E]
		ds := p[j] * (kerneltest.Dot(dout, v) - delta) * s.scale
		dsErr := s.scale*p[j]*(deltaErr+s.dotErr()*unit32*sizeOf(dout, v)) + math.Abs(ds)*(u+2*pErr+chain)
		for e := range s.E {
			s.dq[at+e] += ds * s.k[key+e]
			s.dk[key+e] += ds * q[e]
			s.dv[key+e] += p[j] * dout[e]
			dqErr[at+e] += dsErr * math.Abs(s.k[key+e])
			dkErr[key+e] += dsErr * math.Abs(q[e])
			dvErr[key+e] += p[j] * (u + 2*pErr + chain) * math.Abs(dout[e])
		}
	}
}

// sizeOf is Σ |a·b|.
func sizeOf(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += math.Abs(a[i] * b[i])
	}
	return s
}

func largestOf(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}
