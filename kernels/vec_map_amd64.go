package kernels

// The elementwise loops take 16 elements at a time. What is left is done by the plain bodies, or where those are slow, on
// a copy of 16 elements.

func exp2SumSIMD(p, s []float32, c, b float32, sum *[16]float32) {
	n := len(s) &^ 15
	covers("exp2Sum", "p", len(p), 0, 1, len(s))
	if n > 0 {
		exp2SumAVX2(&p[0], &s[0], c, b, &sum[0], n/16)
	}
	if n == len(s) {
		return
	}
	var tail [16]float32
	lanes := *sum
	copy(tail[:], s[n:])
	exp2SumAVX2(&tail[0], &tail[0], c, b, &lanes[0], 1)
	copy(p[n:len(s)], tail[:])
	copy(sum[:len(s)-n], lanes[:])
}

func siluSIMD(out, gate, up []float32) {
	n := len(gate) &^ 15
	covers("silu", "out", len(out), 0, 1, len(gate))
	covers("silu", "up", len(up), 0, 1, len(gate))
	if n > 0 {
		siluAVX2(&out[0], &gate[0], &up[0], n/16)
	}
	siluGo(out[n:], gate[n:], up[n:])
}

func siluBackwardSIMD(dgate, dup, dout, gate, up []float32) {
	n := len(gate) &^ 15
	covers("siluBackward", "dgate", len(dgate), 0, 1, len(gate))
	covers("siluBackward", "dup", len(dup), 0, 1, len(gate))
	covers("siluBackward", "dout", len(dout), 0, 1, len(gate))
	covers("siluBackward", "up", len(up), 0, 1, len(gate))
	if n > 0 {
		siluBackwardAVX2(&dgate[0], &dup[0], &dout[0], &gate[0], &up[0], n/16)
	}
	siluBackwardGo(dgate[n:], dup[n:], dout[n:], gate[n:], up[n:])
}

func unpackSIMD(dst []float32, src []uint16) {
	n := len(src) &^ 15
	covers("unpack", "dst", len(dst), 0, 1, len(src))
	if n > 0 {
		unpackAVX2(&dst[0], &src[0], n/16)
	}
	unpackGo(dst[n:], src[n:])
}

func packSIMD(dst []uint16, src []float32) {
	n := len(src) &^ 15
	covers("pack", "dst", len(dst), 0, 1, len(src))
	if n > 0 {
		packAVX2(&dst[0], &src[0], n/16)
	}
	packGo(dst[n:], src[n:])
}

func scaleSIMD(out, x, w []float32, r float32) {
	n := len(x) &^ 15
	covers("scale", "out", len(out), 0, 1, len(x))
	covers("scale", "w", len(w), 0, 1, len(x))
	if n > 0 {
		scaleAVX2(&out[0], &x[0], &w[0], r, n/16)
	}
	scaleGo(out[n:], x[n:], w[n:], r)
}

func splitSIMD(w, low []uint16, x []float32) {
	n := len(x) &^ 15
	covers("split", "w", len(w), 0, 1, len(x))
	covers("split", "low", len(low), 0, 1, len(x))
	if n > 0 {
		splitAVX2(&w[0], &low[0], &x[0], n/16)
	}
	splitGo(w[n:], low[n:], x[n:])
}

func joinSIMD(x []float32, w, low []uint16) {
	n := len(x) &^ 15
	covers("join", "w", len(w), 0, 1, len(x))
	covers("join", "low", len(low), 0, 1, len(x))
	if n > 0 {
		joinAVX2(&x[0], &w[0], &low[0], n/16)
	}
	joinGo(x[n:], w[n:], low[n:])
}

func halveSIMD(dst []uint16, src []float32, r float32) {
	n := len(src) &^ 15
	covers("halve", "dst", len(dst), 0, 1, len(src))
	if n > 0 {
		halveAVX2(&dst[0], &src[0], r, n/16)
	}
	halveGo(dst[n:], src[n:], r)
}

func unhalveSIMD(dst []float32, src []uint16, r float32) {
	n := len(src) &^ 15
	covers("unhalve", "dst", len(dst), 0, 1, len(src))
	if n > 0 {
		unhalveAVX2(&dst[0], &src[0], r, n/16)
	}
	unhalveGo(dst[n:], src[n:], r)
}

func adamWSIMD(w, m, v, g []float32, c *adamWCoeffs) {
	n := len(w) &^ 15
	covers("adamW", "m", len(m), 0, 1, len(w))
	covers("adamW", "v", len(v), 0, 1, len(w))
	covers("adamW", "g", len(g), 0, 1, len(w))
	if n > 0 {
		adamWAVX2(&w[0], &m[0], &v[0], &g[0], &c.scale, n/16)
	}
	adamWGo(w[n:], m[n:], v[n:], g[n:], c)
}
