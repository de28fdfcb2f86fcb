package model

import (
	"math"

	"tandem/kernels"
)

// Random draws the weights of a new model: norms are 1, matrices normal with standard deviation c.InitRange (rounded to
// the weights' type). Element i of a parameter depends on the seed, the parameter's place in the table and i alone.
func Random(x *kernels.Transfer, w *Weights, seed uint64) error {
	const piece = 1 << 16
	buf := make([]float32, piece)
	for nth, p := range Params(w.Config) {
		for at := 0; at < p.Len(); at += piece {
			b := buf[:min(piece, p.Len()-at)]
			if p.Decay {
				normal(b, seed, uint32(nth), at, w.Config.InitRange)
			} else {
				for i := range b {
					b[i] = 1
				}
			}
			if err := x.Put(w.Arena, p.Off+at, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// normal fills b with elements at, at+1, ... of stream nth, by Box and Muller's transform of Philox numbers.
func normal(b []float32, seed uint64, nth uint32, at int, dev float64) {
	for i := range b {
		n := uint64(at + i)
		r := kernels.Philox(seed, uint32(n), uint32(n>>32), nth, 0)
		u := (float64(r[0]) + 0.5) / (1 << 32)
		v := float64(r[1]) / (1 << 32)
		b[i] = float32(dev * math.Sqrt(-2*math.Log(u)) * math.Cos(2*math.Pi*v))
	}
}
