package trainer

// CISPO is clipped importance sampling (MiniMax-M1 2025, arXiv:2506.13585): the clipped ratio weighs the token's
// log-likelihood and is not differentiated, so that no token loses its gradient,
//
//	loss_t = -stop(clip(r, 1-low, 1+high))·A·new,  r = exp(new - old)
//
// with GRPO's advantage.
func CISPO(c GRPOConfig) Algorithm {
	return Algorithm{
		Advantages: GRPO(c).Advantages,
		Grad: func(t Terms, dlogp []float32) (float32, int) {
			var sum float64
			clipped := 0
			for i, a := range t.Adv {
				r, _ := ratio(float64(t.New[i]) - float64(t.Old[i]))
				w := min(max(r, 1-c.ClipLow), 1+c.ClipHigh)
				if w != r && a != 0 {
					clipped++
				}
				dlogp[i] = -w * a
				sum -= float64(w) * float64(a) * float64(t.New[i])
			}
			return float32(sum), clipped
		},
	}
}
