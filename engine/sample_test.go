package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tandem/engine"
	"tandem/kernels"
	"tandem/model"
)

func newEngine(t testing.TB, cfg engine.Config) *engine.Engine {
	t.Helper()
	dev, w := tiny(t, kernels.BF16)
	e, err := engine.New(dev, w, cfg)
	if err != nil {
		t.Fatal(err)
	}
	e.CheckPages()
	t.Cleanup(e.Close)
	return e
}

func open(t testing.TB, e *engine.Engine, r engine.Request) *engine.Session {
	t.Helper()
	s, err := e.Open(r)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func next(t testing.TB, s *engine.Session) engine.Sample {
	t.Helper()
	got, err := s.Next(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func prompt(r *rand.Rand, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(r.IntN(95))
	}
	return out
}

// sameBits compares what a sample consists of.
func sameBits(a, b engine.Sample) bool {
	if !slices.Equal(a.Tokens, b.Tokens) || a.Stop != b.Stop || len(a.LogProbs) != len(b.LogProbs) {
		return false
	}
	for i := range a.LogProbs {
		if math.Float32bits(a.LogProbs[i]) != math.Float32bits(b.LogProbs[i]) {
			return false
		}
	}
	return true
}

// TestSampleDoesNotDependOnWhatSharesTheBatch draws requests alone in a roomy engine, then all at once in one that is short
// of pages, rows and places, with cancellations and shared prefixes in between.
func TestSampleDoesNotDependOnWhatSharesTheBatch(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	roomy := newEngine(t, engine.Config{Pages: 40, Seqs: 4, Rows: 300, Context: 300})
	tight := newEngine(t, engine.Config{Pages: 7, Seqs: 5, Rows: 17, Context: 300})

	common := prompt(r, 100)
	var requests []engine.Request
	for i := range 16 {
		var p []int32
		switch {
		case i%3 == 0:
			p = append(slices.Clone(common[:r.IntN(len(common))+1]), prompt(r, r.IntN(40))...)
		case i%3 == 1 && i > 3:
			p = requests[i-1].Tokens // the same prompt again
		default:
			p = prompt(r, 1+r.IntN(100))
		}
		requests = append(requests, engine.Request{Tokens: p, Seed: r.Uint64(), Params: engine.Params{
			MaxTokens: 60 + r.IntN(130), Temperature: []float32{0, 0.5, 1, 2}[r.IntN(4)], TopK: r.IntN(3) * 5, TopP: 0.5 + 0.5*r.Float32(),
		}})
	}
	var alone []engine.Sample
	for _, q := range requests {
		s := open(t, roomy, q)
		alone = append(alone, next(t, s))
		s.Close()
		roomy.WeightsChanged() // nothing is found in the cache
	}
	var sessions []*engine.Session
	for _, q := range requests {
		sessions = append(sessions, open(t, tight, q))
		if r.IntN(3) == 0 { // somebody who leaves again
			gone := open(t, tight, engine.Request{Tokens: q.Tokens, Params: engine.Params{MaxTokens: 90, Temperature: 1}})
			if r.IntN(2) == 0 {
				time.Sleep(time.Duration(r.IntN(3)) * time.Millisecond)
			}
			gone.Close()
		}
	}
	for i, s := range sessions {
		if got := next(t, s); !sameBits(got, alone[i]) {
			t.Errorf("request %d: alone %v %v, in company %v %v", i, alone[i].Tokens, alone[i].Stop, got.Tokens, got.Stop)
		}
		s.Close()
	}
	st := tight.Stats()
	if st.Preempted == 0 || st.Cached == 0 {
		t.Errorf("nothing was preempted or shared: %+v", st)
	}
	if st.PagesUsed != 0 {
		t.Errorf("%d pages are in use when all sessions are closed", st.PagesUsed)
	}
}

func TestTurnsEqualOneLongPrompt(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	e := newEngine(t, engine.Config{Pages: 12, Seqs: 4, Rows: 40, Context: 400})
	p := prompt(r, 70)
	params := engine.Params{MaxTokens: 20, Temperature: 1}
	s := open(t, e, engine.Request{Tokens: p, Seed: 5, Params: params})
	defer s.Close()
	tokens := slices.Clone(p)
	for turn := range 4 {
		got := next(t, s)
		fresh := newEngine(t, engine.Config{Pages: 12, Seqs: 1, Rows: 400, Context: 400})
		again := open(t, fresh, engine.Request{Tokens: tokens, Seed: 5, Params: params})
		if want := next(t, again); !sameBits(got, want) {
			t.Fatalf("turn %d: %v in the session, %v from scratch", turn, got.Tokens, want.Tokens)
		}
		if turn > 0 && turn < 3 && got.Cached < len(p) {
			t.Errorf("turn %d: %d tokens were found computed, want at least the %d of the prompt", turn, got.Cached, len(p))
		}
		reply := prompt(r, 1+r.IntN(30))
		tokens = append(append(tokens, got.Tokens...), reply...)
		if turn == 2 { // others need the pages meanwhile
			for i := range 6 {
				o := open(t, e, engine.Request{Tokens: prompt(r, 300), Seed: uint64(i), Params: engine.Params{MaxTokens: 50, Temperature: 1}})
				next(t, o)
				o.Close()
			}
		}
		if err := s.Append(reply, params.MaxTokens); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGroupSharesItsPrompt(t *testing.T) {
	e := newEngine(t, engine.Config{Pages: 30, Seqs: 8, Rows: 500, Context: 400})
	p := prompt(rand.New(rand.NewPCG(1, 1)), 150) // two full pages and a part
	var sessions []*engine.Session
	for g := range 4 {
		sessions = append(sessions, open(t, e, engine.Request{Tokens: p, Seed: uint64(g), Params: engine.Params{MaxTokens: 30, Temperature: 1}}))
	}
	for _, s := range sessions {
		next(t, s)
		s.Close()
	}
	st := e.Stats()
	if limit := len(p) + 4*30; st.Rows > limit+len(p) { // at worst the first arrives alone in a step, before the others
		t.Errorf("%d rows were computed for a prompt of %d and 4 replies of 30", st.Rows, len(p))
	}
	if st.Cached < 2*len(p) {
		t.Errorf("%d prompt tokens were shared, want those of at least two members", st.Cached)
	}
}

func TestWholePromptCachedStillRunsOneToken(t *testing.T) {
	e := newEngine(t, engine.Config{Pages: 12, Seqs: 2, Rows: 200, Context: 300})
	p := prompt(rand.New(rand.NewPCG(1, 2)), 128) // a multiple of the page
	q := engine.Request{Tokens: p, Seed: 3, Params: engine.Params{MaxTokens: 10, Temperature: 1}}
	first := open(t, e, q)
	a := next(t, first)
	second := open(t, e, q)
	b := next(t, second)
	if !sameBits(a, b) {
		t.Errorf("%v, and with the prompt in the cache %v", a.Tokens, b.Tokens)
	}
	if b.Cached != len(p)-1 {
		t.Errorf("%d prompt tokens were cached, want all but one of %d", b.Cached, len(p))
	}
	e.WeightsChanged()
	third := open(t, e, q)
	if c := next(t, third); c.Cached != 0 || !sameBits(a, c) {
		t.Errorf("after WeightsChanged %d tokens were cached, tokens %v", c.Cached, c.Tokens)
	}
}

func TestStops(t *testing.T) {
	e := newEngine(t, engine.Config{Pages: 12, Seqs: 2, Rows: 200, Context: 40})
	p := prompt(rand.New(rand.NewPCG(1, 3)), 8)
	sample := func(params engine.Params, until func([]int32) bool) engine.Sample {
		params.Temperature = 1
		s := open(t, e, engine.Request{Tokens: p, Seed: 9, Params: params, Until: until})
		defer s.Close()
		return next(t, s)
	}
	free := sample(engine.Params{MaxTokens: 20}, nil)
	if len(free.Tokens) != 20 || free.Stop != engine.StopLength {
		t.Fatalf("%d tokens, %q", len(free.Tokens), free.Stop)
	}
	fifth := free.Tokens[4]
	at := slices.Index(free.Tokens, fifth)
	for _, tt := range []struct {
		name   string
		params engine.Params
		until  func([]int32) bool
		n      int
		stop   engine.StopReason
	}{
		{"stop token", engine.Params{MaxTokens: 20, Stop: []int32{fifth}}, nil, at + 1, engine.StopToken},
		{"stop token on the last allowed place", engine.Params{MaxTokens: at + 1, Stop: []int32{fifth}}, nil, at + 1, engine.StopToken},
		{"one token less", engine.Params{MaxTokens: 3}, nil, 3, engine.StopLength},
		{"until", engine.Params{MaxTokens: 20}, func(turn []int32) bool { return len(turn) == 7 }, 7, engine.StopUntil},
		{"the context ends", engine.Params{MaxTokens: 1000}, nil, 32, engine.StopLength},
	} {
		got := sample(tt.params, tt.until)
		if len(got.Tokens) != tt.n || got.Stop != tt.stop {
			t.Errorf("%s: %d tokens, %q, want %d, %q", tt.name, len(got.Tokens), got.Stop, tt.n, tt.stop)
		}
		if k := min(tt.n, len(free.Tokens)); !slices.Equal(got.Tokens[:k], free.Tokens[:k]) {
			t.Errorf("%s: tokens %v, want the beginning of %v", tt.name, got.Tokens, free.Tokens)
		}
	}
}

func TestCancelInAnyState(t *testing.T) {
	e := newEngine(t, engine.Config{Pages: 7, Seqs: 2, Rows: 20, Context: 400})
	r := rand.New(rand.NewPCG(rand.Uint64(), 0))
	var sessions []*engine.Session
	for i := range 12 {
		sessions = append(sessions, open(t, e, engine.Request{Tokens: prompt(r, 100+i), Params: engine.Params{MaxTokens: 200, Temperature: 1}}))
	}
	for _, i := range r.Perm(len(sessions)) {
		time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond)
		sessions[i].Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
	defer cancel()
	s := open(t, e, engine.Request{Tokens: prompt(r, 50), Params: engine.Params{MaxTokens: 340, Temperature: 1}})
	if _, err := s.Next(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Next after its deadline: %v", err)
	}
	// A last request sees the cancellations through.
	next(t, open(t, e, engine.Request{Tokens: []int32{1}, Params: engine.Params{MaxTokens: 2, Temperature: 1}}))
	if st := e.Stats(); st.PagesUsed != 0 || st.Running != 0 || st.Waiting != 0 {
		t.Errorf("after all is cancelled: %+v", st)
	}
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	e := newEngine(t, engine.Config{Pages: 8, Seqs: 2, Rows: 20, Context: 100})
	ok := engine.Params{MaxTokens: 5, Temperature: 1}
	with := func(f func(*engine.Params)) engine.Params {
		p := ok
		f(&p)
		return p
	}
	nan := float32(math.NaN())
	for _, tt := range []struct {
		name   string
		tokens []int32
		params engine.Params
		want   string
	}{
		{"no prompt", nil, ok, "no tokens"},
		{"prompt as long as the context", make([]int32, 100), ok, "leave no room"},
		{"token out of range", []int32{1, 97}, ok, "token 1 of the prompt is 97"},
		{"negative token", []int32{-1}, ok, "token 0 of the prompt is -1"},
		{"max tokens 0", []int32{1}, with(func(p *engine.Params) { p.MaxTokens = 0 }), "max tokens"},
		{"temperature NaN", []int32{1}, with(func(p *engine.Params) { p.Temperature = nan }), "temperature"},
		{"temperature negative", []int32{1}, with(func(p *engine.Params) { p.Temperature = -1 }), "temperature"},
		{"top-p", []int32{1}, with(func(p *engine.Params) { p.TopP = 1.5 }), "top-p"},
		{"min-p", []int32{1}, with(func(p *engine.Params) { p.MinP = nan }), "min-p"},
		{"top-k", []int32{1}, with(func(p *engine.Params) { p.TopK = -2 }), "top-k"},
		{"repetition", []int32{1}, with(func(p *engine.Params) { p.Repetition = -1 }), "repetition penalty is -1, want 0.01 to 100"},
		{"repetition NaN", []int32{1}, with(func(p *engine.Params) { p.Repetition = nan }), "repetition penalty"},
		{"frequency", []int32{1}, with(func(p *engine.Params) { p.Frequency = nan }), "frequency penalty"},
		{"presence", []int32{1}, with(func(p *engine.Params) { p.Presence = 101 }), "presence penalty is 101, want -100 to 100"},
		{"bias", []int32{1}, with(func(p *engine.Params) { p.Bias = map[int32]float32{3: nan} }), "bias of token 3 is NaN"},
		{"bias +Inf", []int32{1}, with(func(p *engine.Params) { p.Bias = map[int32]float32{3: float32(math.Inf(1))} }), "bias of token 3 is +Inf"},
		{"nothing allowed", []int32{1}, with(func(p *engine.Params) { p.Allowed = []int32{} }), "allowed tokens is empty"},
		{"top", []int32{1}, with(func(p *engine.Params) { p.Top = -1 }), "top log-probs is -1"},
		{"no room for penalties", []int32{1}, with(func(p *engine.Params) { p.Presence = 1 }), "the engine has room for 0 (Config.Edits)"},
	} {
		if _, err := e.Open(engine.Request{Tokens: tt.tokens, Params: tt.params}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	dev, w := tiny(t, kernels.F32)
	for _, cfg := range []engine.Config{{}, {Pages: 1, Seqs: 1, Rows: 1, Context: 100}, {Pages: 9, Seqs: 4, Rows: 3, Context: 100}, {Pages: 100, Seqs: 1, Rows: 8, Context: 1000}, {Pages: 9, Seqs: 4, Rows: 8, Context: 100, Top: -1}} {
		if e, err := engine.New(dev, w, cfg); err == nil {
			e.Close()
			t.Errorf("config %+v was accepted", cfg)
		}
	}
}

// TestNaNWeightsFailTheirSession says what is wrong instead of sampling nonsense, and the engine goes on.
func TestNaNWeightsFailTheirSession(t *testing.T) {
	dev, w := tiny(t, kernels.F32)
	x, err := kernels.NewTransfer(dev)
	if err != nil {
		t.Fatal(err)
	}
	if err := x.Put(w.Embed, 5*w.Config.Hidden, []float32{float32(math.NaN())}); err != nil { // token 5
		t.Fatal(err)
	}
	w.Head = w.Head.Rows(0, 5) // the other tokens' logits stay numbers
	e, err := engine.New(dev, w, engine.Config{Pages: 8, Seqs: 2, Rows: 20, Context: 100})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	bad := open(t, e, engine.Request{Tokens: []int32{1, 5}, Params: engine.Params{MaxTokens: 5, Temperature: 1}})
	good := open(t, e, engine.Request{Tokens: []int32{1, 2}, Params: engine.Params{MaxTokens: 5, Temperature: 1}})
	if _, err := bad.Next(context.Background()); err == nil || !strings.Contains(err.Error(), "not numbers") {
		t.Errorf("error %v, want one about logits that are not numbers", err)
	}
	if got := next(t, good); len(got.Tokens) != 5 {
		t.Errorf("the other session got %d tokens, want 5", len(got.Tokens))
	}
}

func TestSessionMisuse(t *testing.T) {
	e := newEngine(t, engine.Config{Pages: 8, Seqs: 2, Rows: 20, Context: 100})
	s := open(t, e, engine.Request{Tokens: []int32{1}, Params: engine.Params{MaxTokens: 5, Temperature: 1}})
	if err := s.Append([]int32{1}, 5); err == nil {
		t.Error("Append before Next was accepted")
	}
	next(t, s)
	if _, err := s.Next(context.Background()); err == nil {
		t.Error("Next without Append was accepted")
	}
	if err := s.Append(make([]int32, 94), 5); err == nil || !strings.Contains(err.Error(), "leave no room") {
		t.Errorf("Append beyond the context: %v", err)
	}
	if err := s.Append([]int32{2}, 5); err != nil {
		t.Errorf("Append after one that was refused: %v", err)
	}
	s.Close()
	s.Close()
	if _, err := s.Next(context.Background()); err == nil {
		t.Error("Next after Close was accepted")
	}
	e.Close()
	if _, err := e.Open(engine.Request{Tokens: []int32{1}, Params: engine.Params{MaxTokens: 5}}); err == nil {
		t.Error("Open after the engine's Close was accepted")
	}
}

func TestCloseEndsTurns(t *testing.T) {
	dev, w := tiny(t, kernels.BF16)
	e, err := engine.New(dev, w, engine.Config{Pages: 16, Seqs: 4, Rows: 20, Context: 500})
	if err != nil {
		t.Fatal(err)
	}
	var sessions []*engine.Session
	for range 6 {
		sessions = append(sessions, open(t, e, engine.Request{Tokens: []int32{1}, Params: engine.Params{MaxTokens: 490, Temperature: 1}}))
	}
	e.Close()
	for _, s := range sessions {
		if _, err := s.Next(context.Background()); err == nil || !strings.Contains(err.Error(), "closed") {
			t.Errorf("turn of a closed engine: %v", err)
		}
		s.Close()
	}
}

// TestTwoThatNeedNearlyAllPages is a pair each of which needs most of the cache: they take turns and neither waits for
// ever.
func TestTwoThatNeedNearlyAllPages(t *testing.T) {
	roomy := newEngine(t, engine.Config{Pages: 40, Seqs: 2, Rows: 300, Context: 510})
	tight := newEngine(t, engine.Config{Pages: 10, Seqs: 2, Rows: 300, Context: 510})
	var got [2][2]engine.Sample
	for k, e := range []*engine.Engine{roomy, tight} {
		var sessions [2]*engine.Session
		for i := range sessions {
			sessions[i] = open(t, e, engine.Request{Tokens: prompt(rand.New(rand.NewPCG(uint64(i), 1)), 200), Params: engine.Params{MaxTokens: 250}})
		}
		for i, s := range sessions {
			got[k][i] = next(t, s)
			s.Close()
		}
	}
	if diff := cmp.Diff(got[0], got[1], cmp.FilterPath(func(p cmp.Path) bool { return p.String() == "Cached" }, cmp.Ignore())); diff != "" {
		t.Error(diff)
	}
	if st := tight.Stats(); st.Preempted == 0 {
		t.Errorf("nothing was preempted: %+v", st)
	}
}

func ExampleEngine() {
	dev, err := kernels.NewCPU(kernels.CPUConfig{})
	if err != nil {
		panic(err)
	}
	defer dev.Close()
	w, err := exampleWeights(dev)
	if err != nil {
		panic(err)
	}
	e, err := engine.New(dev, w, engine.Config{Pages: 16, Seqs: 4, Rows: 64, Context: 256})
	if err != nil {
		panic(err)
	}
	defer e.Close()
	s, err := e.Open(engine.Request{Tokens: []int32{1, 2, 3}, Seed: 1, Params: engine.Params{MaxTokens: 8, Temperature: 1}})
	if err != nil {
		panic(err)
	}
	defer s.Close()
	sample, err := s.Next(context.Background())
	if err != nil {
		panic(err)
	}
	fmt.Println(len(sample.Tokens), len(sample.LogProbs), sample.Stop)
	// Output: 8 8 length
}

// TestOnePageIsEnough opens a prompt whose first tokens lie on the only page there is.
func TestOnePageIsEnough(t *testing.T) {
	dev, w := tiny(t, kernels.BF16)
	e, err := engine.New(dev, w, engine.Config{Pages: 1, Seqs: 1, Rows: 64, Context: model.PageTokens})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, last := range []int32{3, 4} {
		s, err := e.Open(engine.Request{Tokens: []int32{1, 2, last}, Params: engine.Params{MaxTokens: 2, Temperature: 1}})
		if err != nil {
			t.Fatal(err)
		}
		if sample, err := s.Next(context.Background()); err != nil || len(sample.Tokens) != 2 {
			t.Errorf("prompt that ends in %d: %+v, %v", last, sample, err)
		}
		s.Close()
	}
}
