package eval

import (
	"fmt"
	"html"
	"slices"
	"strings"
)

// Plots are SVG without scripts or fonts of their own.

const (
	plotW, plotH = 420, 220
	left, bottom = 44, 30
)

func plotX(share float64) float64 { return left + (plotW-left-12)*share }
func plotY(share float64) float64 { return 10 + (plotH-bottom-10)*(1-share) }

func frame(b *strings.Builder, title string, top float64, format string) {
	fmt.Fprintf(b, `<svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, plotW, plotH, html.EscapeString(title))
	for _, v := range []float64{0, 0.25, 0.5, 0.75, 1} {
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/>`, left, plotW-12, plotY(v), plotY(v))
		fmt.Fprintf(b, `<text x="%d" y="%.1f" text-anchor="end">`+format+`</text>`, left-6, plotY(v)+4, v*top)
	}
}

// curve is the score against the budget, with intervals.
func curve(s SetSummary) string {
	var b strings.Builder
	frame(&b, "score against budget", 1, "%.2f")
	var points []string
	for i, x := range s.Budgets {
		at := plotX((float64(i) + 0.5) / float64(len(s.Budgets)))
		points = append(points, fmt.Sprintf("%.1f,%.1f", at, plotY(x.Avg.Value)))
		fmt.Fprintf(&b, `<line class="interval" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, at, at, plotY(x.Avg.Low), plotY(x.Avg.High))
		fmt.Fprintf(&b, `<circle class="mark" cx="%.1f" cy="%.1f" r="4"><title>%d tokens: %.3f (%.3f to %.3f)</title></circle>`,
			at, plotY(x.Avg.Value), x.Budget, x.Avg.Value, x.Avg.Low, x.Avg.High)
		fmt.Fprintf(&b, `<text x="%.1f" y="%d" text-anchor="middle">%d</text>`, at, plotH-12, x.Budget)
	}
	fmt.Fprintf(&b, `<polyline class="curve" points="%s"/></svg>`, strings.Join(points, " "))
	return b.String()
}

// bins of the length histogram.
const bins = 20

// histogram of the samples' tokens, up to the largest budget.
func histogram(lengths []int, largest int) string {
	var counts [bins]int
	for _, n := range lengths {
		counts[min(n*bins/max(largest, 1), bins-1)]++
	}
	top := max(1, slices.Max(counts[:]))
	var b strings.Builder
	frame(&b, "tokens of a sample", float64(top), "%.0f")
	for i, c := range counts {
		x0, x1, y := plotX(float64(i)/bins), plotX(float64(i+1)/bins), plotY(float64(c)/float64(top))
		fmt.Fprintf(&b, `<rect class="bar" x="%.1f" y="%.1f" width="%.1f" height="%.1f"><title>%d to %d tokens: %d samples</title></rect>`,
			x0+1, y, x1-x0-2, plotY(0)-y, i*largest/bins, (i+1)*largest/bins, c)
	}
	fmt.Fprintf(&b, `<text x="%d" y="%d">0</text><text x="%d" y="%d" text-anchor="end">%d tokens</text></svg>`, left, plotH-12, plotW-12, plotH-12, largest)
	return b.String()
}

// rateBars is the share of right samples of each problem at the largest budget, sorted.
func rateBars(s SetSummary) string {
	rates := slices.Clone(s.Budgets[len(s.Budgets)-1].Rates)
	slices.Sort(rates)
	var b strings.Builder
	frame(&b, "pass rate of each problem", 1, "%.2f")
	var points []string
	for i, r := range rates {
		points = append(points, fmt.Sprintf("%.1f,%.1f %.1f,%.1f",
			plotX(float64(i)/float64(len(rates))), plotY(r), plotX(float64(i+1)/float64(len(rates))), plotY(r)))
	}
	fmt.Fprintf(&b, `<polygon class="bar" points="%.1f,%.1f %s %.1f,%.1f"/>`, plotX(0), plotY(0), strings.Join(points, " "), plotX(1), plotY(0))
	fmt.Fprintf(&b, `<text x="%d" y="%d">%d problems, hardest first</text></svg>`, left, plotH-12, len(rates))
	return b.String()
}
