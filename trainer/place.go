package trainer

import (
	"errors"
	"fmt"
	"strings"

	"tandem/kernels"
	"tandem/model"
)

// Place plans a run for a machine: it chooses the layout where the recipe leaves that open, and as many pages of the cache as
// all sequences need, or as fit. A recipe that does not fit is refused with the largest settings that do. The choices change
// no bit of a run, but where the states lie may change its speed.
func Place(r Recipe, c model.Config, d kernels.DType, on Machine) (Plan, error) {
	if r.Teacher.Dir != "" {
		if _, err := r.Teacher.shape(c, r.Model.Context); err != nil {
			return Plan{}, fmt.Errorf("teacher: %w", err)
		}
	}
	if p, ok := place(r, c, d, on); ok {
		return p, nil
	}
	return Plan{}, refusal(r, c, d, on)
}

// place is the first plan that fits: with all pages in the layouts allowed, then with as many as fit in the last.
func place(r Recipe, c model.Config, d kernels.DType, on Machine) (Plan, bool) {
	layouts := []string{r.Train.Layout}
	if r.Train.Layout == layoutAuto {
		layouts = []string{layoutOverlap, layoutSerial}
	}
	for _, r.Train.Layout = range layouts {
		if p := NewPlan(r, c, d, on); p.fits() {
			return p.settled(), true
		}
	}
	if r.Rollout.Pages != 0 {
		return Plan{}, false
	}
	on = on.roomy()
	least, all := model.PagesFor(r.Model.Context), r.engineConfig(on.gpus()).Pages
	pages := largest(least, all, 1, func(n int) bool {
		r.Rollout.Pages = n
		return NewPlan(r, c, d, on).fits()
	})
	if pages == 0 {
		return Plan{}, false
	}
	r.Rollout.Pages = pages
	return NewPlan(r, c, d, on).settled(), true
}

// settled writes the number of pages into the plan's recipe.
func (p Plan) settled() Plan {
	p.Recipe.Rollout.Pages = p.Recipe.engineConfig(p.Machine.gpus()).Pages
	return p
}

// Chosen is a recipe with the choices of its plan.
func (p Plan) Chosen(r Recipe) Recipe {
	r.Train.Layout, r.Rollout.Pages = p.Recipe.Train.Layout, p.Recipe.Rollout.Pages
	return r
}

