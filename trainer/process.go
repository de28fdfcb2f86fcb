package trainer

import "slices"

// ProcessAdvantages are those of rewards that come along the way, [G][tokens], a NaN where a token has none. They are
// normalised over all that the group got, and a token's advantage is the discounted return from it on (process supervision
// of Shao et al. 2024, arXiv:2402.03300, section 4.1.3, there with gamma = 1),
//
//	r̃_k = (r_k - mean) / (std + 1e-6),  A_t = Σ_{k ≥ t} gamma^(k-t) · r̃_k
//
// with the mean alone subtracted where std is not set; k - t counts sampled tokens. Equal rewards give exact zeros.
func ProcessAdvantages(rewards [][]float32, std bool, gamma float32) [][]float32 {
	var all []float32
	for _, tokens := range rewards {
		all = append(all, tokens...)
	}
	normal := GroupAdvantages([][]float32{all}, std)[0] // 0 where there is none
	out := make([][]float32, len(rewards))
	for g, tokens := range rewards {
		out[g] = make([]float32, len(tokens))
		var sum float64
		for t := len(tokens) - 1; t >= 0; t-- {
			sum = float64(float64(gamma)*sum) + float64(normal[t])
			out[g][t] = float32(sum)
		}
		normal = normal[len(tokens):]
	}
	return out
}

// reward notes process rewards of the turn whose n tokens were added last: one for each, or one for the turn, which stands
// at its last token.
func (r *Rollout) reward(process []float32, n int) {
	for len(r.Process) < len(r.LogProbs) {
		r.Process = append(r.Process, missing)
	}
	if len(process) == 1 {
		r.Process[len(r.Process)-1] = process[0]
		return
	}
	copy(r.Process[len(r.Process)-n:], process)
}

// process are the rewards along the way, one a sampled token; nil if there is none.
func (r *Rollout) process() []float32 {
	if r.Process == nil {
		return nil
	}
	out := slices.Clone(r.Process)
	for len(out) < len(r.LogProbs) {
		out = append(out, missing)
	}
	return out
}
