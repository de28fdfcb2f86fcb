package page

import (
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"math"
	"slices"
	"strings"
)

// A Series is a curve. A value that is no number is a gap.
type Series struct {
	Name string
	X, Y []float64
	Low  []float64 // with High: intervals around Y; nil is none
	High []float64
}

// A Chart is curves over one axis, or areas on top of each other.
type Chart struct {
	Title   string
	Note    string // below the title, smaller; "" is none
	Unit    string // of values, as Number takes it
	XLabel  string // what X counts
	Series  []Series
	Stacked bool // areas; all series have the same X
	Smooth  bool // draw the moving mean, and the values behind it
	Dots    bool // mark every value
	Wide    bool
}

const (
	width, height = 460, 220
	left, right   = 58, 448
	top, bottom   = 10, 188
	mostPoints    = 400 // of a curve; more are averaged
)

// plane turns values into places.
type plane struct{ x0, x1, y0, y1 float64 }

func (p plane) x(v float64) float64 {
	return left + (right-left)*(v-p.x0)/max(p.x1-p.x0, 1e-300)
}

func (p plane) y(v float64) float64 {
	return bottom - (bottom-top)*(v-p.y0)/max(p.y1-p.y0, 1e-300)
}

// HTML is the chart as a figure.
func (c Chart) HTML() template.HTML {
	series := make([]Series, 0, len(c.Series))
	for _, s := range c.Series {
		series = append(series, s.thin())
	}
	var b strings.Builder
	class := ""
	if c.Wide {
		class = ` class="wide"`
	}
	p, ok := c.plane(series)
	if !ok {
		return template.HTML(fmt.Sprintf(`<figure%s><figcaption>%s</figcaption><p class="soft">no values</p></figure>`, class, html.EscapeString(c.Title)))
	}
	fmt.Fprintf(&b, `<figure%s data-series="%s"><figcaption>%s`, class, html.EscapeString(c.hover(series, p)), html.EscapeString(c.Title))
	if c.Note != "" {
		fmt.Fprintf(&b, `<small class="soft">%s</small>`, html.EscapeString(c.Note))
	}
	fmt.Fprintf(&b, `</figcaption><svg viewBox="0 0 %d %d" role="img" aria-label="%s">`, width, height, html.EscapeString(c.Title))
	p.axes(&b, c)
	if c.Stacked {
		stack(&b, series, p)
	} else {
		for i, s := range series {
			c.curve(&b, s, i%colours, p)
		}
	}
	fmt.Fprintf(&b, `<line class="cursor" y1="%d" y2="%d"/></svg>`, top, bottom)
	if len(series) > 1 {
		legend(&b, series)
	}
	b.WriteString("</figure>")
	return template.HTML(b.String())
}

const colours = 8

// plane is wide enough for all values. Shares and what is never negative begin at 0.
func (c Chart) plane(series []Series) (p plane, ok bool) {
	lo, hi := math.Inf(1), math.Inf(-1)
	p.x0, p.x1 = math.Inf(1), math.Inf(-1)
	sums := make(map[float64]float64)
	for _, s := range series {
		for i, y := range s.Y {
			if !finite(y) {
				continue
			}
			p.x0, p.x1 = min(p.x0, s.X[i]), max(p.x1, s.X[i])
			if c.Stacked {
				sums[s.X[i]] += y
				y = sums[s.X[i]]
			}
			lo, hi = min(lo, y), max(hi, y)
			if s.Low != nil && finite(s.Low[i]) && finite(s.High[i]) {
				lo, hi = min(lo, s.Low[i]), max(hi, s.High[i])
			}
		}
	}
	if lo > hi {
		return p, false
	}
	if lo >= 0 && (lo < hi/2 || c.Stacked || c.Unit == "share") {
		lo = 0
	}
	if p.x0 == p.x1 {
		p.x0, p.x1 = p.x0-1, p.x1+1
	}
	if lo == hi {
		lo, hi = lo-max(math.Abs(lo)/2, 0.5), hi+max(math.Abs(hi)/2, 0.5)
		if lo < 0 && c.Unit != "" {
			lo = 0
		}
	}
	t := Ticks(lo, hi, 4)
	p.y0, p.y1 = t[0], t[len(t)-1]
	return p, true
}

func finite(v float64) bool { return v-v == 0 }

