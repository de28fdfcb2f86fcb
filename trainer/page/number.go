package page

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Number is a value of a unit for people: share, seconds, bytes, or any other name, which is left out.
func Number(v float64, unit string) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case unit == "share":
		return trimmed(100*v, 1) + " %"
	case unit == "bytes":
		return scaled(v, 1024, []string{"B", "KiB", "MiB", "GiB", "TiB"})
	case unit == "seconds":
		return Seconds(v)
	}
	a := math.Abs(v)
	switch {
	case a == 0:
		return "0"
	case a >= 1e5:
		return scaled(v, 1000, []string{"", "k", "M", "G", "T"})
	case v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 100:
		return trimmed(v, 1)
	case a >= 0.01:
		return trimmed(v, 3)
	case a >= 0.001:
		return trimmed(v, 4)
	}
	return strconv.FormatFloat(v, 'e', 1, 64)
}

// Seconds is a time for people.
func Seconds(s float64) string {
	switch {
	case math.IsNaN(s):
		return "–"
	case s >= 3600:
		return fmt.Sprintf("%d h %02d min", int(s)/3600, int(s)/60%60)
	case s >= 120:
		return fmt.Sprintf("%d min %02d s", int(s)/60, int(s)%60)
	case s >= 1 || s == 0:
		return trimmed(s, 1) + " s"
	case s >= 1e-3:
		return trimmed(1000*s, 1) + " ms"
	}
	return trimmed(1e6*s, 0) + " µs"
}

func trimmed(v float64, digits int) string {
	s := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Contains(s, ".") {
		s = strings.TrimRight(strings.TrimRight(s, "0"), ".")
	}
	return s
}

func scaled(v, by float64, units []string) string {
	i := 0
	for math.Abs(v) >= by && i < len(units)-1 {
		v, i = v/by, i+1
	}
	return strings.TrimSpace(trimmed(v, 1) + " " + units[i])
}

// Ticks are round numbers that cover lo to hi, n or so.
func Ticks(lo, hi float64, n int) []float64 {
	if size := max(math.Abs(lo), math.Abs(hi)); !(hi-lo > 1e-9*size) { // one value, but for rounding
		lo, hi = lo-max(size, 1)/2, hi+max(size, 1)/2
	}
	step := math.Pow(10, math.Floor(math.Log10((hi-lo)/float64(n))))
	for _, m := range []float64{1, 2, 5, 10} {
		if (hi-lo)/(m*step) <= float64(n) {
			step *= m
			break
		}
	}
	var ticks []float64
	for k := math.Floor(lo/step + 1e-9); ; k++ {
		ticks = append(ticks, k*step)
		if k*step >= hi-1e-9*step || len(ticks) > 4*n {
			return ticks
		}
	}
}
