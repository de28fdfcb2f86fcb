package bench

import (
	"context"
	"fmt"
	"time"

	"tandem/engine"
	"tandem/kernels"
	"tandem/model"
)

// A System is a measurement of more than a kernel.
type System struct {
	Name string             `json:"name"`
	Text string             `json:"text"`
	Rate map[string]float64 `json:"rate"`
}

// RandomWeights is a model of the shape with random weights: a stretch of random values, over and over. Values are a prime
// number, so that no two rows of a matrix are alike.
func RandomWeights(dev kernels.Device, shape string, context int) (*model.Weights, error) {
	c, err := model.Shape(shape)
	if err != nil {
		return nil, err
	}
	w, err := model.NewWeights(dev, c, kernels.BF16, context)
	if err != nil {
		return nil, err
	}
	x, err := kernels.NewTransfer(dev)
	if err != nil {
		return nil, err
	}
	values := make([]byte, 2*1_000_003)
	r := uint32(1)
	for i := 0; i < len(values); i += 2 { // uniform within ±0.03, about what a model is begun with
		r = r*1664525 + 1013904223
		v := kernels.BF16Of((float32(r>>8)/(1<<24) - 0.5) * 0.06)
		values[i], values[i+1] = byte(v), byte(v>>8)
	}
	at := 0
	return w, x.Up(w.Arena.Ptr, w.Arena.Bytes(), func(piece []byte) error {
		for len(piece) > 0 {
			n := copy(piece, values[at:])
			piece, at = piece[n:], (at+n)%len(values)
		}
		return nil
	})
}

// Decode is tokens a second with `batch` sequences at once, each after a prompt of `prompt` tokens, for n tokens each.
func Decode(dev kernels.Device, w *model.Weights, batch, prompt, n int) (System, error) {
	pages := batch * ((prompt+n)/kernels.PageTokens + 2)
	e, err := engine.New(dev, w, engine.Config{Pages: pages, Seqs: batch, Rows: max(batch, 2048), Context: prompt + n + 1})
	if err != nil {
		return System{}, err
	}
	defer e.Close()
	var sessions []*engine.Session
	for i := range batch {
		tokens := make([]int32, prompt)
		for j := range tokens {
			tokens[j] = int32((i*prompt + j) * 7919 % w.Config.Live)
		}
		s, err := e.Open(engine.Request{Tokens: tokens, Seed: uint64(i), Params: engine.Params{MaxTokens: n, Temperature: 1}})
		if err != nil {
			return System{}, err
		}
		sessions = append(sessions, s)
	}
	begun := time.Now()
	total := 0
	for _, s := range sessions {
		got, err := s.Next(context.Background())
		if err != nil {
			return System{}, err
		}
		total += len(got.Tokens)
		s.Close()
	}
	took := time.Since(begun).Seconds()
	name := fmt.Sprintf("decode, batch %d, prompts of %d, %d tokens", batch, prompt, n)
	return System{Name: name, Text: fmt.Sprintf("%.0f tokens/s in %.1f s, prompts included", float64(total)/took, took), Rate: map[string]float64{"tokens_s": float64(total) / took}}, nil
}
