package trainer

// GSPO is group sequence policy optimisation (Zheng et al. 2025, arXiv:2507.18071): every token of a sample has the ratio
// of the sequence, the geometric mean of the tokens' own,
//
//	s = exp(mean over tokens of (new - old)),  loss_t = max(-s·A, -clip(s, 1-low, 1+high)·A)
//
// with GRPO's advantage.
func GSPO(c GRPOConfig) Algorithm {
	return Algorithm{
		Advantages: GRPO(c).Advantages,
		Grad: func(t Terms, dlogp []float32) (float32, int) {
			clear(dlogp)
			if len(t.New) == 0 {
				return 0, 0
			}
			var mean float64
			for i, new := range t.New {
				mean += (float64(new) - float64(t.Old[i])) / float64(len(t.New))
			}
			s, moves := ratio(mean)
			bounded := min(max(s, 1-c.ClipLow), 1+c.ClipHigh)
			var sum, slope float64 // slope: of the summed loss by log s
			clipped := 0
			for _, a := range t.Adv {
				switch {
				case a == 0:
				case -bounded*a > -s*a:
					sum -= float64(bounded) * float64(a)
					clipped++
				default:
					sum -= float64(s) * float64(a)
					if moves {
						slope -= float64(s) * float64(a)
					}
				}
			}
			for i := range dlogp {
				dlogp[i] = float32(slope / float64(len(dlogp)))
			}
			return float32(sum), clipped
		},
	}
}
