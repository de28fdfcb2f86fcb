package engine

import (
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tandem/kernels"
)

// stubEngine is an engine on the stub that the test steps itself, with room for lists.
func stubEngine(t *testing.T, cfg Config) (*Engine, *kernels.Transfer) {
	t.Helper()
	dev, w, x := stub(t)
	e, err := newEngine(dev, w, cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.stepped = e.sched.check
	return e, x
}

func (e *Engine) stepOnce(t *testing.T) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := e.turn(); err != nil {
		t.Fatal(err)
	}
}

// finishTurn steps until the session's turn is over.
func finishTurn(t *testing.T, s *Session) Sample {
	t.Helper()
	for len(s.turns) == 0 {
		s.e.stepOnce(t)
	}
	got, err := s.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// changedLogits applies the definition of Params to the logits of a sequence whose turn began at turn.
func changedLogits(logits []float32, p Params, tokens []int32, turn int) []float32 {
	z := slices.Clone(logits)
	for j := range z {
		id := int32(j)
		z[j] += p.Bias[id]
		if p.Repetition != 0 && slices.Contains(tokens, id) {
			if z[j] > 0 {
				z[j] /= p.Repetition
			} else {
				z[j] *= p.Repetition
			}
		}
		n := 0
		for _, tok := range tokens[turn:] {
			if tok == id {
				n++
			}
		}
		if z[j] -= float32(p.Frequency * float32(n)); n > 0 {
			z[j] -= p.Presence
		}
		if p.Allowed != nil && !slices.Contains(p.Allowed, id) {
			z[j] = float32(math.Inf(-1))
		}
	}
	return z
}

// TestPenaltiesCountWhatTheySay reads the logits of every step and applies the definition of Params to the tokens so far:
// greedy draws are the first largest of that, over turns and with tokens that have no logit. The log-probs are those of
// the logits as they are, and Top begins with their largest.
func TestPenaltiesCountWhatTheySay(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const V = 37
	e, x := stubEngine(t, Config{Pages: 8, Seqs: 2, Rows: 64, Context: 200, Edits: V, Allowed: V, Top: V})
	logits := make([]float32, V)
	for range 60 {
		p := Params{MaxTokens: 1 + r.IntN(20), Top: 1 + r.IntN(V), Bias: map[int32]float32{int32(r.IntN(V)): 2, int32(r.IntN(V)): -2}}
		p.Repetition = one(r, 2, 0.3+2*r.Float32())
		p.Frequency, p.Presence = one(r, 2, r.Float32()-0.3), one(r, 2, 2*r.Float32()-0.5)
		if r.IntN(3) == 0 {
			for range 1 + r.IntN(V) { // in any order, some twice
				p.Allowed = append(p.Allowed, int32(r.IntN(V)))
			}
		}
		tokens := make([]int32, 1+r.IntN(50))
		for i := range tokens {
			tokens[i] = int32(r.IntN(40))
		}
		s, err := e.Open(Request{Tokens: tokens, Params: p})
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			turn := len(tokens)
			for len(s.turns) == 0 {
				before := len(s.seq.tokens)
				e.stepOnce(t)
				if len(s.seq.tokens) == before {
					continue // a part of the prompt
				}
				if err := x.Get(logits, e.step.logits, 0); err != nil {
					t.Fatal(err)
				}
				z := changedLogits(logits, p, s.seq.tokens[:before], turn)
				if got, want := s.seq.tokens[before], int32(slices.Index(z, slices.Max(z))); got != want {
					t.Fatalf("%+v after %v and %v: token %d, want %d", p, s.seq.tokens[:turn], s.seq.tokens[turn:before], got, want)
				}
				wantLogProbs(t, s.seq, logits, p.Top)
			}
			got, err := s.Next(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			reply := []int32{int32(r.IntN(40)), int32(r.IntN(40))}
			tokens = append(append(tokens, got.Tokens...), reply...)
			if err := s.Append(reply, 1+r.IntN(10)); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
	}
}

// wantLogProbs compares the log-probs of the last drawn token with float64.
func wantLogProbs(t *testing.T, s *seq, logits []float32, top int) {
	t.Helper()
	sum := 0.0
	for _, z := range logits {
		sum += math.Exp(float64(z))
	}
	near := func(what string, token int32, got float32) {
		if want := float64(logits[token]) - math.Log(sum); math.Abs(want-float64(got)) > 1e-5 {
			t.Fatalf("%s of token %d: %v, want %v", what, token, got, want)
		}
	}
	last := len(s.logProbs) - 1
	near("log-prob", s.tokens[s.turn+last], s.logProbs[last])
	list := s.top[last]
	if len(list) != top || logits[list[0].Token] != slices.Max(logits) {
		t.Fatalf("top %d is %v", top, list)
	}
	for i, l := range list {
		near("top", l.Token, l.LogProb)
		if i > 0 && (l.LogProb > list[i-1].LogProb) {
			t.Fatalf("top is not in order: %v", list)
		}
		if l.Token == s.tokens[s.turn+last] && math.Float32bits(l.LogProb) != math.Float32bits(s.logProbs[last]) {
			t.Fatalf("the drawn token has %v in the list, %v beside it", l.LogProb, s.logProbs[last])
		}
	}
}

// TestNothingLeftToDraw says so, and leaves others alone.
func TestNothingLeftToDraw(t *testing.T) {
	e, _ := stubEngine(t, Config{Pages: 8, Seqs: 2, Rows: 64, Context: 100, Edits: 4, Allowed: 4})
	bad, err := e.Open(Request{Tokens: []int32{1}, Params: Params{MaxTokens: 3, Allowed: []int32{7}, Bias: map[int32]float32{7: float32(math.Inf(-1))}}})
	if err != nil {
		t.Fatal(err)
	}
	good, err := e.Open(Request{Tokens: []int32{1}, Params: Params{MaxTokens: 3, Allowed: []int32{7}}})
	if err != nil {
		t.Fatal(err)
	}
	if got := finishTurn(t, good); !slices.Equal(got.Tokens, []int32{7, 7, 7}) {
		t.Errorf("tokens %v, want 7 three times", got.Tokens)
	}
	if _, err := bad.Next(context.Background()); err == nil || !strings.Contains(err.Error(), "leave none that is possible") {
		t.Errorf("error %v, want one about tokens that are possible", err)
	}
	if st := e.Stats(); st.Running != 0 || st.Waiting != 0 {
		t.Errorf("%+v", st)
	}
}

// TestListsTakeWhatThePlanSays opens the largest lists that fit, refuses the next, and takes no memory later.
func TestListsTakeWhatThePlanSays(t *testing.T) {
	dev, w, _ := stub(t)
	counted := &countedDevice{Device: dev}
	cfg := Config{Pages: 4, Seqs: 3, Rows: 8, Context: 60, Edits: 20, Allowed: 3, Top: 2}
	e, err := newEngine(counted, w, cfg)
	if err != nil {
		t.Fatal(err)
	}
	plan := Plan(w.Config, w.Embed.DType, cfg)
	if want := plan.Pages + plan.Activations + plan.Logits + plan.Step; counted.bytes != want {
		t.Errorf("the engine took %d bytes, the plan says %d: %+v", counted.bytes, want, plan)
	}
	bytes := counted.bytes
	bias := func(n int) map[int32]float32 {
		m := make(map[int32]float32)
		for i := range n {
			m[int32(i)] = 1
		}
		return m
	}
	for _, c := range []struct {
		name string
		p    Params
		want string // of the error
	}{
		{"all the bias there is room for", Params{MaxTokens: 50, Bias: bias(20)}, ""},
		{"one more", Params{MaxTokens: 1, Bias: bias(21)}, "the logits of 21 tokens, the engine has room for 20"},
		{"presence counts the reply", Params{MaxTokens: 20, Presence: 1}, ""},
		{"a longer reply", Params{MaxTokens: 21, Presence: 1}, "the logits of 21 tokens"},
		{"and bias", Params{MaxTokens: 20, Frequency: 1, Bias: bias(1)}, "the logits of 21 tokens"},
		{"repetition counts the prompt", Params{MaxTokens: 15, Repetition: 2}, ""},
		{"a longer one", Params{MaxTokens: 16, Repetition: 2}, "the logits of 21 tokens"},
		{"more than the vocabulary needs no more than that", Params{MaxTokens: 50, Repetition: 2}, "the logits of 37 tokens"},
		{"repetition of 1 is none", Params{MaxTokens: 50, Repetition: 1}, ""},
		{"allowed", Params{MaxTokens: 2, Allowed: []int32{36, 1, 2}}, ""},
		{"too many allowed", Params{MaxTokens: 2, Allowed: []int32{1, 2, 3, 4}}, "4 tokens are allowed, the engine has room for a list of 3"},
		{"top", Params{MaxTokens: 2, Top: 2}, ""},
		{"too many", Params{MaxTokens: 2, Top: 3}, "top log-probs is 3, the engine has room for 2"},
		{"bias without a logit", Params{MaxTokens: 2, Bias: map[int32]float32{37: 1}}, "bias of token 37, want 0 to 36"},
		{"allowed without a logit", Params{MaxTokens: 2, Allowed: []int32{-1}}, "token -1 is allowed, want 0 to 36"},
	} {
		s, err := e.Open(Request{Tokens: []int32{1, 2, 3, 4, 38}, Params: c.p})
		if c.want != "" || err != nil {
			if c.want == "" || err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v, want %q", c.name, err, c.want)
			}
			continue
		}
		if got := finishTurn(t, s); len(got.Tokens) != c.p.MaxTokens {
			t.Errorf("%s: %d tokens", c.name, len(got.Tokens))
		}
		if err := s.Append(nil, 30); c.p.penalises() != (err != nil) && c.p.Bias == nil {
			t.Errorf("%s: a turn of 30 more: %v", c.name, err)
		}
		s.Close()
	}
	for e.sched.busy() {
		e.stepOnce(t)
	}
	if counted.bytes != bytes {
		t.Errorf("%d bytes were taken after the start", counted.bytes-bytes)
	}
}

// A countedDevice adds up what is taken from it.
type countedDevice struct {
	kernels.Device
	bytes int
}

func (c *countedDevice) Alloc(n int) (kernels.Ptr, error) {
	c.bytes += n
	return c.Device.Alloc(n)
}

func (c *countedDevice) Pinned(n int) (kernels.Ptr, []byte, error) {
	c.bytes += n
	return c.Device.Pinned(n)
}

// TestConfigForTakesWhatItIsMadeFor opens the longest requests of all kinds in an engine made for them.
func TestConfigForTakesWhatItIsMadeFor(t *testing.T) {
	for _, p := range []Params{
		{}, {Presence: 1}, {Repetition: 1.2, Bias: map[int32]float32{1: 1, 2: -1}}, {Bias: map[int32]float32{1: 1}}, {Allowed: []int32{3, 4, 5}, Top: 7},
	} {
		p.MaxTokens = 100
		e, _ := stubEngine(t, Config{Pages: 1, Seqs: 1, Rows: 8, Context: 20}.For(p))
		s, err := e.Open(Request{Tokens: []int32{1, 2, 3}, Params: p})
		if err != nil {
			t.Fatal(err)
		}
		if got := finishTurn(t, s); len(got.Tokens) != 17 {
			t.Errorf("%+v: %d tokens, want 17", p, len(got.Tokens))
		}
	}
}

// TestResumeComputesNoMoreThanIsLost preempts a sequence: what the tree still has of it is not computed again, and no
// token is counted twice.
func TestResumeComputesNoMoreThanIsLost(t *testing.T) {
	e, _ := stubEngine(t, Config{Pages: 8, Seqs: 2, Rows: 200, Context: 200})
	s, err := e.Open(Request{Tokens: make([]int32, 100), Seed: 1, Params: Params{MaxTokens: 10, Temperature: 1}})
	if err != nil {
		t.Fatal(err)
	}
	for range 5 {
		e.stepOnce(t)
	}
	e.sched.preempt(e.sched.running[0])
	got := finishTurn(t, s)
	if st := e.Stats(); len(got.Tokens) != 10 || st.Drawn != 10 || st.Preempted != 1 || st.Rows != 100+9 {
		t.Errorf("%d tokens; %+v, want 10 drawn and 109 rows", len(got.Tokens), st)
	}
}

// TestGroupHoldsItsPromptOnce opens four members on a prompt of two full pages and a part.
func TestGroupHoldsItsPromptOnce(t *testing.T) {
	e, _ := stubEngine(t, Config{Pages: 20, Seqs: 8, Rows: 300, Context: 250})
	req := Request{Tokens: make([]int32, 150), Params: Params{MaxTokens: 9, Temperature: 1}}
	group := make([]Request, 4)
	for i := range group {
		group[i] = req
		group[i].Seed = uint64(i)
	}
	sessions, err := e.OpenGroup(group)
	if err != nil {
		t.Fatal(err)
	}
	e.stepOnce(t)
	e.stepOnce(t)
	if st := e.Stats(); st.Rows != 150+4 || st.PagesUsed != 2+4 {
		t.Errorf("%+v, want 154 rows and 2 pages in common with one for each member", st)
	}
	for _, s := range sessions {
		finishTurn(t, s)
		s.Close()
	}
	if st := e.Stats(); st.PagesUsed != 0 || st.Drawn != 36 {
		t.Errorf("in the end %+v", st)
	}
	group[2].Tokens = nil
	if _, err := e.OpenGroup(group); err == nil || !strings.Contains(err.Error(), "open session 2 of 4: the prompt has no tokens") {
		t.Errorf("a group with a bad member: %v", err)
	}
	if st := e.Stats(); st.Waiting != 0 {
		t.Errorf("%d members wait", st.Waiting)
	}
}
