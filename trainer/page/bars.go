package page

import (
	"fmt"
	"html"
	"html/template"
	"strings"
)

// A Bar is a length with a name.
type Bar struct {
	Name  string
	Value float64
}

// Bars draws shares of a whole as one bar, with a legend of names, values and shares.
func Bars(title, unit string, bars []Bar) template.HTML {
	total := 0.0
	for _, b := range bars {
		total += b.Value
	}
	var out strings.Builder
	fmt.Fprintf(&out, `<figure class="wide"><figcaption>%s</figcaption>`, html.EscapeString(title))
	if !(total > 0) {
		out.WriteString(`<p class="soft">no values</p></figure>`)
		return template.HTML(out.String())
	}
	fmt.Fprintf(&out, `<svg viewBox="0 0 1000 34" preserveAspectRatio="none" style="height:2rem" role="img" aria-label="%s">`, html.EscapeString(title))
	at := 0.0
	for i, b := range bars {
		w := 1000 * b.Value / total
		fmt.Fprintf(&out, `<rect class="f%d" x="%.2f" y="0" width="%.2f" height="34"><title>%s</title></rect>`, i%colours, at, w, html.EscapeString(label(b, total, unit)))
		at += w
	}
	out.WriteString(`</svg><ul class="legend">`)
	for i, b := range bars {
		fmt.Fprintf(&out, `<li><svg viewBox="0 0 10 10" aria-hidden="true"><rect class="f%d" width="10" height="10" rx="2"/></svg>%s</li>`, i%colours, html.EscapeString(label(b, total, unit)))
	}
	out.WriteString("</ul></figure>")
	return template.HTML(out.String())
}

func label(b Bar, total float64, unit string) string {
	return fmt.Sprintf("%s %s, %s", b.Name, Number(b.Value, unit), Number(b.Value/total, "share"))
}
