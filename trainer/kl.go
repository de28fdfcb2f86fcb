package trainer

import "math"

// KL is a penalty for leaving a frozen reference, per sampled token, by one of Schulman's estimators of the divergence
// (joschu.net/blog/kl-approx.html), with d = ref - new:
//
//	k1 = -d    k2 = d²/2    k3 = exp(d) - 1 - d
type KL struct {
	Coef      float32
	Estimator string // k1, k2 or k3
}

// value is the estimate for one token, and its derivative by new. d is bounded before the exponential.
func (k KL) value(new, ref float32) (v, slope float64) {
	d := float64(ref) - float64(new)
	switch k.Estimator {
	case "k1":
		return -d, 1
	case "k2":
		return d * d / 2, -d
	}
	b := min(max(d, -maxLogRatio), maxLogRatio)
	e := math.Exp(b)
	if b != d {
		return e - 1 - b, 0
	}
	return e - 1 - d, 1 - e
}

// InLoss adds Coef·KL to every token's loss.
func (k KL) InLoss(a Algorithm) Algorithm {
	grad := a.Grad
	a.Always = true
	a.Grad = func(t Terms, dlogp []float32) (float32, int) {
		loss, clipped := grad(t, dlogp)
		sum := float64(loss)
		for i, new := range t.New {
			v, slope := k.value(new, t.Ref[i])
			sum += float64(k.Coef) * v
			dlogp[i] += float32(float64(k.Coef) * slope)
		}
		return float32(sum), clipped
	}
	return a
}

// InReward is what the reward of a sample loses: Coef times the sum of KL over its tokens, under the weights that sampled.
func (k KL) InReward(old, ref []float32) float32 {
	var sum float64
	for i, o := range old {
		v, _ := k.value(o, ref[i])
		sum += v
	}
	return float32(float64(k.Coef) * sum)
}
