package engine

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"tandem/kernels"
	"tandem/model"
)

// stub is the smallest model that is one: a layer, and 37 of 40 tokens.
func stub(t *testing.T) (kernels.Device, *model.Weights, *kernels.Transfer) {
	t.Helper()
	dev, err := kernels.NewCPU(kernels.CPUConfig{Workers: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	c, err := model.Shape("tiny")
	if err != nil {
		t.Fatal(err)
	}
	c.Vocab, c.Live, c.Hidden, c.Layers, c.Heads, c.KVHeads, c.HeadDim, c.MLP, c.MaxPositions, c.InitRange = 40, 37, 16, 1, 2, 1, 16, 16, 512, 0.5
	w, err := model.NewWeights(dev, c, kernels.F32, 512)
	if err != nil {
		t.Fatal(err)
	}
	x, err := kernels.NewTransfer(dev)
	if err != nil {
		t.Fatal(err)
	}
	return dev, w, x
}

// A script is a request, and what follows each of its turns.
type script struct {
	request Request
	replies []reply
}

type reply struct {
	tokens    []int32
	maxTokens int
}

// A player is a session that follows a script.
type player struct {
	script  *script
	session *Session
	turn    int
	done    int  // tokens of the turn that a Stop gave already
	limited bool // has a deadline
	active  bool
}

// A game is random operations on a crowded engine. It steps the engine itself, so that its seed says all.
type game struct {
	t        *testing.T
	r        *rand.Rand
	crowded  *Engine
	roomy    *Engine // where samples are drawn alone, from an empty cache
	scripts  []*script
	players  []*player
	alone    map[*script][]Sample
	weights  func(version uint64) error
	clock    time.Time
	compared int
	early    int // turns that were ended before their end
}

const gameContext = 200

func newGame(t *testing.T, seed uint64, scripts int) *game {
	t.Helper()
	dev, w, x := stub(t)
	g := &game{t: t, r: rand.New(rand.NewPCG(seed, 0)), alone: make(map[*script][]Sample), clock: time.Unix(0, 0)}
	g.weights = func(version uint64) error { return model.Random(x, w, version) }
	lists := Config{Context: gameContext, Edits: 37, Allowed: 8, Top: 5}
	crowded, roomy := lists, lists
	crowded.Pages, crowded.Seqs, crowded.Rows = 9, 5, 23
	roomy.Pages, roomy.Seqs, roomy.Rows = 4, 1, gameContext
	for e, cfg := range map[**Engine]Config{&g.crowded: crowded, &g.roomy: roomy} {
		var err error
		if *e, err = newEngine(dev, w, cfg); err != nil {
			t.Fatal(err)
		}
		(*e).now = func() time.Time { return g.clock }
	}
	if err := g.weights(0); err != nil {
		t.Fatal(err)
	}
	common := g.tokens(180)
	for range scripts {
		g.scripts = append(g.scripts, g.script(common))
	}
	return g
}

// tokens are random, also such as have no logit.
func (g *game) tokens(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(g.r.IntN(40))
	}
	return out
}

// one is x one time in n, otherwise the zero value.
func one[T any](r *rand.Rand, n int, x T) T {
	var zero T
	if r.IntN(n) == 0 {
		return x
	}
	return zero
}

func (g *game) script(common []int32) *script {
	r := g.r
	prompt := g.tokens(1 + r.IntN(90))
	switch r.IntN(3) {
	case 0:
		prompt = slices.Clone(common[:1+r.IntN(len(common)-1)])
	case 1:
		prompt = append(slices.Clone(common[:1+r.IntN(130)]), g.tokens(r.IntN(30))...)
	}
	s := &script{request: Request{Tokens: prompt, Seed: r.Uint64(), Params: g.params()}}
	if r.IntN(6) == 0 {
		n := 1 + r.IntN(20)
		s.request.Until = func(turn []int32) bool { return len(turn) >= n || turn[len(turn)-1] == int32(n) }
	}
	for range r.IntN(3) {
		s.replies = append(s.replies, reply{g.tokens(r.IntN(20)), 1 + r.IntN(10)})
	}
	return s
}

func (g *game) params() Params {
	r := g.r
	p := Params{
		MaxTokens: 1 + r.IntN(12), Temperature: []float32{0, 0.6, 1, 1, 3}[r.IntN(5)], TopK: one(r, 3, 1+r.IntN(20)), TopP: one(r, 3, r.Float32()),
		MinP: one(r, 4, r.Float32()), Stop: one(r, 2, g.live(2)),
		Repetition: one(r, 3, 0.5+r.Float32()), Frequency: one(r, 3, 2*r.Float32()-1), Presence: one(r, 3, 2*r.Float32()-1),
		Allowed: one(r, 4, g.live(8)), Top: r.IntN(6),
	}
	if r.IntN(5) == 0 {
		p.MaxTokens = 60 + r.IntN(100)
	}
	if r.IntN(3) == 0 {
		p.Bias = make(map[int32]float32)
		for _, id := range g.live(4) {
			p.Bias[id] = float32(r.NormFloat64())
		}
		if len(p.Allowed) == 0 {
			p.Bias[g.live(1)[0]] = float32(math.Inf(-1))
		}
	}
	return p
}

func (g *game) live(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(g.r.IntN(37))
	}
	return out
}

