// Package page makes pages that need nothing but themselves: a style for light, dark, phones and paper, charts as SVG, and
// a script that shows the values under the pointer. What is put on a page is escaped by html/template or here.
package page

import (
	"html/template"

	_ "embed"
)

//go:embed style.css
var style string

//go:embed hover.js
var hover string

// Style is the style sheet of every page.
func Style() template.CSS { return template.CSS(style) }

// Script shows the values of charts under the pointer. A page reads well without it.
func Script() template.JS { return template.JS(hover) }
