package trainer

import (
	"fmt"
	"strings"

	"tandem/engine"
	"tandem/kernels"
	"tandem/model"
)

// A Plan is the memory of a run, all of it taken before the first step, on each of a machine's devices alike.
type Plan struct {
	Recipe  Recipe // with the layout, and the pages of the cache, that were chosen
	Model   model.Config
	DType   kernels.DType
	Machine Machine

	teacher *model.Config // nil without one

	Items []PlanItem // on each device
	Host  []PlanItem // in the host's memory, for all devices; with the CPU device there is no other memory
}

// A PlanItem is one arena.
type PlanItem struct {
	Name  string
	Bytes int
	What  string // what sizes it
	Phase phase
}

// A phase is when an arena is in use. In the serial layout the arenas of each phase begin at the same address.
type phase int

const (
	always phase = iota
	sampled
	trained
	referred
	taught
	reserved // by others than the run: not taken from the device
)

// NewPlan sizes every arena of a run on a machine, by a recipe whose layout and pages are taken as they are: "auto" is
// overlap, and 0 pages are what all sequences need. Place chooses them.
func NewPlan(r Recipe, c model.Config, d kernels.DType, on Machine) Plan {
	if r.Train.Layout == layoutAuto {
		r.Train.Layout = layoutOverlap
	}
	p := Plan{Recipe: r, Model: c, DType: d, Machine: on}
	cfg, l, n := r.engineConfig(on.gpus()), passLimits(r.Train.Rows, r.Model.Context), model.ArenaLen(model.Params(c))
	e := engine.Plan(c, d, cfg)
	meta := e.Step + passMeta(l) + 4
	p.add("weights", model.WeightBytes(c, d, r.Model.Context), always, "%d parameters, %v, one copy", model.Count(c), d)
	p.add("gradients", shared(r, gradientBytes(c)), trained, "float32, summed over the step")
	p.addStates(n)
	p.add("cache pages", shared(r, e.Pages), sampled, "%d pages of %d tokens: %.4g of %d sequences of %d tokens at a time",
		cfg.Pages, model.PageTokens, float64(cfg.Pages)/float64(model.PagesFor(cfg.Context)), cfg.Seqs, cfg.Context)
	p.add("sampling", shared(r, e.Activations)+shared(r, e.Logits), sampled, "%d sequences, %d rows a step", cfg.Seqs, cfg.Rows)
	p.add("training pages", shared(r, passPages(l)*model.PageBytes(c, d)), trained, "%d pages", passPages(l))
	p.add("activations", shared(r, model.ActivationBytes(c, d, l, true)), trained, "micro-batches of %d rows", l.Rows)
	if r.Algorithm.KL > 0 {
		p.add("reference", n*d.Size(), always, "frozen weights, for the KL penalty")
		p.add("its pass", shared(r, passPages(l)*model.PageBytes(c, d))+shared(r, model.ActivationBytes(c, d, l, false)), referred, "micro-batches of %d rows", l.Rows)
		meta += passMeta(l)
	}
	meta += p.addTeacher(l)
	if on.Card != nil {
		p.addHost("rotary tables", p.tables(), "where the card's come from")
	}
	p.addHost("batches", meta, "what the host tells each step, and reads of it")
	p.addHost("transfers", 2*kernels.TransferBytes, "loading, saving")
	if on.Workers > 0 && on.Card == nil {
		p.add("worker scratch", on.Workers*p.scratch(), always, "%d workers", on.Workers)
	}
	p.add("reserve", on.reserve(), reserved, "%s", on.reserveFor())
	return p
}

// add notes an arena of each device.
func (p *Plan) add(name string, bytes int, in phase, what string, args ...any) {
	p.Items = append(p.Items, PlanItem{name, bytes, fmt.Sprintf(what, args...), in})
}

// addHost notes memory that both sides address, for every device.
func (p *Plan) addHost(name string, bytes int, what string, args ...any) {
	item := PlanItem{name, bytes * p.Machine.gpus(), fmt.Sprintf(what, args...), always}
	if p.Machine.Card == nil {
		p.Items = append(p.Items, item)
		return
	}
	p.Host = append(p.Host, item)
}

// addStates puts a rank's slice of the optimizer's states where the recipe wants them.
func (p *Plan) addStates(n int) {
	s, on := p.Recipe.States, p.Machine
	slice := sliceOf(n, on.gpus())
	bytes := s.bytes(slice, p.DType)
	if on.Card == nil || !s.Offload {
		p.add("optimizer", bytes, always, "%v%s", s, on.sliced(slice))
	} else {
		p.addHost("optimizer", bytes+s.upperBytes(slice), "%v%s", s, on.sliced(slice))
		moves := "two pieces of gradients on their way down, two of weights on their way up"
		if s.Master == splitMaster {
			moves = "two pieces of gradients on their way down; weights, which are pinned, too, go up from where they are"
		}
		p.addHost("offload", s.pinnedBytes(slice), "pinned: %s", moves)
		p.addHost("its transfers", kernels.TransferBytes, "loading, saving")
		p.addHost("its scratch", on.Workers*kernels.AdamWScratch(), "%d threads that step", on.Workers)
		p.add("offload", 2*offloadPieceLen(slice), always, "gradients, rounded to bf16, on their way down")
	}
	p.add("gradient norm", normBytes(n), always, "a float64 per %d gradients", kernels.NormLeaf)
}

