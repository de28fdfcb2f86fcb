package report

import "strings"

// A Figure is what is known of a number in metrics.jsonl.
type Figure struct {
	Name  string // in metrics.jsonl; it stays as it is
	Group string // on the page and in TensorBoard
	Unit  string // tokens, seconds, bytes, share or ""
	Text  string // what it is
}

// Groups are those of figures, in the order of pages. What is not known is in the last.
func Groups() []string {
	return []string{"reward", "replies", "learning", "tools", "speed", "time", "engine", "memory", "hardware", "other"}
}

// Figures are all that are known, by group.
func Figures() []Figure { return figures }

// Known is what is known of a figure. One that is not is in the last group; its unit is told by its name.
func Known(name string) Figure {
	for _, f := range figures {
		if f.Name == name {
			return f
		}
	}
	f := Figure{Name: name, Group: "other"}
	for suffix, unit := range map[string]string{"_seconds": "seconds", "_tokens": "tokens", "_per_second": "per second"} {
		if strings.HasSuffix(name, suffix) {
			f.Unit = unit
		}
	}
	if strings.HasPrefix(name, "tool") {
		f.Group = "tools"
	}
	return f
}

var figures = []Figure{
	{"reward", "reward", "", "mean over the samples of the step"},
	{"pass_rate", "reward", "share", "samples with a reward above 0"},
	{"solved", "reward", "share", "prompts all of whose samples have a reward above 0"},
	{"unsolved", "reward", "share", "prompts none of whose samples has a reward above 0"},
	{"reward_drawn", "reward", "", "mean over all samples drawn, those that dynamic sampling threw away included"},
	{"reward_half", "reward", "", "what the mean would have been, had half of rollout.max_tokens been all"},
	{"reward_quarter", "reward", "", "likewise with a quarter"},
	{"process_reward", "reward", "", "rewards given for turns or tokens: summed over a sample, mean over samples"},
	{"pass_histogram", "reward", "groups", "groups drawn by their share of samples with a reward above 0: 0, below 1/4, below 1/2, below 3/4, below 1, and 1"},

	{"length", "replies", "tokens", "sampled tokens of a reply, mean"},
	{"length_max", "replies", "tokens", "of the longest"},
	{"truncated", "replies", "share", "replies that a limit ended"},
	{"sampled", "replies", "tokens", "sampled in the step"},
	{"wasted", "replies", "share", "sampled tokens that nothing was learnt from"},
	{"wasted_tokens", "replies", "tokens", "their number"},
	{"discarded", "replies", "groups", "thrown away by dynamic sampling"},
	{"stopped_early", "replies", "groups", "given up after rollout.early_stop samples"},
	{"rested", "replies", "problems", "passed over, since their samples did not differ lately"},
	{"carried", "replies", "groups", "trained on that an earlier step sampled"},

	{"no_answer", "replies", "share", "replies that stopped without an answer that the grader can find"},
	{"too_many_calls", "replies", "share", "replies that wanted more calls of tools, or turns, than are allowed"},

	{"tool_turns", "tools", "turns", "of the model in a reply, mean"},
	{"tool_called", "tools", "share", "replies that called a tool"},
	{"tool_calls_per_reply", "tools", "calls", "mean"},
	{"tool_calls", "tools", "calls", "in the step, those that could not be read included"},
	{"tool_tokens", "tools", "tokens", "that the model was told in answer"},
	{"tool_unreadable", "tools", "calls", "that were not the JSON of a call, or not closed"},
	{"tool_refused", "tools", "calls", "of no tool, without what it needs, or more than are allowed"},
	{"tool_errors", "tools", "calls", "whose program failed"},
	{"tool_timeouts", "tools", "calls", "that took too long"},
	{"tool_killed", "tools", "calls", "that crashed, or took too much memory or output"},
	{"tool_repaired", "tools", "calls", "read with leniency: a raw line break in the JSON"},
	{"tool_seconds", "tools", "seconds", "of all calls, which overlap"},
	{"tool_longest_seconds", "tools", "seconds", "of the longest call"},

	{"loss", "learning", "", "as normalised by algorithm.loss"},
	{"entropy", "learning", "nats", "of the distribution at a trained token, mean"},
	{"advantage", "learning", "", "mean magnitude over samples"},
	{"advantage_mean", "learning", "", "over trained tokens"},
	{"advantage_std", "learning", "", "over trained tokens"},
	{"advantage_min", "learning", "", "over trained tokens"},
	{"advantage_max", "learning", "", "over trained tokens"},
	{"ratio", "learning", "", "exp(new - old) of a trained token, mean"},
	{"ratio_min", "learning", "", "the smallest"},
	{"ratio_max", "learning", "", "the largest"},
	{"clipped", "learning", "share", "trained tokens whose ratio was clipped"},
	{"mismatch", "learning", "nats", "largest |new - old| before the first update of the step: 0, or the sampler is not what is trained"},
	{"mismatch_mean", "learning", "nats", "the mean of it"},
	{"importance", "learning", "", "truncated importance weight, mean: 1 for samples of our own"},
	{"importance_capped", "learning", "share", "tokens whose importance weight was truncated"},
	{"reference_kl", "learning", "nats", "k3 estimate of the divergence from the frozen reference, mean"},
	{"teacher_kl", "learning", "nats", "old - teacher, mean: the reverse divergence from the teacher"},
	{"grad_norm", "learning", "", "of the whole gradient before clipping, mean over updates"},
	{"grad_clip", "learning", "", "of the whole gradient after clipping, mean over updates"},
	{"lr", "learning", "", "learning rate"},
	{"skipped", "learning", "updates", "in a row whose gradient was no number"},
	{"trained", "learning", "tokens", "trained on in the step"},

	{"sampled_per_second", "speed", "tokens/s", "sampled, over all of the rollout's time"},
	{"trained_per_second", "speed", "tokens/s", "trained on, over all of the update's time"},

	{"seconds", "time", "seconds", "of the step, with what was saved since the step before; the phases below are all of it"},
	{"sampling_seconds", "time", "seconds", "phase: the engine computed"},
	{"grading_seconds", "time", "seconds", "phase: the engine had nothing to do, and the environment (grader, tools) worked"},
	{"reference_seconds", "time", "seconds", "phase: log-probs under other weights than those that are trained"},
	{"forward_seconds", "time", "seconds", "phase: forward passes of the update"},
	{"backward_seconds", "time", "seconds", "phase: losses and backward passes of the update"},
	{"optimizer_seconds", "time", "seconds", "phase: gradient norm and weights"},
	{"saving_seconds", "time", "seconds", "phase: log, replies and figures, and what was saved since the step before, full states included"},
	{"idle_seconds", "time", "seconds", "phase: the rest"},
	{"rollout_seconds", "time", "seconds", "from the first prompt to the last reward; 0 if the replies came from the log"},
	{"update_seconds", "time", "seconds", "from rewards to weights"},
	{"environment_seconds", "time", "seconds", "in the environment, summed over episodes, which overlap"},

	{"engine_idle", "engine", "share", "of the rollout's time in which the engine had nothing to do but to wait for the environment"},
	{"pages", "engine", "pages", "of the cache"},
	{"peak_pages", "engine", "pages", "in use at once, so far"},
	{"cached", "engine", "tokens", "of prompts that did not have to be computed"},
	{"engine_rows", "engine", "tokens", "that the engine computed, prompts included"},
	{"preempted", "engine", "sequences", "sent back to the queue for want of pages"},

	{"memory", "memory", "bytes", "taken from the device; 0 where it does not tell"},
	{"memory_planned", "memory", "bytes", "that the plan says will be taken"},
	{"memory_resident", "memory", "bytes", "of the process that are in the machine's memory"},
	{"memory_beyond", "memory", "bytes", "that the card took for the run beside its arenas: context, kernels, graphs; where the system does not tell what is whose, what is gone since the run was opened"},
	{"memory_card", "memory", "bytes", "in use on the card, by whatever process: the most of all readings"},

	{"power", "hardware", "W", "that the card drew, mean"},
	{"power_max", "hardware", "W", "the most of all readings, each of which is the mean of a second or so"},
	{"clock", "hardware", "MHz", "of the multiprocessors, mean"},
	{"memory_clock", "hardware", "MHz", "of the card's memory, mean"},
	{"temperature", "hardware", "°C", "the highest of all readings"},
	{"throttled", "hardware", "share", "of the readings in which something held the clocks back; idleness does not count"},
	{"throttled_power", "hardware", "share", "of the readings in which the power limit did"},
	{"throttled_heat", "hardware", "share", "of the readings in which heat did"},
	{"throttled_hardware", "hardware", "share", "of the readings in which the card's own circuits did: heat or want of power, as a rule"},
	{"throttled_other", "hardware", "share", "of the readings in which settings or other cards did"},
	{"energy", "hardware", "J", "that the card used in the step, by its own count"},
	{"energy_per_token", "hardware", "J", "of it for every token sampled, learning from it included; of steps whose replies were sampled"},
	{"ecc_uncorrected", "hardware", "errors", "of the card's memory since the process began: bits have changed, the run is not to be trusted"},
	{"ecc_corrected", "hardware", "errors", "of the card's memory since the process began, all of them put right"},
}
