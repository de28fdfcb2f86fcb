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

	// What the roundings of doc.go can do to the worst element of each.
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

// solve computes the reference. Roundings are independent, so their errors add as squares; the bounds are twice the
// root, in units of the largest error of a rounding: 3.5 deviations of the worst element, and then of all of them.
func (s *sequence) solve() {
	s.out, s.lse = make([]float64, len(s.q)), make([]float64, s.n*s.H)
	s.dq, s.dk, s.dv = make([]float64, len(s.q)), make([]float64, len(s.k)), make([]float64, len(s.v))
	s.outTol, s.lseTol, s.dqTol = 0, 0, 0
	dkErr, dvErr := make([]float64, len(s.k)), make([]float64, len(s.v)) // squares
	for i := range s.n {
		for h := range s.H {
			p, pErr := s.forward(i, h)
			s.backward(i, h, p, pErr, dkErr, dvErr)
		}
	}
	u := kerneltest.Unit(s.dtype)
	s.dkTol = 2*math.Sqrt(largestOf(dkErr)) + u*largestOf(s.dk)
	s.dvTol = 2*math.Sqrt(largestOf(dvErr)) + u*largestOf(s.dv)
}

const unit32 = 0x1p-24

// forward is row i of head h: its probabilities, and the relative error of one of them in float32, which is that of the
// score, of the exponential and of the sum.
func (s *sequence) forward(i, h int) (p []float64, pErr float64) {
	p = make([]float64, i+1)
	top, size, sum, err := math.Inf(-1), 0.0, 0.0, 0.0
	for j := range p {
		key := s.k[s.keyAt(j, h):][:s.E]
		p[j] = s.scale * kerneltest.Dot(s.query(i, h), key)
		top, size = max(top, p[j]), max(size, math.Abs(p[j]))
		err = max(err, s.scale*s.dotErr(s.query(i, h), key))
	}
	for j := range p {
		p[j] = math.Exp(p[j] - top)
		sum += p[j]
	}
	for j := range p {
		p[j] /= sum
	}
	pErr = err + (2*size+2+math.Sqrt(float64(s.n/16+10)))*unit32
	at := i*s.H + h
	s.lse[at] = (top + math.Log(sum)) * math.Log2E
	s.lseTol = max(s.lseTol, 2*pErr+2*unit32*math.Abs(s.lse[at]))
	u := kerneltest.Unit(s.dtype)
	for e := range s.E {
		o, size := 0.0, 0.0
		for j := range p {
			v := p[j] * s.v[s.keyAt(j, h)+e]
			o, size = o+v, size+v*v
		}
		s.out[at*s.E+e] = o
		s.outTol = max(s.outTol, s.outErr(o, math.Sqrt(size), pErr)*2+u*math.Abs(o))
	}
	return p, pErr
}

// outErr is the error of a sum over probabilities that gives o, where size is the root of the sum of squares.
func (s *sequence) outErr(o, size, pErr float64) float64 {
	return math.Hypot(size*(kerneltest.Unit(s.dtype)+pErr+math.Sqrt(float64(s.n))*unit32), 2*unit32*o)
}

// dotErr is the error of a dot: of E/16 steps on a lane and of the fold.
func (s *sequence) dotErr(a, b []float64) float64 {
	return rootOf(a, b) * math.Sqrt(float64(s.E/16+8)) * unit32
}

// backward adds what row i of head h gives to the gradients and, as squares, to the bounds of their errors.
func (s *sequence) backward(i, h int, p []float64, pErr float64, dkErr, dvErr []float64) {
	u, chain := kerneltest.Unit(s.dtype), math.Sqrt(float64(s.n*s.H/s.K+2))*unit32
	at := (i*s.H + h) * s.E
	q, dout, out := s.query(i, h), s.grad(i, h), s.out[at:at+s.E]
	delta := kerneltest.Dot(dout, out)
	// delta is a sum over the E elements of out, whose last rounding is u.
	deltaErr := s.dotErr(dout, out) + (u+pErr)*rootOf(dout, out) + s.outTol/2*rootOf(dout, ones(s.E))
	dqErr, common := make([]float64, s.E), make([]float64, s.E) // delta's error is the same for all keys
	for j := range p {
		key := s.keyAt(j, h)
		v := s.v[key : key+s.E]
		ds := p[j] * (kerneltest.Dot(dout, v) - delta) * s.scale
		dsErr := s.scale*p[j]*s.dotErr(dout, v) + math.Abs(ds)*(u+pErr+chain)
		pvErr := p[j] * (u + pErr + chain)
		for e := range s.E {
			s.dq[at+e] += ds * s.k[key+e]
			s.dk[key+e] += ds * q[e]
			s.dv[key+e] += p[j] * dout[e]
			common[e] += s.scale * p[j] * deltaErr * s.k[key+e]
			dqErr[e] += square(dsErr * s.k[key+e])
			dkErr[key+e] += square(dsErr*q[e]) + square(s.scale*p[j]*deltaErr*q[e])
			dvErr[key+e] += square(pvErr * dout[e])
		}
	}
	for e := range s.E {
		s.dqTol = max(s.dqTol, 2*math.Hypot(math.Sqrt(dqErr[e]), common[e])+u*math.Abs(s.dq[at+e]))
	}
}

// rootOf is √Σ (a·b)².
func rootOf(a, b []float64) float64 {
	s := 0.0
	for i := range a {
		s += square(a[i] * b[i])
	}
	return math.Sqrt(s)
}

func square(x float64) float64 { return x * x }

func ones(n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = 1
	}
	return x
}

func largestOf(x []float64) float64 {
	m := 0.0
	for _, v := range x {
		m = max(m, math.Abs(v))
	}
	return m
}
