package trainer

// TruncatedWeights are truncated importance weights for tokens that another program sampled, whose log-probs are not those
// that our weights, the same in name, give it (Yao et al. 2025, fengyao.notion.site/off-policy-rl; Ionides 2008,
// doi.org/10.1198/106186008X320456):
//
//	w_t = min(exp(ours - theirs), limit)
//
// ours are the log-probs before the step's first update. A weight multiplies the token's advantage and is not
// differentiated; the ratio that is clipped stays exp(new - ours). Truncation keeps every token: a small weight stays as it
// is and a large one is bounded, which costs a little bias. Masking, as IcePop does it (Ling Team 2025, arXiv:2510.18855),
// gives weight 0 to a token that either side finds much likelier than the other, and learns nothing from it. Where the
// samples are our own, ours and theirs are the same bits, every weight is exactly 1, and there is nothing to compute.
// truncated counts the tokens at the limit.
func TruncatedWeights(ours, theirs []float32, limit float32) (w []float32, truncated int) {
	w = make([]float32, len(ours))
	for i := range w {
		r, _ := ratio(float64(ours[i]) - float64(theirs[i]))
		if w[i] = r; r > limit {
			w[i] = limit
			truncated++
		}
	}
	return w, truncated
}