// step runs one step of an engine.
func (g *game) step(e *Engine) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.sched.busy() {
		return
	}
	if err := e.turn(); err != nil {
		g.t.Fatal(err)
	}
}

// want is what a turn of a script gives alone.
func (g *game) want(s *script, turn int) Sample {
	for len(g.alone[s]) <= turn {
		req := s.request
		req.Tokens = slices.Clone(req.Tokens)
		for i, sample := range g.alone[s] {
			req.Tokens = append(append(req.Tokens, sample.Tokens...), s.replies[i].tokens...)
			req.Params.MaxTokens = s.replies[i].maxTokens
		}
		g.roomy.WeightsChanged()
		session, err := g.roomy.Open(req)
		if err != nil {
			g.t.Fatal(err)
		}
		for len(session.turns) == 0 {
			g.step(g.roomy)
		}
		sample, err := session.Next(context.Background())
		if err != nil {
			g.t.Fatal(err)
		}
		session.Close()
		g.alone[s] = append(g.alone[s], sample)
	}
	return g.alone[s][turn]
}

// open lets one script begin, or a group on one prompt.
func (g *game) open() {
	s := g.scripts[g.r.IntN(len(g.scripts))]
	group := []*script{s}
	if g.r.IntN(3) == 0 {
		for range 1 + g.r.IntN(3) {
			group = append(group, s)
		}
	}
	var requests []Request
	deadline := one(g.r, 8, g.clock.Add(time.Duration(g.r.IntN(60))))
	for _, s := range group {
		req := s.request
		req.Deadline = deadline
		requests = append(requests, req)
	}
	sessions, err := g.crowded.OpenGroup(requests)
	if err != nil {
		g.t.Fatal(err)
	}
	for i, s := range sessions {
		g.players = append(g.players, &player{script: group[i], session: s, limited: !deadline.IsZero(), active: true})
	}
}

// next takes the end of a turn, compares it, and goes on with the script.
func (g *game) next(p *player) {
	got, err := p.session.Next(context.Background())
	if err != nil {
		g.t.Fatal(err)
	}
	p.active = false
	g.compared++
	want := g.want(p.script, p.turn)
	rest := Sample{Tokens: want.Tokens[p.done:], LogProbs: want.LogProbs[p.done:], Stop: want.Stop}
	if len(want.Top) > 0 {
		rest.Top = want.Top[p.done:]
	}
	early := got.Stop == StopCancelled || got.Stop == StopDeadline && p.limited
	if early {
		n := len(got.Tokens)
		if n > len(rest.Tokens) {
			g.t.Fatalf("turn %d gave %d tokens before it was ended, alone it has %d", p.turn, n, len(rest.Tokens))
		}
		rest.Tokens, rest.LogProbs, rest.Stop = rest.Tokens[:n], rest.LogProbs[:n], got.Stop
		rest.Top = rest.Top[:min(n, len(rest.Top))]
		p.done += n
		g.early++
	}
	if err := differs(got, rest); err != nil {
		g.t.Fatalf("turn %d from token %d of %+v: %v", p.turn, p.done, p.script.request, err)
	}
	switch q := &p.script.request; {
	case early && got.Stop == StopCancelled && q.Until == nil && q.Params.Frequency == 0 && q.Params.Presence == 0 && p.done < len(want.Tokens):
		// Nothing but what is looked at from the turn's beginning tells the rest from a turn of its own.
		limit := q.Params.MaxTokens
		if p.turn > 0 {
			limit = p.script.replies[p.turn-1].maxTokens
		}
		g.more(p, nil, limit-p.done)
	case early || p.turn == len(p.script.replies) || p.session.Len()+len(p.script.replies[p.turn].tokens) >= gameContext:
		g.leave(p)
	default:
		r := p.script.replies[p.turn]
		p.turn, p.done = p.turn+1, 0
		g.more(p, r.tokens, r.maxTokens)
	}
}