// largest is the largest of lo, lo+step, ... and hi for which ok holds, 0 if not even for lo; ok holds up to some number and
// not beyond.
func largest(lo, hi, step int, ok func(int) bool) int {
	if !ok(lo) {
		return 0
	}
	if ok(hi) {
		return hi
	}
	for hi-lo > step { // ok(lo), not ok(hi)
		mid := lo + max(1, (hi-lo)/2/step)*step
		if ok(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// A remedy is a way to need less memory.
type remedy struct {
	why    string
	lo, hi int // of its number, from what helps most to what the recipe says; 0, 0 for one without a number
	step   int
	set    func(r *Recipe, n int)
	text   func(r Recipe) string // the settings, as --set takes them
}

// remedies are those of a recipe, from what costs least to what changes the task.
func remedies(r Recipe, c model.Config, d kernels.DType, on Machine) []remedy {
	list := []remedy{}
	add := func(ok bool, m remedy) {
		if ok {
			list = append(list, m)
		}
	}
	cfg := r.engineConfig(on.gpus())
	aligned := model.AlignedRows(r.Model.Context)
	add(r.Train.Layout == layoutOverlap, remedy{why: "sampling and training share a region",
		set: func(r *Recipe, _ int) { r.Train.Layout = layoutSerial }, text: func(Recipe) string { return "--set train.layout=serial" }})
	add(r.Rollout.Pages != 0, remedy{why: "as many pages as fit",
		set: func(r *Recipe, _ int) { r.Rollout.Pages = 0 }, text: func(Recipe) string { return "--set rollout.pages=0" }})
	add(r.Train.Rows > aligned, remedy{why: "micro-batch", lo: aligned, hi: r.Train.Rows, step: 16,
		set: func(r *Recipe, n int) { r.Train.Rows = n }, text: func(r Recipe) string { return fmt.Sprintf("--set train.rows=%d", r.Train.Rows) }})
	add(cfg.Rows > 1, remedy{why: "rows of an engine step", lo: 1, hi: r.Rollout.Rows, step: 1,
		set: func(r *Recipe, n int) { r.Rollout.Rows = n }, text: func(r Recipe) string { return fmt.Sprintf("--set rollout.rows=%d", r.Rollout.Rows) }})
	add(cfg.Seqs > 1, remedy{why: "batch", lo: 1, hi: cfg.Seqs, step: 1,
		set: func(r *Recipe, n int) { r.Rollout.Batch = n }, text: func(r Recipe) string { return fmt.Sprintf("--set rollout.batch=%d", r.Rollout.Batch) }})
	add(r.States.Master != splitMaster && d == kernels.BF16, remedy{why: "masters as low halves, with the same results",
		set: func(r *Recipe, _ int) { r.States.Master = splitMaster }, text: func(Recipe) string { return "--set states.master=" + splitMaster }})
	add(on.Card != nil && !r.States.Offload, remedy{why: "offload",
		set: func(r *Recipe, _ int) { r.States.Offload = true }, text: func(Recipe) string { return "--set states.offload=true" }})
	add(true, sixteenBits(r, d))
	add(r.Model.Context > 32, remedy{why: "context", lo: max(32, r.Model.Context-r.Rollout.MaxTokens+1), hi: r.Model.Context, step: 1,
		set: func(r *Recipe, n int) {
			r.Rollout.MaxTokens = max(1, r.Rollout.MaxTokens-(r.Model.Context-n))
			r.Rollout.TurnTokens = min(r.Rollout.TurnTokens, r.Rollout.MaxTokens)
			r.Algorithm.OverlongCache = min(r.Algorithm.OverlongCache, r.Rollout.MaxTokens-1)
			r.Model.Context = n
		},
		text: func(r Recipe) string {
			s := fmt.Sprintf("--set model.context=%d --set rollout.max_tokens=%d", r.Model.Context, r.Rollout.MaxTokens)
			if r.Rollout.TurnTokens > 0 {
				s += fmt.Sprintf(" --set rollout.turn_tokens=%d", r.Rollout.TurnTokens)
			}
			if r.Algorithm.OverlongCache > 0 {
				s += fmt.Sprintf(" --set algorithm.overlong_cache=%d", r.Algorithm.OverlongCache)
			}
			return s
		}})
	return list
}

// sixteenBits is the remedy that changes results, a little.
func sixteenBits(r Recipe, d kernels.DType) remedy {
	smaller := r
	if d == kernels.BF16 {
		smaller.States.Master = splitMaster
	}
	for _, to := range []*string{&smaller.States.FirstMoment, &smaller.States.SecondMoment} {
		was := *to
		if *to = "bf16"; was == "float16" || smaller.checkStates() != nil {
			*to = was // as small already, or a mean that would stand still
		}
	}
	return remedy{why: "states of 16 bits; moments in bf16 change results a little",
		set: func(r *Recipe, _ int) {
			r.States = StatesConfig{smaller.States.Master, smaller.States.FirstMoment, smaller.States.SecondMoment, r.States.Offload}
		},
		text: func(r Recipe) string {
			s := r.States
			return fmt.Sprintf("--set states.master=%s --set states.first_moment=%s --set states.second_moment=%s", s.Master, s.FirstMoment, s.SecondMoment)
		}}
}

// refusal says what the recipe needs and what the largest settings are that fit: each alone where that is enough, and else
// together, in the order of remedies, none lower than it has to be.
func refusal(r Recipe, c model.Config, d kernels.DType, on Machine) error {
	smallest := r
	if r.Train.Layout == layoutAuto {
		smallest.Train.Layout = layoutSerial
	}
	if r.Rollout.Pages == 0 {
		smallest.Rollout.Pages = model.PagesFor(r.Model.Context)
	}
	p := NewPlan(smallest, c, d, on)
	var b strings.Builder
	fmt.Fprintf(&b, "the run needs %s of memory and %s are free", size(p.Total()), size(on.Free))
	if on.Host > 0 && p.HostTotal() > on.Host {
		fmt.Fprintf(&b, "; it needs %s of the host's and that has %s", size(p.HostTotal()), size(on.Host))
	}
	fmt.Fprintf(&b, "\n%v", p)
	on = on.roomy()
	fits := func(r Recipe) bool { _, ok := place(r, c, d, on); return ok }
	list := remedies(r, c, d, on)
	alone := 0
	for _, m := range list {
		try := r
		if !m.apply(&try, fits) {
			continue
		}
		if alone++; alone == 1 {
			b.WriteString("what fits, each by itself:\n")
		}
		fmt.Fprintf(&b, "  %-50s %s\n", m.text(try), m.why)
	}
	if alone > 0 {
		return errors.New(strings.TrimSuffix(b.String(), "\n"))
	}
	together := r
	used := list
	for i, m := range list {
		m.set(&together, m.lo)
		if fits(together) {
			used = list[:i+1]
			break
		}
	}
	if !fits(together) {
		fmt.Fprintf(&b, "nothing helps but a smaller model: with all that can be set lower it still needs %s", size(NewPlan(lowest(together, c), c, d, on).Total()))
		return errors.New(b.String())
	}
	b.WriteString("what fits:")
	for i, m := range used { // take back what the later ones made needless, as far as that goes
		if m.hi > 0 {
			n := largest(m.lo, m.hi, m.step, func(n int) bool {
				try := r
				for j, other := range used {
					switch {
					case j == i:
						other.set(&try, n)
					default:
						other.set(&try, other.lo)
					}
				}
				return fits(try)
			})
			used[i].lo = n
		}
	}
	together = r
	for _, m := range used {
		m.set(&together, m.lo)
	}
	for _, m := range used {
		fmt.Fprintf(&b, " %s", m.text(together))
	}
	return errors.New(b.String())
}

// apply sets the remedy as high as fits, if it is enough by itself.
func (m remedy) apply(r *Recipe, fits func(Recipe) bool) bool {
	at := func(n int) Recipe {
		try := *r
		m.set(&try, n)
		return try
	}
	if m.hi == 0 {
		m.set(r, 0)
		return fits(*r)
	}
	n := largest(m.lo, m.hi, m.step, func(n int) bool { return fits(at(n)) })
	*r = at(n)
	return n > 0
}

// lowest is a recipe with the fewest pages.
func lowest(r Recipe, c model.Config) Recipe {
	r.Rollout.Pages = model.PagesFor(r.Model.Context)
	if r.Train.Layout == layoutAuto {
		r.Train.Layout = layoutSerial
	}
	return r
}
