package trainer

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
		Grad: func(t Terms, dlogp []float32) (float32, int) {
			var sum float64
			for i, a := range t.Adv {
				sum -= float64(a) * float64(t.New[i])
				dlogp[i] = -a
			}
			return float32(sum), 0
		},
	}
}