func (g *game) more(p *player, tokens []int32, maxTokens int) {
	if err := p.session.Append(tokens, maxTokens); err != nil {
		g.t.Fatal(err)
	}
	p.active = true
}

func (g *game) leave(p *player) {
	p.session.Close()
	g.players = slices.DeleteFunc(g.players, func(q *player) bool { return q == p })
}

// differs says how two samples do, in bits.
func differs(got, want Sample) error {
	if !slices.Equal(got.Tokens, want.Tokens) || got.Stop != want.Stop {
		return fmt.Errorf("%v %v, want %v %v", got.Tokens, got.Stop, want.Tokens, want.Stop)
	}
	if len(got.LogProbs) != len(want.LogProbs) || len(got.Top) != len(want.Top) {
		return fmt.Errorf("%d log-probs and %d lists, want %d and %d", len(got.LogProbs), len(got.Top), len(want.LogProbs), len(want.Top))
	}
	for i, lp := range got.LogProbs {
		if math.Float32bits(lp) != math.Float32bits(want.LogProbs[i]) {
			return fmt.Errorf("token %d: log-prob %v, want %v", i, lp, want.LogProbs[i])
		}
	}
	for i, top := range got.Top {
		if !slices.Equal(top, want.Top[i]) {
			return fmt.Errorf("token %d: top %v, want %v", i, top, want.Top[i])
		}
	}
	return nil
}

// play makes n random operations, and compares the books after each.
func (g *game) play(n int) {
	version := uint64(0)
	for i := range n {
		g.clock = g.clock.Add(1)
		g.operation()
		if i%10_000 == 9_999 { // other weights, which nobody may have seen before
			for len(g.players) > 0 {
				g.leave(g.players[0])
			}
			version++
			if err := g.weights(version); err != nil {
				g.t.Fatal(err)
			}
			g.crowded.WeightsChanged()
			clear(g.alone)
		}
		if err := g.crowded.sched.check(); err != nil {
			g.t.Fatalf("operation %d: %v", i, err)
		}
	}
}

func (g *game) operation() {
	r := g.r
	var p *player
	if len(g.players) > 0 {
		p = g.players[r.IntN(len(g.players))]
	}
	sc := &g.crowded.sched
	switch k := r.IntN(100); {
	case p == nil || k < 15 && len(g.players) < 16:
		g.open()
	case k < 60:
		g.step(g.crowded)
	case k < 90:
		if p.active && len(p.session.turns) > 0 {
			g.next(p)
		} else {
			g.step(g.crowded)
		}
	case k < 92:
		g.leave(p)
	case k < 94:
		p.session.Stop()
	case k < 98:
		if len(sc.running) > 0 {
			sc.preempt(sc.running[r.IntN(len(sc.running))])
		}
	case r.IntN(4) == 0:
		g.crowded.WeightsChanged() // though they are the same
	}
}

// TestRandomOperations plays on an engine that is short of pages, rows and places, and asks that no page is lost and no
// sample changed: what a turn gives is what it gives alone, whatever else goes on.
func TestRandomOperations(t *testing.T) {
	operations, scripts := 100_000, 100
	if os.Getenv("TANDEM_LONG") != "" {
		operations, scripts = 1_000_000, 1000
	} else if testing.Short() {
		operations = 5_000
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	g := newGame(t, seed, scripts)
	g.play(operations)
	for len(g.players) > 0 {
		g.leave(g.players[0])
	}
	g.crowded.WeightsChanged()
	st := g.crowded.Stats()
	if st.PagesUsed != 0 || len(g.crowded.sched.pages.free) != g.crowded.cfg.Pages || st.Running != 0 || st.Waiting != 0 || len(g.crowded.sched.resting) != 0 {
		t.Errorf("when all have left: %+v", st)
	}
	if st.Preempted == 0 || st.Cached == 0 || g.early == 0 || g.compared < operations/20 {
		t.Errorf("%d turns compared, %d ended early: %+v", g.compared, g.early, st)
	}
	t.Logf("%d operations: %d turns compared, %d ended early; %+v", operations, g.compared, g.early, st)
}
