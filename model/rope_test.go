package model

import (
	"encoding/json"
	"math"
	"os"
	"testing"
)

// TestRopeTable compares with torch (testdata/gen_golden.py). torch's float32 power, cosine and sine are right to a unit
// in the last place each, so an angle may differ by two units and its cosine by that and one unit of its own.
func TestRopeTable(t *testing.T) {
	var golden struct {
		Cases []struct {
			HeadDim   int             `json:"head_dim"`
			Theta     float64         `json:"rope_theta"`
			YaRN      json.RawMessage `json:"yarn"`
			Positions []int           `json:"positions"`
			Cos       [][]float32     `json:"cos"` // [positions][E/2]
			Sin       [][]float32     `json:"sin"`
		} `json:"cases"`
	}
	text, err := os.ReadFile("testdata/rope.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &golden); err != nil {
		t.Fatal(err)
	}
	if len(golden.Cases) == 0 {
		t.Fatal("no cases")
	}
	const ulp = 1.0 / (1 << 23)
	same, all := 0, 0
	for _, g := range golden.Cases {
		c := Config{HeadDim: g.HeadDim, MaxPositions: 32768}
		f := configFile{RopeTheta: &g.Theta, RopeScaling: g.YaRN}
		if err := f.rope(&c); err != nil {
			t.Fatal(err)
		}
		last := g.Positions[len(g.Positions)-1]
		cos, sin := c.RopeTable(last + 1)
		half := g.HeadDim / 2
		if len(cos) != (last+1)*half || len(sin) != len(cos) {
			t.Fatalf("E %d: table has %d and %d entries, want %d", g.HeadDim, len(cos), len(sin), (last+1)*half)
		}
		freq := c.frequencies()
		for k, p := range g.Positions {
			for i := range half {
				tol := ulp * (2*float64(p)*float64(freq[i]) + 1)
				if y := c.RopeScaling; y != nil {
					tol *= y.Attention
				}
				for _, v := range []struct {
					name      string
					got, want float32
				}{{"cos", cos[p*half+i], g.Cos[k][i]}, {"sin", sin[p*half+i], g.Sin[k][i]}} {
					all++
					if v.got == v.want {
						same++
					}
					if d := math.Abs(float64(v.got) - float64(v.want)); !(d <= tol) {
						t.Errorf("E %d theta %g yarn %s: %s of position %d pair %d is %v, want %v within %.2g",
							g.HeadDim, g.Theta, g.YaRN, v.name, p, i, v.got, v.want, tol)
					}
				}
			}
		}
	}
	t.Logf("%d of %d values have the same bits", same, all)
	if same*10 < all*9 { // measured: 96 %; far fewer would mean another rounding of the angle
		t.Errorf("only %d of %d values have torch's bits", same, all)
	}
}

func BenchmarkRopeTable(b *testing.B) {
	c, err := Shape("8b")
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		c.RopeTable(c.MaxPositions)
	}
}
