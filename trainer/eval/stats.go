package eval

import (
	"math"
	"math/rand/v2"
	"slices"
)

// A Summary is an evaluation in figures.
type Summary struct {
	Settings Settings     `json:"settings"`
	Sets     []SetSummary `json:"sets"`
}

// A SetSummary is one data set, at every budget.
type SetSummary struct {
	Name     string          `json:"name"`
	Problems int             `json:"problems"`
	Budgets  []BudgetSummary `json:"budgets"`
	Tools    *ToolSummary    `json:"tools,omitempty"` // where there was a tool
}

// A ToolSummary is the use of a tool, at the largest budget.
type ToolSummary struct {
	Turns  float64 `json:"turns"`        // of a sample, mean
	Called float64 `json:"called"`       // share of samples with a call
	Calls  float64 `json:"calls"`        // of a sample, mean
	Failed float64 `json:"failed_calls"` // share of calls that were not answered as asked
}

// A BudgetSummary is one data set at one budget.
type BudgetSummary struct {
	Budget    int       `json:"budget"`
	Avg       Estimate  `json:"avg"`       // share of right samples, mean over problems
	Pass      []PassAt  `json:"pass"`      // unbiased
	Maj       Estimate  `json:"maj"`       // share of problems whose most frequent answer is right
	Length    float64   `json:"length"`    // tokens of a sample, mean
	Truncated float64   `json:"truncated"` // share of samples
	NoAnswer  float64   `json:"no_answer"` // share of samples
	Rates     []float64 `json:"rates"`     // share of right samples of each problem, in order
}

// PassAt is the chance that one of K samples is right.
type PassAt struct {
	K int `json:"k"`
	Estimate
}

// An Estimate is a mean over problems with its 95 % interval, by bootstrap over problems.
type Estimate struct {
	Value float64 `json:"value"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
}

// Summarize takes an evaluation's figures.
func Summarize(d *Dir) Summary {
	s := Summary{Settings: d.settings}
	var names []string
	bySet := make(map[string][][]Sample)
	for _, x := range d.samples {
		if x.Member == 0 {
			if bySet[x.Set] == nil {
				names = append(names, x.Set)
			}
			bySet[x.Set] = append(bySet[x.Set], nil)
		}
		groups := bySet[x.Set]
		groups[len(groups)-1] = append(groups[len(groups)-1], x)
	}
	for _, name := range names {
		groups := slices.DeleteFunc(bySet[name], func(g []Sample) bool { return len(g) < d.settings.Samples }) // cut short
		set := SetSummary{Name: name, Problems: len(groups)}
		for b := range d.settings.Budgets {
			if len(groups) > 0 {
				set.Budgets = append(set.Budgets, atBudget(d.settings, groups, b))
			}
		}
		if d.settings.Tools != nil && len(groups) > 0 {
			set.Tools = toolUse(groups)
		}
		s.Sets = append(s.Sets, set)
	}
	return s
}

func toolUse(groups [][]Sample) *ToolSummary {
	var u ToolSummary
	samples, failed := 0, 0
	for _, g := range groups {
		for _, x := range g {
			samples++
			u.Turns += float64(max(1, len(x.Spans)))
			u.Calls += float64(x.Calls)
			failed += x.Failed
			if x.Calls > 0 {
				u.Called++
			}
		}
	}
	u.Failed = float64(failed) / max(u.Calls, 1)
	for _, mean := range []*float64{&u.Turns, &u.Called, &u.Calls} {
		*mean /= float64(samples)
	}
	return &u
}

func atBudget(s Settings, groups [][]Sample, b int) BudgetSummary {
	out := BudgetSummary{Budget: s.Budgets[b]}
	var maj []float64
	var right []int
	for _, g := range groups {
		scores := make([]Score, len(g))
		c := 0
		for i, x := range g {
			scores[i] = x.Scores[b]
			if scores[i].Right {
				c++
			}
			n := float64(len(groups) * s.Samples)
			out.Length += float64(scores[i].Tokens) / n
			if scores[i].Truncated {
				out.Truncated += 1 / n
			}
			if scores[i].Given == "" && !scores[i].Right {
				out.NoAnswer += 1 / n
			}
		}
		right = append(right, c)
		out.Rates = append(out.Rates, float64(c)/float64(s.Samples))
		maj = append(maj, Majority(scores))
	}
	out.Avg, out.Maj = estimate(out.Rates), estimate(maj)
	for _, k := range ks(s.Samples) {
		values := make([]float64, len(right))
		for i, c := range right {
			values[i], _ = PassAtK(s.Samples, c, k)
		}
		out.Pass = append(out.Pass, PassAt{k, estimate(values)})
	}
	return out
}

// ks are the powers of two up to n, and n.
func ks(n int) []int {
	var out []int
	for k := 1; k < n; k *= 2 {
		out = append(out, k)
	}
	return append(out, n)
}

// PassAtK is the unbiased estimate of the chance that one of k samples is right, from n of which c are:
// 1 - C(n-c, k)/C(n, k) (Chen et al. 2021, arXiv:2107.03374). There is none for k > n.
func PassAtK(n, c, k int) (p float64, ok bool) {
	if k < 1 || k > n || c < 0 || c > n {
		return 0, false
	}
	miss := 1.0
	for i := range k {
		miss *= float64(max(n-c-i, 0)) / float64(n-i)
	}
	return 1 - miss, true
}

// Majority is 1 if the most frequent answer is right, votes being counted by the grader's normal form; samples without
// an answer do not vote, and of equally frequent answers the first one counts.
func Majority(scores []Score) float64 {
	votes := make(map[string]int)
	best, right := 0, 0.0
	for _, s := range scores {
		if s.Given != "" {
			votes[s.Given]++
			best = max(best, votes[s.Given])
		}
	}
	for _, s := range scores {
		if s.Given != "" && votes[s.Given] == best {
			if s.Right {
				right = 1
			}
			break
		}
	}
	return right
}

// resamples of the bootstrap.
const resamples = 2000

// estimate is the mean with the 2.5th and 97.5th percentile of the means of resampled problems.
func estimate(values []float64) Estimate {
	e := Estimate{Value: mean(values)}
	r := rand.New(rand.NewPCG(1, 2)) // fixed: the same samples give the same interval
	means := make([]float64, resamples)
	for i := range means {
		var sum float64
		for range values {
			sum += values[r.IntN(len(values))]
		}
		means[i] = sum / float64(len(values))
	}
	slices.Sort(means)
	e.Low, e.High = percentile(means, 0.025), percentile(means, 0.975)
	return e
}

// percentile of sorted values, between neighbours.
func percentile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(math.Floor(at))
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}

func mean(x []float64) float64 {
	var sum float64
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