func (p plane) axes(b *strings.Builder, c Chart) {
	for _, v := range Ticks(p.y0, p.y1, 4) {
		if v > p.y1*(1+1e-9)+1e-300 {
			continue
		}
		y := p.y(v)
		fmt.Fprintf(b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text x="%d" y="%.1f" text-anchor="end">%s</text>`,
			left, right, y, y, left-6, y+4, html.EscapeString(Number(v, c.Unit)))
	}
	fmt.Fprintf(b, `<line class="axis" x1="%d" x2="%d" y1="%d" y2="%d"/>`, left, right, bottom, bottom)
	ticks := Ticks(p.x0, p.x1, 6)
	for i, v := range ticks {
		if v < p.x0-1e-9 || v > p.x1+1e-9 || v != math.Trunc(v) {
			continue
		}
		anchor := "middle"
		if i == len(ticks)-1 || p.x(v) > right-12 {
			anchor = "end"
		}
		fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="%s">%s</text>`, p.x(v), bottom+15, anchor, html.EscapeString(Number(v, "")))
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" text-anchor="middle">%s</text>`, (left+right)/2, bottom+29, html.EscapeString(c.XLabel))
}

// curve draws a line, with what it was smoothed from and intervals.
func (c Chart) curve(b *strings.Builder, s Series, colour int, p plane) {
	for i := range s.Low {
		if finite(s.Low[i]) && finite(s.High[i]) {
			fmt.Fprintf(b, `<line class="interval c%d" x1="%.1f" x2="%.1f" y1="%.1f" y2="%.1f"/>`, colour, p.x(s.X[i]), p.x(s.X[i]), p.y(s.Low[i]), p.y(s.High[i]))
		}
	}
	class, y := "curve", s.Y
	if c.Smooth && len(s.Y) >= leastToSmooth {
		line(b, "raw", s.X, s.Y, colour, p)
		y = moving(s.Y, max(2, len(s.Y)/25))
	}
	line(b, class, s.X, y, colour, p)
	for i, v := range s.Y {
		alone := (i == 0 || !finite(s.Y[i-1])) && (i == len(s.Y)-1 || !finite(s.Y[i+1]))
		if finite(v) && (c.Dots || alone) {
			fmt.Fprintf(b, `<circle class="f%d" cx="%.1f" cy="%.1f" r="3"/>`, colour, p.x(s.X[i]), p.y(v))
		}
	}
}

const leastToSmooth = 30

func line(b *strings.Builder, class string, x, y []float64, colour int, p plane) {
	fmt.Fprintf(b, `<path class="%s c%d" d="`, class, colour)
	pen := "M"
	for i, v := range y {
		if !finite(v) {
			pen = "M"
			continue
		}
		fmt.Fprintf(b, "%s%.1f %.1f", pen, p.x(x[i]), p.y(v))
		pen = "L"
	}
	b.WriteString(`"/>`)
}

// moving is the mean over n values on each side.
func moving(y []float64, n int) []float64 {
	out := make([]float64, len(y))
	for i := range y {
		sum, count := 0.0, 0
		for _, v := range y[max(0, i-n):min(len(y), i+n+1)] {
			if finite(v) {
				sum, count = sum+v, count+1
			}
		}
		out[i] = sum / float64(count) // no number where there is none
	}
	return out
}

// stack draws areas on top of each other.
func stack(b *strings.Builder, series []Series, p plane) {
	if len(series) == 0 {
		return
	}
	base := make([]float64, len(series[0].X))
	for i, s := range series {
		fmt.Fprintf(b, `<path class="f%d" opacity=".8" d="`, i%colours)
		pen, upper := "M", slices.Clone(base)
		for k, v := range s.Y {
			if finite(v) {
				upper[k] += v
			}
			fmt.Fprintf(b, "%s%.1f %.1f", pen, p.x(s.X[k]), p.y(upper[k]))
			pen = "L"
		}
		for k := range slices.Backward(base) {
			fmt.Fprintf(b, "L%.1f %.1f", p.x(s.X[k]), p.y(base[k]))
		}
		b.WriteString(`Z"/>`)
		base = upper
	}
}

func legend(b *strings.Builder, series []Series) {
	b.WriteString(`<ul class="legend">`)
	for i, s := range series {
		fmt.Fprintf(b, `<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="f%d" width="10" height="10" rx="2"/></svg>%s</li>`, i%colours, html.EscapeString(s.Name))
	}
	b.WriteString("</ul>")
}

// hover is what the script needs, as JSON.
func (c Chart) hover(series []Series, p plane) string {
	type values struct {
		Name   string   `json:"name"`
		Values []string `json:"values"`
	}
	var xs []float64
	for _, s := range series {
		xs = append(xs, s.X...)
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	data := struct {
		X     [][2]any `json:"x"`
		Lines []values `json:"lines"`
		Left  int      `json:"left"`
		Right int      `json:"right"`
		Width int      `json:"width"`
		Label string   `json:"label"`
	}{Left: left, Right: right, Width: width, Label: c.XLabel}
	for _, x := range xs {
		data.X = append(data.X, [2]any{math.Round(10*p.x(x)) / 10, Number(x, "")})
	}
	for _, s := range series {
		v := values{Name: s.Name, Values: make([]string, len(xs))}
		if len(series) == 1 {
			v.Name = ""
		}
		for i, x := range s.X {
			k, _ := slices.BinarySearch(xs, x)
			if finite(s.Y[i]) {
				v.Values[k] = Number(s.Y[i], c.Unit)
				if s.Low != nil && finite(s.Low[i]) && finite(s.High[i]) {
					v.Values[k] += fmt.Sprintf(" (%s to %s)", Number(s.Low[i], c.Unit), Number(s.High[i], c.Unit))
				}
			}
		}
		data.Lines = append(data.Lines, v)
	}
	b, err := json.Marshal(data)
	if err != nil {
		panic(fmt.Sprintf("page: %v", err)) // finite numbers and text
	}
	return string(b)
}

// thin averages neighbours where there are more points than a screen shows.
func (s Series) thin() Series {
	if len(s.X) <= mostPoints || s.Low != nil {
		return s
	}
	out := Series{Name: s.Name}
	for k := range mostPoints {
		lo, hi := k*len(s.X)/mostPoints, (k+1)*len(s.X)/mostPoints
		sum, n := 0.0, 0
		for _, v := range s.Y[lo:hi] {
			if finite(v) {
				sum, n = sum+v, n+1
			}
		}
		out.X, out.Y = append(out.X, s.X[hi-1]), append(out.Y, sum/float64(n))
	}
	return out
}
