package page

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestNumber(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		unit string
		want string
	}{
		{0, "", "0"}, {1, "", "1"}, {-3, "", "-3"}, {0.5, "", "0.5"}, {0.005, "", "0.005"}, {1e-6, "", "1.0e-06"}, {99999, "", "99999"}, {1234567, "", "1.2 M"},
		{0.123456, "share", "12.3 %"}, {1, "share", "100 %"}, {1536, "bytes", "1.5 KiB"}, {3 << 30, "bytes", "3 GiB"},
		{0.0000012, "seconds", "1 µs"}, {0.25, "seconds", "250 ms"}, {61, "seconds", "61 s"}, {3600, "seconds", "1 h 00 min"}, {125, "seconds", "2 min 05 s"},
		{math.NaN(), "share", "–"}, {math.NaN(), "seconds", "–"}, {1500, "tokens", "1500"},
	} {
		if got := Number(tt.v, tt.unit); got != tt.want {
			t.Errorf("%v %s is %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}

func TestTicksCover(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 2000 {
		lo := (rng.Float64() - 0.5) * math.Pow(10, rng.Float64()*20-10)
		hi := lo + rng.Float64()*math.Pow(10, rng.Float64()*20-10)
		ticks := Ticks(lo, hi, 4)
		eps := 1e-6 * max(math.Abs(lo), math.Abs(hi), hi-lo)
		if n := len(ticks); n < 2 || n > 7 || ticks[0] > lo+eps || ticks[n-1] < hi-eps {
			t.Errorf("%v to %v: ticks %v", lo, hi, ticks)
		}
	}
	if ticks := Ticks(3, 3, 4); len(ticks) < 2 {
		t.Errorf("one value: ticks %v", ticks)
	}
}

// TestChartsOfAwkwardValues draws what a run may have.
func TestChartsOfAwkwardValues(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	var long Series
	for i := range 5000 {
		long.X, long.Y = append(long.X, float64(i)), append(long.Y, rand.Float64())
	}
	for i, s := range [][]Series{
		nil, {{}}, {{X: []float64{1}, Y: []float64{nan}}}, {{X: []float64{1}, Y: []float64{2}}}, {{X: []float64{1, 2, 3}, Y: []float64{5, nan, 5}}},
		{{X: []float64{1, 2}, Y: []float64{1e300, -1e300}}}, {{X: []float64{1, 2}, Y: []float64{inf, 1}}}, {{X: []float64{1, 2}, Y: []float64{0, 0}}, {Name: "<b>", X: []float64{2, 9}, Y: []float64{-1e-300, 0}}},
		{{X: []float64{1, 2}, Y: []float64{.5, .5}, Low: []float64{.4, nan}, High: []float64{.6, nan}}}, {long},
	} {
		for _, stacked := range []bool{false, true} {
			html := string(Chart{Title: "t & <i>", Unit: "share", XLabel: "step", Series: s, Stacked: stacked && len(s) == 1, Smooth: true, Dots: true}.HTML())
			if strings.Contains(html, "<b>") || strings.Contains(html, "<i>") || strings.Contains(html, "NaN") || strings.Contains(html, "Inf") || len(html) > 100_000 {
				t.Errorf("chart %d, stacked %v: %d bytes, %.400s", i, stacked, len(html), html)
			}
		}
	}
	if html := string(Bars("t", "seconds", []Bar{{"<b>", 1}, {"none", 0}})); strings.Contains(html, "<b>") || !strings.Contains(html, "100 %") {
		t.Error(html)
	}
	if html := fmt.Sprint(Bars("t", "seconds", nil)); strings.Contains(html, "NaN") {
		t.Error(html)
	}
}
