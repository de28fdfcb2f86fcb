package cuda_test

import (
	"testing"

	"tandem/kernels/cuda"
)

// What is replayed is what was recorded: f runs once a key.
func TestRepeat(t *testing.T) {
	for _, check := range []bool{false, true} {
		d := open(t, cuda.Config{Check: check})
		q := d.queue()
		p, x := d.ints(2)
		src, one := d.ints(2)
		calls := 0
		step := func(n int) func() {
			return func() {
				calls++
				launch(q, op("add"), addArgs{p, src, int64(n)})
				q.Repeat(7, func() { launch(q, op("add"), addArgs{p, src, int64(n)}) }) // part of this one
				q.Copy(p+4, p, 4)
			}
		}
		for i := range 4 {
			one[0] = int32(i + 1) // what changes lies in memory
			q.Repeat(1, step(1))
			q.Repeat(2, step(2))
			if err := q.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		if x[0] != 40 || x[1] != 40 {
			t.Errorf("check %v: %v, want 40", check, x)
		}
		if want := map[bool]int{false: 2, true: 8}[check]; calls != want {
			t.Errorf("check %v: f was called %d times, want %d", check, calls, want)
		}
		d.close()
	}
}

// A failure within a recording ends it, is reported, and leaves the stream usable by those who clean up.
func TestRepeatFails(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(d card, q *cuda.Queue)
		says []string
	}{
		{"no such kernel", func(_ card, q *cuda.Queue) { launch(q, op("gone"), addArgs{}) }, []string{"kernel gone"}},
		{"Sync", func(_ card, q *cuda.Queue) { q.Sync() }, []string{"Sync inside of Repeat(3)"}},
		{"Host", func(_ card, q *cuda.Queue) { q.Host(func() {}) }, []string{"Host inside of Repeat(3)"}},
		{"Mark", func(_ card, q *cuda.Queue) { q.Mark() }, []string{"Mark inside of Repeat(3)"}},
		{"After", func(d card, q *cuda.Queue) { q.After(d.queue().Mark()) }, []string{"After inside of Repeat(3)"}},
		{"Time", func(d card, q *cuda.Queue) { _, _ = q.Time(func() {}) }, []string{"Time inside of Repeat(3)"}},
	} {
		for _, check := range []bool{false, true} {
			t.Run(c.name, func(t *testing.T) {
				d := open(t, cuda.Config{Check: check})
				q := d.queue()
				q.Repeat(3, func() { c.f(d, q) })
				says(t, q.Sync(), c.says...)
			})
		}
	}
	t.Run("a graph that can't be made", func(t *testing.T) {
		d := open(t, cuda.Config{}, "INSTANTIATE=2")
		q := d.queue()
		q.Repeat(3, func() { launch(q, op("add"), addArgs{}) })
		says(t, q.Sync(), "make a graph of Repeat(3): add", "cuGraphInstantiateWithFlags", "CUDA_ERROR_OUT_OF_MEMORY")
	})
	t.Run("a panic", func(t *testing.T) {
		d := open(t, cuda.Config{})
		q := d.queue()
		func() {
			defer func() {
				if r := recover(); r != "misuse" {
					t.Errorf("panics with %v", r)
				}
			}()
			q.Repeat(3, func() { panic("misuse") })
		}()
		p, x := d.ints(1)
		src, one := d.ints(1)
		one[0] = 5
		q.Repeat(3, func() { launch(q, op("add"), addArgs{p, src, 1}) })
		if err := q.Sync(); err != nil || x[0] != 5 {
			t.Errorf("afterwards: %v, %v", x, err)
		}
	})
}

// A device that checks finds what a replay would have done otherwise.
func TestRepeatChecks(t *testing.T) {
	for _, c := range []struct {
		name string
		f    func(d card, q *cuda.Queue, i int)
		says []string
	}{
		{"an argument", func(_ card, q *cuda.Queue, i int) { launch(q, op("empty"), addArgs{N: int64(i)}) },
			[]string{"Repeat(4), step 0, empty on (2, 1) blocks", "from byte 16 on the arguments are 01 00 00 00 00 00 00 00 and were 00 00 00 00 00 00 00 00 at first"}},
		{"another kernel", func(_ card, q *cuda.Queue, i int) { launch(q, op([]string{"empty", "add"}[i]), addArgs{}) },
			[]string{"Repeat(4), step 0: add on", "at first it was empty on"}},
		{"more", func(_ card, q *cuda.Queue, i int) {
			for range i + 1 {
				launch(q, op("empty"), addArgs{})
			}
		}, []string{"Repeat(4), step 1: empty on", "a replay would leave it out"}},
		{"less", func(_ card, q *cuda.Queue, i int) {
			for range 2 - i {
				launch(q, op("empty"), addArgs{})
			}
		}, []string{"Repeat(4) ends before step 1, empty on"}},
		{"another copy", func(d card, q *cuda.Queue, i int) {
			p, _ := d.ints(8)
			q.Copy(p, p, 4+4*i)
		}, []string{"Repeat(4), step 0: copy of 8 bytes", "at first it was copy of 4 bytes"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := open(t, cuda.Config{Check: true})
			q := d.queue()
			for i := range 2 {
				q.Repeat(4, func() { c.f(d, q, i) })
				if i == 0 {
					if err := q.Sync(); err != nil {
						t.Fatal(err)
					}
				}
			}
			says(t, q.Sync(), c.says...)
		})
	}
}
