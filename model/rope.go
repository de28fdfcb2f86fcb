package model

import "math"

// RopeTable gives cos and sin of position times frequency for positions 0 to n-1, each (n, E/2). Pairs are elements i and
// i+E/2 of a head, as rotate_half of the published model has them; their frequency is entry i.
//
// Frequencies and angles are rounded to float32 on the way, as in transformers: the models were trained with those, and at
// position 40,000 an angle of more digits would be another one by up to 0.002. Cosine and sine are taken in float64 and
// rounded once, so the table is the same on every device.
func (c Config) RopeTable(n int) (cos, sin []float32) {
	half := c.HeadDim / 2
	freq := c.frequencies()
	scale := float32(1)
	if c.RopeScaling != nil {
		scale = float32(c.RopeScaling.Attention)
	}
	cos, sin = make([]float32, n*half), make([]float32, n*half)
	for p := range n {
		for i, f := range freq {
			s, c := math.Sincos(float64(float32(p) * f))
			cos[p*half+i] = float32(c) * scale
			sin[p*half+i] = float32(s) * scale
		}
	}
	return cos, sin
}

// frequencies are theta^(-2i/E), (E/2), stretched by YaRN where there is one.
func (c Config) frequencies() []float32 {
	freq := make([]float32, c.HeadDim/2)
	for i := range freq {
		freq[i] = 1 / c.wavelength(i)
	}
	y := c.RopeScaling
	if y == nil {
		return freq
	}
	low, high := y.ramp(c)
	for i := range freq {
		// keep is 1 where a pair turns often within the trained positions, and falls to 0 where it turns less than
		// BetaSlow times: those are divided by Factor.
		keep := 1 - min(max((float32(i)-float32(low))/float32(high-low), 0), 1)
		slow := 1 / float32(float32(y.Factor)*c.wavelength(i))
		freq[i] = float32(slow*(1-keep)) + float32(freq[i]*keep)
	}
	return freq
}

// wavelength is theta^(2i/E), the radians of pair i per position, inverted.
func (c Config) wavelength(i int) float32 {
	return float32(math.Pow(c.RopeTheta, float64(float32(2*i)/float32(c.HeadDim))))
}

// ramp is the range of pairs over which YaRN goes from keeping a frequency to dividing it.
func (y *YaRN) ramp(c Config) (low, high float64) {
	pair := func(rotations float64) float64 {
		return float64(c.HeadDim) * math.Log(float64(y.Original)/(rotations*2*math.Pi)) / (2 * math.Log(c.RopeTheta))
	}
	low = max(math.Floor(pair(y.BetaFast)), 0)
	high = min(math.Ceil(pair(y.BetaSlow)), float64(c.HeadDim-1))
	if low == high {
		high += 0.001 // a step, without dividing by zero
	}
	return low, high
}
