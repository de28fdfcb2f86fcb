package engine_test

import (
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tandem/engine"
)

// TestStopEndsATurnWithWhatIsThere stops turns from another goroutine, and lets them go on: the parts are the whole.
func TestStopEndsATurnWithWhatIsThere(t *testing.T) {
	e := newEngine(t, engine.Config{Pages: 12, Seqs: 2, Rows: 40, Context: 300})
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	req := engine.Request{Tokens: prompt(r, 80), Seed: 4, Params: engine.Params{MaxTokens: 200, Temperature: 1}}
	whole := next(t, open(t, e, req))
	stopped := 0
	for range 20 {
		s := open(t, e, req)
		others := open(t, e, engine.Request{Tokens: prompt(r, 20), Params: engine.Params{MaxTokens: 100, Temperature: 1}})
		var got []int32
		for {
			var done sync.WaitGroup
			pause := time.Duration(r.IntN(2000)) * time.Microsecond
			done.Go(func() {
				time.Sleep(pause)
				s.Stop()
			})
			part := next(t, s)
			done.Wait()
			got = append(got, part.Tokens...)
			if len(part.LogProbs) != len(part.Tokens) {
				t.Fatalf("%d log-probs for %d tokens", len(part.LogProbs), len(part.Tokens))
			}
			if part.Stop != engine.StopCancelled {
				break
			}
			stopped++
			if err := s.Append(nil, 200-len(got)); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, whole.Tokens) {
			t.Fatalf("in parts %v, in one %v", got, whole.Tokens)
		}
		s.Stop() // between turns it means nothing
		s.Close()
		s.Stop()
		others.Close()
	}
	if stopped == 0 {
		t.Error("no turn was stopped")
	}
}

// TestDeadlineOnlyEndsATurn has a clock that strikes after the ninth token of a sequence.
func TestDeadlineOnlyEndsATurn(t *testing.T) {
	e := newEngine(t, engine.Config{Pages: 12, Seqs: 2, Rows: 40, Context: 300})
	var late atomic.Bool
	start := time.Unix(100, 0)
	e.SetClock(func() time.Time {
		if late.Load() {
			return start.Add(time.Second)
		}
		return start
	})
	req := engine.Request{Tokens: []int32{1, 2, 3}, Seed: 4, Params: engine.Params{MaxTokens: 50, Temperature: 1}}
	whole := next(t, open(t, e, req))
	req.Deadline = start.Add(time.Second)
	if got := next(t, open(t, e, req)); !sameBits(got, whole) {
		t.Errorf("with a deadline that does not come: %v %v, want %v %v", got.Tokens, got.Stop, whole.Tokens, whole.Stop)
	}
	free := open(t, e, engine.Request{Tokens: []int32{1, 2, 3}, Seed: 4, Params: req.Params})
	req.Until = func(turn []int32) bool {
		late.Store(len(turn) == 9)
		return false
	}
	s := open(t, e, req)
	if got := next(t, s); got.Stop != engine.StopDeadline || !slices.Equal(got.Tokens, whole.Tokens[:9]) {
		t.Errorf("%v %v, want %v and the deadline", got.Tokens, got.Stop, whole.Tokens[:9])
	}
	if err := s.Append([]int32{5}, 10); err != nil {
		t.Fatal(err)
	}
	if got := next(t, s); got.Stop != engine.StopDeadline || len(got.Tokens) != 0 {
		t.Errorf("a turn that begins after the deadline: %v %v", got.Tokens, got.Stop)
	}
	s.Close()
	if got := next(t, free); !sameBits(got, whole) {
		t.Errorf("beside it, without a deadline: %v %v, want %v %v", got.Tokens, got.Stop, whole.Tokens, whole.Stop)
	}
	if st := e.Stats(); st.Waiting+st.Running != 0 {
		t.Errorf("%+v", st)
	}
}

// TestPaddedTokensAreNeverDrawn has case e28: the vocabulary of the weights is larger than the tokenizer's.
func TestPaddedTokensAreNeverDrawn(t *testing.T) {
	e := newEngine(t, engine.Config{Pages: 12, Seqs: 4, Rows: 40, Context: 300, Top: 97})
	for seed := range uint64(4) {
		got := next(t, open(t, e, engine.Request{Tokens: []int32{96, 95}, Seed: seed, Params: engine.Params{MaxTokens: 250, Temperature: 1e6, Top: 97}}))
		for i, tok := range got.Tokens {
			if tok >= 95 || len(got.Top[i]) != 95 {
				t.Fatalf("token %d of %d that are possible", tok, len(got.Top[i]))
			}
		}
	}
}
