package trainer

import (
	"fmt"

	"tandem/kernels"
)

// beyond holds what the device has taken for the run, beside its arenas, to the plan's reserve. It is looked at after every
// step, since much of it is taken late: decode steps are recorded when a batch of their size first comes.
func (t *Trainer) beyond(m *Metrics) {
	card, ok := t.device.(kernels.Metered)
	if !ok {
		return
	}
	u, err := card.Usage()
	if err != nil { // the step is done, and what is wrong with the device the next launch says
		return
	}
	m.MemoryBeyond = figure(float64(u.Beyond))
	if over := t.plan.overrun(u); over != "" && !t.overrun {
		t.overrun = true
		t.note("%s", over)
	} else if over == "" && !t.measured && m.Stage != "warmup" {
		t.note("memory of the card after a first step of everything: %v", t.plan.held(u))
	}
	t.measured = t.measured || m.Stage != "warmup"
}

// held is how the plan was kept.
func (p Plan) held(u kernels.Usage) string {
	return fmt.Sprintf("%s in arenas, as planned, and %s beside them%s, of %s in reserve", size(u.Taken), size(u.Beyond), beside(u), size(p.Machine.reserve()))
}

// beside says what is beside the arenas.
func beside(u kernels.Usage) string {
	if u.Exact {
		return " (context, kernels, graphs)"
	}
	return " (kernels, graphs, and what other processes took since this one began)"
}

// overrun says that more is gone than the reserve, by whom, and what leaves room for it; "" says that it is not.
func (p Plan) overrun(u kernels.Usage) string {
	reserve := p.Machine.reserve()
	if u.Beyond <= reserve {
		return ""
	}
	s := fmt.Sprintf("the card has taken %s beside the run's arenas%s: more than the plan's reserve, which is %s", size(u.Beyond), beside(u), size(reserve))
	if !u.Exact {
		s = fmt.Sprintf("%s of the card are gone beside the run's arenas%s, which can't be told apart: more than the plan's reserve, which is %s", size(u.Beyond), beside(u), size(reserve))
	}
	if u.Free >= laterReserve {
		return s + fmt.Sprintf("; %s are free, so that nothing has to be set", size(u.Free))
	}
	on, r := p.Machine, p.Recipe
	on.Free, on.Reserve, r.Rollout.Pages = u.Ours(), u.Beyond+laterReserve, 0
	fits, err := Place(r, p.Model, p.DType, on)
	if err != nil {
		return s + fmt.Sprintf("; only %s are free, and with %s more in reserve %v", size(u.Free), size(on.Reserve-reserve), err)
	}
	return s + fmt.Sprintf("; only %s are free: --set rollout.pages=%d leaves it room", size(u.Free), fits.Recipe.Rollout.Pages)
}
