package answer

import (
	"math/big"
	"strconv"
	"strings"
)

// A unit is what a number counts: the base of its name's kind, a power, and, where the
// unit is a known one, its size in the kind's smallest common unit.
type unit struct {
	name  string
	power int
}

func (u unit) String() string {
	if u.power == 1 || u.name == "" {
		return u.name
	}
	return u.name + "^" + strconv.Itoa(u.power)
}

// sizes gives each known unit its kind and its size. Kinds are never converted into
// each other, so metric and imperial lengths are two kinds.
var sizes = map[string]struct {
	kind string
	size int64
}{
	"mm": {"length", 1}, "cm": {"length", 10}, "dm": {"length", 100}, "m": {"length", 1000}, "km": {"length", 1000000},
	"in": {"span", 1}, "ft": {"span", 12}, "yd": {"span", 36}, "mi": {"span", 63360},
	"s": {"time", 1}, "min": {"time", 60}, "h": {"time", 3600}, "day": {"time", 86400}, "week": {"time", 604800}, "year": {"year", 12}, "month": {"year", 1},
	"mg": {"mass", 1}, "g": {"mass", 1000}, "kg": {"mass", 1000000}, "oz": {"weight", 1}, "lb": {"weight", 16},
	"ml": {"volume", 1}, "l": {"volume", 1000}, "cent": {"money", 1}, "dollar": {"money", 100},
	"am": {"morning", 1}, "pm": {"evening", 1},
}

var unitNames = map[string]string{
	"millimeter": "mm", "millimetre": "mm", "centimeter": "cm", "centimetre": "cm", "decimeter": "dm", "meter": "m", "metre": "m", "kilometer": "km", "kilometre": "km",
	"inch": "in", "inche": "in", "foot": "ft", "feet": "ft", "yard": "yd", "mile": "mi", "second": "s", "sec": "s", "minute": "min", "hour": "h", "hr": "h",
	"milligram": "mg", "gram": "g", "gm": "g", "kilogram": "kg", "ounce": "oz", "pound": "lb", "milliliter": "ml", "liter": "l", "litre": "l", "¢": "cent",
}

// bareUnits are the units that may follow a number without \text.
var bareUnits = set("mm", "cm", "km", "ft", "feet", "foot", "inch", "inches", "yd", "yard", "yards", "mile", "miles", "kg", "mg", "ml", "lb", "lbs", "oz",
	"mph", "hr", "hrs", "hour", "hours", "min", "mins", "day", "days", "week", "weeks", "year", "years", "month", "months", "cent", "cents",
	"unit", "units", "per", "st", "nd", "rd", "th", "square", "cubic", "sq", "cu", "degree", "degrees", "meter", "meters", "metre", "metres", "gram", "grams", "liter", "liters",
	"dollar", "dollars", "percent", "ways", "times", "people", "items", "cups", "pages", "eggs", "apples", "minutes", "seconds", "pounds")

// unitOf reads the words of a label.
func unitOf(fields []string) unit {
	u := unit{power: 1}
	var name []string
	for _, w := range fields {
		w = strings.ToLower(strings.Trim(w, ".,()"))
		switch w {
		case "square", "sq", "squared":
			u.power = 2
		case "cubic", "cu", "cubed":
			u.power = 3
		default:
			name = append(name, w)
		}
	}
	u.name = strings.Join(name, " ")
	if base, exp, ok := strings.Cut(u.name, "^"); ok {
		u.name = base
		if n, err := strconv.Atoi(strings.Trim(exp, "{}")); err == nil && n > 0 && n < 10 {
			u.power = n
		}
	}
	single := u.name
	if _, ok := sizes[single]; !ok && len(single) > 2 {
		single = strings.TrimSuffix(single, "s")
	}
	if short, ok := unitNames[single]; ok {
		u.name = short
	} else if _, ok := sizes[single]; ok {
		u.name = single
	}
	return u
}

// ratio is how many units b one unit a is. known is false where one of them is no unit
// that this package knows, and then they are not compared; ok is false where they
// measure different things.
func (a unit) ratio(b unit) (r *big.Rat, known, ok bool) {
	x, okX := sizes[a.name]
	y, okY := sizes[b.name]
	if !okX || !okY {
		return nil, false, true
	}
	if x.kind != y.kind || a.power != b.power {
		return nil, true, false
	}
	r = big.NewRat(1, 1)
	for range a.power {
		r.Mul(r, big.NewRat(x.size, y.size))
	}
	return r, true, true
}
