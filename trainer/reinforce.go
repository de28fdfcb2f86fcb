package trainer

// RLOO is REINFORCE with the mean of the group's other rewards as the baseline (Ahmadian et al. 2024, arXiv:2402.14740),
// and GRPO's clipped surrogate, which on policy is the plain policy gradient.
func RLOO(c GRPOConfig) Algorithm {
	return Algorithm{Advantages: LeaveOneOut, Grad: GRPO(c).Grad}
}

// LeaveOneOut is r - mean of the others of its group. Equal rewards give exact zeros, and so does a group of one; a
// missing reward is left out and has advantage 0.
func LeaveOneOut(rewards [][]float32) [][]float32 {
	out := GroupAdvantages(rewards, false)
	for p, group := range rewards {
		_, _, n := moments(group)
		for i := range out[p] { // r - (sum - r)/(n - 1) = (r - mean)·n/(n - 1)
			if n > 1 {
				out[p][i] *= float32(float64(n) / float64(n-1))
			}
		}
	}
	return out
}

// ReinforcePlus is REINFORCE++ (Hu 2025, arXiv:2501.03262): rewards whitened over the whole batch, and GRPO's clipped
// surrogate.
func ReinforcePlus(c GRPOConfig) Algorithm {
	return Algorithm{Advantages: BatchAdvantages, Grad: GRPO(c).Grad}
}

// BatchAdvantages is r - mean of the batch, over its standard deviation (n - 1 in the denominator) + 1e-6. A missing
// reward is left out and has advantage 0.
func BatchAdvantages(rewards [][]float32) [][]float32 {
	var all []float32
	for _, group := range rewards {
		all = append(all, group...)
	}
	flat := GroupAdvantages([][]float32{all}, true)[0]
	out := make([][]float32, len(rewards))
	for p, group := range rewards {
		out[p], flat = flat[:len(group):len(group)], flat[len(group):]
	}
	return out
}
