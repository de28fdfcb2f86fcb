package eval

import (
	"fmt"
	"strings"
)

// A Difference is that of two evaluations on one data set at one budget, B minus A.
type Difference struct {
	Set      string
	Budget   int
	Problems int // that both have
	A, B     float64
	Diff     Estimate // paired by problem
}

// Distinguishable says whether the interval leaves out 0.
func (d Difference) Distinguishable() bool { return d.Diff.Low > 0 || d.Diff.High < 0 }

// Compare pairs the problems of two evaluations, at the budgets that both have.
func Compare(a, b *Dir) ([]Difference, error) {
	ra, rb := rates(a), rates(b)
	var out []Difference
	sa, sb := Summarize(a), Summarize(b)
	for _, set := range sa.Sets {
		for _, x := range set.Budgets {
			if !has(sb, set.Name, x.Budget) {
				continue
			}
			var va, vb, diff []float64
			for _, id := range problems(a, set.Name) {
				at, bt := ra[place{set.Name, x.Budget, id}], rb[place{set.Name, x.Budget, id}]
				if at == nil || bt == nil {
					continue
				}
				va, vb, diff = append(va, mean(at)), append(vb, mean(bt)), append(diff, mean(bt)-mean(at))
			}
			if len(diff) > 0 {
				out = append(out, Difference{set.Name, x.Budget, len(diff), mean(va), mean(vb), estimate(diff)})
			}
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("compare %s and %s: no problem of one data set at one budget is in both", a.path, b.path)
	}
	return out, nil
}

type place struct {
	set    string
	budget int
	id     int
}

// rates are the scores of each problem's samples, 0 or 1.
func rates(d *Dir) map[place][]float64 {
	m := make(map[place][]float64)
	for _, s := range d.samples {
		for b, score := range s.Scores {
			p := place{s.Set, d.settings.Budgets[b], s.ID}
			right := 0.0
			if score.Right {
				right = 1
			}
			m[p] = append(m[p], right)
		}
	}
	return m
}

func problems(d *Dir, set string) []int {
	var ids []int
	for _, s := range d.samples {
		if s.Set == set && s.Member == 0 {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

func has(s Summary, set string, budget int) bool {
	for _, x := range s.Sets {
		for _, b := range x.Budgets {
			if x.Name == set && b.Budget == budget {
				return true
			}
		}
	}
	return false
}

// Table is the differences for people.
func Table(ds []Difference) string {
	var b strings.Builder
	b.WriteString("| data | budget | problems | A | B | B - A | 95 % interval | |\n|---|---|---|---|---|---|---|---|\n")
	for _, d := range ds {
		verdict := "not distinguishable at this n"
		if d.Distinguishable() {
			verdict = "distinguishable"
		}
		fmt.Fprintf(&b, "| %s | %d | %d | %.3f | %.3f | %+.3f | %+.3f to %+.3f | %s |\n", d.Set, d.Budget, d.Problems, d.A, d.B, d.Diff.Value, d.Diff.Low, d.Diff.High, verdict)
	}
	return b.String()
}
