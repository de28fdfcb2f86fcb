package trainer

import (
	"errors"
	"fmt"
	"slices"
)

// TeacherConfig is on-policy distillation: a second, frozen model says of every sampled token how likely it finds it.
type TeacherConfig struct {
	Dir  string  `toml:"dir"`  // a Hugging Face directory with the same tokens; "" is none
	KL   float32 `toml:"kl"`   // weight of the reverse divergence from it, per token, as the advantage
	Task float32 `toml:"task"` // weight of the advantage by the task's reward; 0 is pure distillation
}

// checkSignals says what is wrong with how rollouts are drawn, imported and weighed.
func (r Recipe) checkSignals() error {
	var faults []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	ro, a, t := r.Rollout, r.Algorithm, r.Teacher
	want(slices.Contains([]string{"prompts", "groups", "off"}, ro.Carry), "rollout.carry is %q, want prompts, groups or off", ro.Carry)
	want(ro.Rest >= 0 && ro.Rest <= most, "rollout.rest is %d, want 0 (off) to %d", ro.Rest, most)
	want(ro.EarlyStop == 0 || ro.EarlyStop >= 2 && ro.EarlyStop < ro.Samples, "rollout.early_stop is %d, want 2 to less than rollout.samples, %d, or 0 for off", ro.EarlyStop, ro.Samples)
	want(ro.EarlyStop == 0 || ro.Dynamic, "rollout.early_stop is set without rollout.dynamic, which leaves out the groups that it stops")
	want(r.Data.Rollouts == "" || !ro.Dynamic, "data.rollouts is set with rollout.dynamic: there is nothing to sample again")
	want(a.TIS == 0 || a.TIS >= 1 && a.TIS <= 1e6, "algorithm.tis is %v, want at least 1, or 0 for off", a.TIS)
	want(a.Process >= 0 && a.Process <= 1e6, "algorithm.process is %v, want 0 (off) or more", a.Process)
	want(a.Gamma >= 0 && a.Gamma <= 1, "algorithm.gamma is %v, want 0 to 1", a.Gamma)
	if t.Dir != "" {
		want(t.KL > 0 && t.KL <= 1e6, "teacher.kl is %v, want more than 0", t.KL)
		want(t.Task >= 0 && t.Task <= 1e6, "teacher.task is %v, want 0 (pure distillation) or more", t.Task)
		want(t.Task > 0 || !ro.Dynamic, "rollout.dynamic is set with teacher.task = 0: rewards say nothing about what a group teaches")
		want(t.Task > 0 || a.KL == 0 || a.KLIn != "reward", "algorithm.kl_in is \"reward\" with teacher.task = 0: rewards count for nothing")
	}
	return errors.Join(faults...)
}