// sliceOf is the most parameters that one of n ranks steps: a flat slice of whole leaves of the gradient's norm.
func sliceOf(parameters, ranks int) int {
	leaves := parameters / kernels.NormLeaf
	return (leaves + ranks - 1) / ranks * kernels.NormLeaf
}

func gradientBytes(c model.Config) int { return 4 * model.GradientLen(c) }

// passMeta is the pinned memory of a pass.
func passMeta(l model.Limits) int { return model.BatchBytes(l) + 3*4*l.Heads }

// addTeacher notes the arenas of a teacher; what its pass pins is returned.
func (p *Plan) addTeacher(l model.Limits) (pinned int) {
	r := p.Recipe
	if r.Teacher.Dir == "" {
		return 0
	}
	c, err := r.Teacher.shape(p.Model, r.Model.Context)
	if err != nil { // Place and New refuse it
		p.add("teacher", 0, always, "not known: %v", err)
		return 0
	}
	p.teacher = &c
	p.add("teacher", model.WeightBytes(c, p.DType, r.Model.Context), always, "frozen weights, %d parameters, %v", model.Count(c), p.DType)
	p.add("its pass", shared(r, passPages(l)*model.PageBytes(c, p.DType))+shared(r, model.ActivationBytes(c, p.DType, l, false)), taught, "micro-batches of %d rows", l.Rows)
	return passMeta(l)
}

// tables are the rotary tables of all models, which a frozen copy of the weights shares.
func (p *Plan) tables() int {
	n := model.TableBytes(p.Model, p.Recipe.Model.Context)
	if p.teacher != nil {
		n += model.TableBytes(*p.teacher, p.Recipe.Model.Context)
	}
	return n
}

// scratch is that of one worker of the CPU device.
func (p *Plan) scratch() int {
	n := 0
	for _, c := range []*model.Config{&p.Model, p.teacher} {
		if c != nil {
			n = max(n, kernels.ScratchBytes(kernels.ModelDims{
				D: c.Hidden, H: c.Heads, K: c.KVHeads, E: c.HeadDim, F: c.MLP, V: c.Live, Context: p.Recipe.Model.Context, DType: p.DType,
			}))
		}
	}
	return (n + 63) &^ 63
}

// Taken is what a run takes from one device.
func (p Plan) Taken() int {
	n := 0
	for _, i := range p.Items {
		if i.Phase == always || i.Phase != reserved && p.Recipe.Train.Layout != layoutSerial {
			n += i.Bytes
		}
	}
	if p.Recipe.Train.Layout == layoutSerial {
		n += p.region()
	}
	return n
}

// Total is Taken and the reserve.
func (p Plan) Total() int {
	n := p.Taken()
	for _, i := range p.Items {
		if i.Phase == reserved {
			n += i.Bytes
		}
	}
	return n
}

// Line is the plan of a device in a line.
func (p Plan) Line() string {
	return fmt.Sprintf("%s in arenas and %s in reserve, of %s %s", size(p.Taken()), size(p.Machine.reserve()), size(p.Machine.Free), p.Machine.freeIs())
}

// HostTotal is the host's memory, beside the process itself.
func (p Plan) HostTotal() int {
	n := 0
	for _, i := range p.Host {
		n += i.Bytes
	}
	return n
}

// fits says whether devices and host have the room. What is not known is taken to be enough.
func (p Plan) fits() bool {
	return (p.Machine.Free == 0 || p.Total() <= p.Machine.Free) && (p.Machine.Host == 0 || p.HostTotal() <= p.Machine.Host)
}

// String is the plan as a table.
func (p Plan) String() string {
	var b strings.Builder
	serial := p.Recipe.Train.Layout == layoutSerial
	fmt.Fprintf(&b, "%s, layout %s\n", p.Machine, p.Recipe.Train.Layout)
	for _, i := range p.Items {
		mark := ""
		if serial && i.Phase > always && i.Phase < reserved {
			mark = [...]string{"", "*", "**", "***", "***"}[i.Phase] + " "
		}
		fmt.Fprintf(&b, "%-15s %10s  %s%s\n", i.Name, size(i.Bytes), mark, i.What)
	}
	fmt.Fprintf(&b, "%-15s %10s", "total", size(p.Total()))
	if p.Machine.Free > 0 {
		fmt.Fprintf(&b, "  of %s %s", size(p.Machine.Free), p.Machine.freeIs())
	}
	b.WriteString("\n")
	if serial {
		b.WriteString("                            * sampling, ** training and *** the frozen models' passes share one region, as large as the largest\n")
	}
	if len(p.Host) > 0 {
		b.WriteString("\nin the host's memory\n")
		for _, i := range p.Host {
			fmt.Fprintf(&b, "%-15s %10s  %s\n", i.Name, size(i.Bytes), i.What)
		}
		fmt.Fprintf(&b, "%-15s %10s", "total", size(p.HostTotal()))
		if p.Machine.Host > 0 {
			fmt.Fprintf(&b, "  of %s", size(p.Machine.Host))
		}
		b.WriteString("\n")
	}
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

// Decay says which parameters the optimizer's weight decay shrinks.
func Decay(c model.Config, o OptimizerConfig) string {
	var tensors, count [2]int
	for _, p := range model.Params(c) {
		i := 0
		if p.Decay {
			i = 1
		}
		tensors[i]++
		count[i] += p.Len()
	}
	return fmt.Sprintf("weight decay %v on %d parameters in %d matrices, embedding and head included; none on %d in %d norms, those of queries and keys included",
		o.WeightDecay, count[1], tensors[1], count[0], tensors[0])
}
