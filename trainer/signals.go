package trainer

import (
	"math"
	"sync"

	"tandem/trainer/env"
)

// Signals are the figures of a step about what its rollouts could teach, and how far they were from the weights that
// learnt from them. Their names in JSON stay as they are.
type Signals struct {
	// Of all groups drawn in the step, those that dynamic sampling threw away included.
	RewardDrawn   float64          `json:"reward_drawn"`   // mean over samples
	PassHistogram [PassBuckets]int `json:"pass_histogram"` // groups by their share of samples with a reward above 0
	WastedTokens  int              `json:"wasted_tokens"`  // sampled, and nothing was learnt from them
	StoppedEarly  int              `json:"stopped_early"`  // groups given up after rollout.early_stop samples
	Rested        int              `json:"rested"`         // problems passed over, since their samples did not differ lately
	Carried       int              `json:"carried"`        // groups trained on that an earlier step sampled

	// What the mean reward would have been, had a part of rollout.max_tokens been all of it. The whole gives reward.
	RewardQuarter float64 `json:"reward_quarter"`
	RewardHalf    float64 `json:"reward_half"`

	// Of the advantages: over the sampled tokens that the step was trained on, those of advantage 0 included.
	AdvantageMean float64 `json:"advantage_mean"`
	AdvantageStd  float64 `json:"advantage_std"`
	AdvantageMin  float64 `json:"advantage_min"`
	AdvantageMax  float64 `json:"advantage_max"`
	ProcessReward float64 `json:"process_reward"` // summed over a sample's turns or tokens, mean over samples

	// Of the trained tokens.
	RatioMin         float64 `json:"ratio_min"` // of exp(new - old)
	RatioMax         float64 `json:"ratio_max"`
	MismatchMean     float64 `json:"mismatch_mean"`     // mean |new - old| where mismatch has the largest
	Importance       float64 `json:"importance"`        // mean truncated importance weight; 1 where the samples are ours
	ImportanceCapped float64 `json:"importance_capped"` // share of tokens whose weight was truncated
	ReferenceKL      float64 `json:"reference_kl"`      // mean k3 estimate of the divergence from the frozen reference
	TeacherKL        float64 `json:"teacher_kl"`        // mean of old - teacher: the reverse divergence from the teacher
}

// PassBuckets is the number of pass rates that a histogram tells apart: 0, below 1/4, below 1/2, below 3/4, below 1, and 1.
const PassBuckets = 6

// passBucket is that of passed samples out of n.
func passBucket(passed, n int) int {
	switch {
	case passed == 0:
		return 0
	case passed >= n:
		return PassBuckets - 1
	}
	return 1 + 4*passed/n
}

// sums are what the means and deviations of a step are made of.
type sums struct {
	Advantages           int // tokens
	Advantage, AdvSquare float64
	Ratios               int // tokens
	Compared             int // tokens whose log-probs the step's first weights should repeat
	Mismatch             float64
	Weights, Truncated   int // tokens
	Weight               float64
	Taught, Referred     int // tokens
	Teacher, Reference   float64
}

// drawn notes what all that was drawn for the step was worth.
func (m *Metrics) drawn(log *StepLog) {
	n := 0
	for _, o := range log.Outcomes {
		m.PassHistogram[passBucket(o.Passed, o.Samples)]++
		m.RewardDrawn += float64(o.Reward)
		n += o.Samples
	}
	m.RewardDrawn /= float64(max(n, 1))
	m.Rested, m.StoppedEarly = log.Rested, log.StoppedEarly
	n = 0
	for _, g := range log.Groups {
		if g.Rollouts[0].Age > 0 {
			m.Carried++
		}
		for _, r := range g.Rollouts {
			n++
			for _, p := range r.Process {
				if !isNaN(p) {
					m.ProcessReward += float64(p)
				}
			}
		}
	}
	m.ProcessReward /= float64(max(n, 1))
	for _, g := range log.Surplus {
		for _, r := range g.Rollouts {
			m.Sampled += r.Sampled()
		}
	}
}

// ratio notes one trained token: new - old.
func (m *Metrics) ratio(d float64) {
	r := math.Exp(d)
	m.Ratio += r
	if m.sums.Ratios == 0 {
		m.RatioMin, m.RatioMax = r, r
	}
	m.RatioMin, m.RatioMax = min(m.RatioMin, r), max(m.RatioMax, r)
	m.sums.Ratios++
}

