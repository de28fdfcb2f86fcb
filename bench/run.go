package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"tandem/kernels"
	"tandem/model"
)

// A Result is a case with its time, and that of a yardstick if there is one.
type Result struct {
	Model string `json:"model"`
	Case
	Micros    float64 `json:"us"`
	Yardstick string  `json:"yardstick,omitempty"` // what it was measured against
	Against   float64 `json:"yardstick_us,omitempty"`
	Failed    string  `json:"failed,omitempty"`
}

// A Report is what a run of the kernels' benches found.
type Report struct {
	Device  string    `json:"device"`
	Date    string    `json:"date"`
	Facts   []string  `json:"facts"`     // clocks, power, versions: as the caller knows them
	CopyGBs float64   `json:"copy_gb_s"` // bytes read and written by the device's own copy
	Matrix  float64   `json:"matrix_tflop_s,omitempty"`
	Results []Result  `json:"results"`
	Systems []System  `json:"systems,omitempty"`
	Begun   time.Time `json:"-"`
}

// Kernels measures all cases of the models, in memory of the given size on the device, and tells say of each.
func Kernels(dev kernels.Device, models []string, z Sizes, bytes int, say func(Result)) (*Report, error) {
	b, err := newBed(dev, bytes)
	if err != nil {
		return nil, err
	}
	r := &Report{Device: dev.Name(), Date: time.Now().UTC().Format("2006-01-02")}
	if r.CopyGBs, err = b.copyRate(); err != nil {
		return nil, err
	}
	for _, name := range models {
		c, err := model.Shape(name)
		if err != nil {
			return nil, err
		}
		for _, k := range Cases(c, z) {
			res := Result{Model: name, Case: k}
			if res.Micros, err = b.measure(k); err != nil {
				return nil, fmt.Errorf("bench: %s %s: %w", k.Kernel, k.Shape, err)
			}
			r.Results = append(r.Results, res)
			say(res)
		}
	}
	return r, nil
}

// measure times a case in fresh memory.
func (b *bed) measure(k Case) (float64, error) {
	b.used = 0
	f := k.setup(b)
	if err := b.q.Sync(); err != nil {
		return 0, err
	}
	return b.time(f)
}

// copyRate is the gigabytes that are read and written in a second by a copy of what is larger than any cache.
func (b *bed) copyRate() (float64, error) {
	n := min(1<<30, b.bytes/2)
	us, err := b.time(func() { b.q.Copy(b.arena, b.arena+kernels.Ptr(n), n) })
	return 2 * float64(n) / us / 1e3, err
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}

// String is the letters with their values.
func (s Shape) String() string {
	var f []string
	for _, l := range []struct {
		name string
		n    int
	}{{"T", s.T}, {"N", s.N}, {"K", s.K}, {"S", s.S}, {"C", s.C}, {"H", s.H}, {"G", s.G}, {"E", s.E}} {
		if l.n != 0 {
			f = append(f, fmt.Sprintf("%s=%d", l.name, l.n))
		}
	}
	return strings.Join(f, " ")
}

// Yardsticks reads what yardsticks.py wrote, one JSON object a line, and sets each beside the case of its kernel and shape.
func (r *Report) Yardsticks(in io.Reader) error {
	d := json.NewDecoder(in)
	for {
		var y struct {
			Kernel string  `json:"kernel"`
			Shape  Shape   `json:"shape"`
			By     string  `json:"by"`
			Micros float64 `json:"us"`
			TFlops float64 `json:"tflop_s"`
			Fact   string  `json:"fact"`
		}
		if err := d.Decode(&y); err == io.EOF {
			return nil
		} else if err != nil {
			return fmt.Errorf("bench: yardsticks: %w", err)
		}
		switch {
		case y.Fact != "":
			r.Facts = append(r.Facts, y.Fact)
		case y.TFlops != 0:
			r.Matrix = y.TFlops
		}
		for i := range r.Results {
			if c := &r.Results[i]; c.Kernel == y.Kernel && c.Shape == y.Shape {
				c.Yardstick, c.Against = y.By, y.Micros
			}
		}
	}
}

// Table is the report for a reader.
func (r *Report) Table() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s, %s\n\n", r.Device, r.Date)
	for _, f := range r.Facts {
		fmt.Fprintf(&b, "- %s\n", f)
	}
	fmt.Fprintf(&b, "- a copy moves %.0f GB/s (read and written): 100 %% of bandwidth below\n", r.CopyGBs)
	if r.Matrix > 0 {
		fmt.Fprintf(&b, "- cuBLAS reaches %.0f TFLOP/s on bfloat16 of 8192³: 100 %% of matrix rate below\n", r.Matrix)
	}
	b.WriteString("\nRandom data; medians of five rounds. Ratio is the yardstick's time over ours: above 1 we are faster.\n\n")
	b.WriteString("| model | kernel | shape | µs | TFLOP/s | % of matrix rate | GB/s | % of copy | yardstick | its µs | ratio |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, x := range r.Results {
		rate, share, against, ratio := "", "", "", ""
		if x.Flops > 0 {
			rate = fmt.Sprintf("%.0f", float64(x.Flops)/x.Micros/1e6)
			if r.Matrix > 0 {
				share = fmt.Sprintf("%.0f", float64(x.Flops)/x.Micros/1e4/r.Matrix)
			}
		}
		if x.Against > 0 {
			against, ratio = fmt.Sprintf("%.1f", x.Against), fmt.Sprintf("%.2f", x.Against/x.Micros)
		}
		gbs := float64(x.Bytes) / x.Micros / 1e3
		fmt.Fprintf(&b, "| %s | %s | %s | %.1f | %s | %s | %.0f | %.0f | %s | %s | %s |\n", x.Model, x.Kernel, x.Shape, x.Micros, rate, share, gbs, 100*gbs/r.CopyGBs, x.Yardstick, against, ratio)
	}
	for _, s := range r.Systems {
		fmt.Fprintf(&b, "\n**%s**: %s\n", s.Name, s.Text)
	}
	return b.String()
}
