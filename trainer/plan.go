package trainer

import (
	"fmt"
	"strings"

	"tandem/engine"
	"tandem/kernels"
	"tandem/model"
)

// A Plan is the memory of a run, all of it taken before the first step.
type Plan struct {
	Items []PlanItem
	Free  int // bytes that the device has; 0 is not known
}

// A PlanItem is one arena.
type PlanItem struct {
	Name  string
	Bytes int
	What  string // what sizes it
}

// NewPlan sizes every arena of a run.
func NewPlan(r Recipe, c model.Config, d kernels.DType, free int) Plan {
	cfg := r.engineConfig()
	e := engine.Plan(c, d, cfg)
	l := passLimits(r.Train.Rows, r.Model.Context)
	n := model.ArenaLen(model.Params(c))
	p := Plan{Free: free, Items: []PlanItem{
		{"weights", model.WeightBytes(c, d, r.Model.Context), fmt.Sprintf("%d parameters, %v, one copy", model.Count(c), d)},
		{"gradients", 4 * model.GradientLen(c), "float32"},
		{"optimizer", r.States.bytes(n, d) + normBytes(n) + 4, r.States.String()},
		{"cache pages", e.Pages, fmt.Sprintf("%d pages of %d tokens", cfg.Pages, model.PageTokens)},
		{"sampling", e.Activations + e.Logits + e.Step, fmt.Sprintf("%d sequences, %d rows a step", cfg.Seqs, cfg.Rows)},
		{"training pages", passPages(l) * model.PageBytes(c, d), fmt.Sprintf("%d pages", passPages(l))},
		{"activations", model.ActivationBytes(c, d, l, true) + model.BatchBytes(l) + 3*4*l.Heads, fmt.Sprintf("micro-batches of %d rows", l.Rows)},
		{"transfers", 2 * kernels.TransferBytes, "between host and device"},
	}}
	if r.Algorithm.KL > 0 {
		p.Items = append(p.Items,
			PlanItem{"reference", n * d.Size(), "frozen weights, for the KL penalty"},
			PlanItem{"its pass", passPages(l)*model.PageBytes(c, d) + model.ActivationBytes(c, d, l, false) + model.BatchBytes(l) + 3*4*l.Heads, fmt.Sprintf("micro-batches of %d rows", l.Rows)})
	}
	p.Items = append(p.Items, planTeacher(r, c, d)...)
	return p
}

// Total is the sum of the arenas.
func (p Plan) Total() int {
	n := 0
	for _, i := range p.Items {
		n += i.Bytes
	}
	return n
}

// String is the plan as a table.
func (p Plan) String() string {
	var b strings.Builder
	for _, i := range p.Items {
		fmt.Fprintf(&b, "%-15s %10s  %s\n", i.Name, size(i.Bytes), i.What)
	}
	fmt.Fprintf(&b, "%-15s %10s", "total", size(p.Total()))
	if p.Free > 0 {
		fmt.Fprintf(&b, "  of %s free", size(p.Free))
	}
	b.WriteString("\n")
	return b.String()
}

func size(bytes int) string {
	switch {
	case bytes >= 1<<30:
		return fmt.Sprintf("%.2f GiB", float64(bytes)/(1<<30))
	case bytes >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20))
	}
	return fmt.Sprintf("%.1f KiB", float64(bytes)/(1<<10))
}

// Fit says that a recipe fits into the device's memory, or what is the largest setting of it that does.
func Fit(r Recipe, c model.Config, d kernels.DType, free int) error {
	if r.Teacher.Dir != "" {
		if _, err := r.Teacher.shape(c, r.Model.Context); err != nil {
			return fmt.Errorf("teacher: %w", err)
		}
	}
	total := func(r Recipe) int { return NewPlan(r, c, d, free).Total() }
	if total(r) <= free {
		return nil
	}
	fault := fmt.Errorf("the run needs %s of memory and %s are free\n%v", size(total(r)), size(free), NewPlan(r, c, d, free))
	smallest := r
	smallest.Train.Rows, smallest.Rollout.Batch, smallest.Rollout.Pages = r.Model.Context, 1, 0
	smallest.Rollout.Rows = 1
	if total(smallest) > free {
		return fmt.Errorf("%wnothing helps but a smaller model, a shorter model.context or bf16 moments: with one sequence at a time it still needs %s", fault, size(total(smallest)))
	}
	// The largest power-of-two share of micro-batch and batch, together, that fits.
	try, batch := r, r.engineConfig().Seqs
	for try.Rollout.Pages = 0; total(try) > free; {
		try.Train.Rows = max(r.Model.Context, try.Train.Rows/2)
		batch = max(1, batch/2)
		try.Rollout.Batch = batch
		try.Rollout.Rows = max(1, min(try.Rollout.Rows, try.Rollout.Rows/2))
	}
	return fmt.Errorf("%wwhat fits: --set train.rows=%d --set rollout.batch=%d --set rollout.rows=%d --set rollout.pages=0", fault, try.Train.Rows, try.Rollout.Batch, try.Rollout.Rows)
}