// compared notes a token that the first weights of the step give another log-prob than its sample says, by d.
func (m *Metrics) compared(d float64) {
	m.Mismatch = max(m.Mismatch, math.Abs(d))
	m.sums.Mismatch += math.Abs(d)
	m.sums.Compared++
}

// reference notes how far the tokens of a sample are from the frozen reference.
func (m *Metrics) reference(old, refs []float32) {
	for i, ref := range refs {
		v, _ := KL{Estimator: "k3"}.value(old[i], ref)
		m.sums.Reference += v
	}
	m.sums.Referred += len(refs)
}

// finishSignals turns sums into means.
func (m *Metrics) finishSignals() {
	if n := float64(m.sums.Advantages); n > 0 {
		m.AdvantageMean = m.sums.Advantage / n
		m.AdvantageStd = math.Sqrt(max(0, m.sums.AdvSquare/n-m.AdvantageMean*m.AdvantageMean))
	}
	m.Importance = 1
	if n := float64(m.sums.Weights); n > 0 {
		m.Importance, m.ImportanceCapped = m.sums.Weight/n, float64(m.sums.Truncated)/n
	}
	m.TeacherKL = m.sums.Teacher / float64(max(m.sums.Taught, 1))
	m.ReferenceKL = m.sums.Reference / float64(max(m.sums.Referred, 1))
	if m.sums.Compared > 0 {
		m.MismatchMean = m.sums.Mismatch / float64(m.sums.Compared)
	}
}

// budgets notes what shorter replies would have been worth. A missing reward stays out of the mean. Groups are graded side
// by side, and summed in order.
func (m *Metrics) budgets(e env.Env, log *StepLog, maxTokens int) {
	defer clocked(&m.GradingSeconds)()
	lowest := float32(0)
	for _, g := range log.Groups {
		for _, r := range g.Rollouts {
			if r.Reward < lowest {
				lowest = r.Reward
			}
		}
	}
	type pair struct{ quarter, half float32 }
	worth := make([][]pair, len(log.Groups))
	var all sync.WaitGroup
	for p, g := range log.Groups {
		all.Go(func() {
			for _, r := range g.Rollouts {
				if !isNaN(r.Reward) {
					worth[p] = append(worth[p], pair{rewardAt(e, g, r, maxTokens/4, lowest), rewardAt(e, g, r, maxTokens/2, lowest)})
				}
			}
		})
	}
	all.Wait()
	n := 0
	for _, group := range worth {
		for _, w := range group {
			n++
			m.RewardQuarter += float64(w.quarter)
			m.RewardHalf += float64(w.half)
		}
	}
	m.RewardQuarter /= float64(max(n, 1))
	m.RewardHalf /= float64(max(n, 1))
}

// rewardAt is what a rollout would have been worth, had budget sampled tokens ended it. Where the environment can't tell
// afterwards, or did not set the problem, that is 0, or the lowest reward of the step if it is below.
func rewardAt(e env.Env, g Group, r *Rollout, budget int, lowest float32) float32 {
	if r.Sampled() <= budget {
		return r.Reward
	}
	cutter, ok := e.(env.Cutter)
	if !ok || r.Imported {
		return lowest
	}
	at := &env.Episode{Problem: g.Problem, Tokens: r.Tokens[:r.Spans[0][0]]}
	for i, s := range r.Spans {
		if n := s[1] - s[0]; budget > n {
			budget -= n
			at.Past = append(at.Past, env.Exchange{Reply: env.Reply{Tokens: r.Tokens[s[0]:s[1]]}, Turn: env.Turn{Append: r.Tokens[s[1]:r.Spans[i+1][0]]}})
			continue
		}
		return cutter.Cut(at, r.Tokens[s[0]:s[0]+budget])
	}
	panic("trainer: a reply longer than the budget ends before it")
}

// noteAdvantages adds the tokens of a sample to the sums, and gives their mean magnitude.
func (m *Metrics) noteAdvantages(adv []float32) (magnitude float64) {
	for _, a := range adv {
		x := float64(a)
		if m.sums.Advantages == 0 {
			m.AdvantageMin, m.AdvantageMax = x, x
		}
		m.AdvantageMin, m.AdvantageMax = min(m.AdvantageMin, x), max(m.AdvantageMax, x)
		m.sums.Advantages++
		m.sums.Advantage += x
		m.sums.AdvSquare += x * x
		magnitude += math.Abs(x) / float64(len(adv))
	}
	return magnitude
}
