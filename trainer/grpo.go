package trainer

import "math"

// GRPOConfig are the choices within group relative policy optimisation (Shao et al. 2024, arXiv:2402.03300).
type GRPOConfig struct {
	Std      bool    // divide by the group's standard deviation; without it this is Dr. GRPO's advantage (arXiv:2503.20783)
	ClipLow  float32 // the ratio is clipped to 1 - ClipLow ...
	ClipHigh float32 // ... and 1 + ClipHigh (DAPO's clip-higher, arXiv:2503.14476)
	DualClip float32 // the loss of a token of negative advantage is at most DualClip·|A| (arXiv:1912.09729); 0 is off
}

// GRPO is the advantage of a sample over its group, and the clipped surrogate
//
//	loss_t = max(-r·A, -clip(r, 1-low, 1+high)·A),  r = exp(new - old)
func GRPO(c GRPOConfig) Algorithm {
	return Algorithm{
		Advantages: func(rewards [][]float32) [][]float32 { return GroupAdvantages(rewards, c.Std) },
		Grad: func(t Terms, dlogp []float32) (float32, int) {
			return clippedSurrogate(t, dlogp, c)
		},
	}
}

// missing is a reward that is not there.
var missing = float32(math.NaN())

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

// ratio is exp(new - old), and whether its gradient by new is itself: it is not where the bound holds.
func ratio(logRatio float64) (r float32, moves bool) {
	return float32(math.Exp(min(max(logRatio, -maxLogRatio), maxLogRatio))), math.Abs(logRatio) < maxLogRatio
}

// clippedSurrogate is PPO's clipped objective per token (Schulman et al. 2017, arXiv:1707.06347), with its gradient by
// new. Where a clip holds, the gradient is 0.
func clippedSurrogate(t Terms, dlogp []float32, c GRPOConfig) (loss float32, clipped int) {
	var sum float64
	for i, a := range t.Adv {
		dlogp[i] = 0
		if a == 0 {
			continue
		}
		r, moves := ratio(float64(t.New[i]) - float64(t.Old[i]))
		l, held := -r*a, !moves
		if bounded := -min(max(r, 1-c.ClipLow), 1+c.ClipHigh) * a; bounded > l {
			l, held = bounded, true
			clipped++
		} else if c.DualClip > 0 && a < 0 && l > -c.DualClip*a {
			l, held = -c.DualClip*a, true
			clipped++
		}
		sum += float64(l)
		if !held {
			dlogp[i] = -r * a
		}
	}
	return float32(sum), clipped
}
