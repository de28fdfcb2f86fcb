package trainer

import "math"

// GRPOConfig are the choices within group relative policy optimisation (Shao et al. 2024, arXiv:2402.03300).
type GRPOConfig struct {
	Std      bool    // divide by the group's standard deviation; without it this is Dr. GRPO's advantage (arXiv:2503.20783)
	ClipLow  float32 // the ratio is clipped to 1 - ClipLow ...
	ClipHigh float32 // ... and 1 + ClipHigh (DAPO's clip-higher, arXiv:2503.14476)
}

// GRPO is the advantage of a sample over its group, and the clipped surrogate
//
//	loss_t = max(-r·A, -clip(r, 1-low, 1+high)·A),  r = exp(new - old)
func GRPO(c GRPOConfig) Algorithm {
	return Algorithm{
		Advantages: func(rewards [][]float32) [][]float32 { return GroupAdvantages(rewards, c.Std) },
		Grad: func(new, old, adv, dlogp []float32) (float32, int) {
			return clippedSurrogate(new, old, adv, dlogp, c.ClipLow, c.ClipHigh)
		},
	}
}

// advantageEps keeps a small standard deviation from blowing up what is left of the rewards.
const advantageEps = 1e-6

// GroupAdvantages is r - mean of the group, over its standard deviation (n - 1 in the denominator) + 1e-6 where std is
// set. Equal rewards give exact zeros, and so does a group of one. A NaN is a missing reward: it is left out of mean and
// deviation, and its own advantage is 0.
func GroupAdvantages(rewards [][]float32, std bool) [][]float32 {
	out := make([][]float32, len(rewards))
	for p, group := range rewards {
		out[p] = make([]float32, len(group))
		mean, dev, n := moments(group)
		if n < 2 || dev == 0 {
			continue
		}
		for i, r := range group {
			if isNaN(r) {
				continue
			}
			a := float64(r) - mean
			if std {
				a /= dev + advantageEps
			}
			out[p][i] = float32(a)
		}
	}
	return out
}

// moments are the mean and the unbiased standard deviation of the n values that are there; the deviation of equal values
// is exactly 0.
func moments(values []float32) (mean, dev float64, n int) {
	equal := true
	var first float32
	for _, v := range values {
		if isNaN(v) {
			continue
		}
		if n == 0 {
			first = v
		}
		equal = equal && v == first
		mean += float64(v)
		n++
	}
	if n == 0 || equal {
		return float64(first), 0, n
	}
	mean /= float64(n)
	for _, v := range values {
		if !isNaN(v) {
			d := float64(v) - mean
			dev += d * d
		}
	}
	return mean, math.Sqrt(dev / float64(n-1)), n
}

// maxLogRatio bounds new - old before the exponential, so that the ratio of a wild token stays finite.
const maxLogRatio = 20

// clippedSurrogate is PPO's clipped objective per token (Schulman et al. 2017, arXiv:1707.06347), with its gradient by
// new. Where the clip holds, the gradient is 0.
func clippedSurrogate(new, old, adv, dlogp []float32, low, high float32) (loss float32, clipped int) {
	var sum float64
	for t, a := range adv {
		dlogp[t] = 0
		if a == 0 {
			continue
		}
		d := float64(new[t]) - float64(old[t])
		r := float32(math.Exp(min(max(d, -maxLogRatio), maxLogRatio)))
		bounded := min(max(r, 1-low), 1+high)
		if -r*a >= -bounded*a {
			sum += float64(-r * a)
			if math.Abs(d) < maxLogRatio {
				dlogp[t] = -r * a
			}
		} else {
			sum += float64(-bounded * a)
			clipped++
		}
	}
	return float32(sum), clipped
}

// Supervised is the negative log-likelihood of given tokens; rewards mean nothing to it.
func Supervised() Algorithm {
	return Algorithm{
		Advantages: func(rewards [][]float32) [][]float32 {
			out := make([][]float32, len(rewards))
			for p, group := range rewards {
				out[p] = make([]float32, len(group))
				for i := range group {
					out[p][i] = 1
				}
			}
			return out
		},
		Grad: func(new, _, adv, dlogp []float32) (float32, int) {
			var sum float64
			for t := range new {
				sum -= float64(adv[t]) * float64(new[t])
				dlogp[t] = -adv[t]
			}
			return float32(sum), 0
		},
	}
}
