package emu_test

import (
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"tandem/kernels"
	"tandem/kernels/emu"
)

// A reader on one queue of what another queue writes: right whenever it waits for the mark, and under some order wrong
// when it does not.
func TestMissingWait(t *testing.T) {
	c := open(t, emu.Plain)
	other, err := c.dev.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	const n = 4
	zeros := place(t, c, make([]float32, n))
	ones := place(t, c, []float32{1, 1, 1, 1})
	between, _ := c.dev.Alloc(4 * n)
	out, b, err := c.dev.Pinned(4 * n)
	if err != nil {
		t.Fatal(err)
	}
	trial := func(seed int, wait bool) bool {
		c.set(t, "seed", strconv.Itoa(seed))
		c.q.Copy(between, zeros, 4*n)
		if err := c.q.Sync(); err != nil {
			t.Fatal(err)
		}
		c.q.Copy(between, ones, 4*n)
		m := c.q.Mark()
		if wait {
			other.After(m)
		}
		other.Copy(out, between, 4*n)
		if err := other.Sync(); err != nil {
			t.Fatal(err)
		}
		if err := c.q.Sync(); err != nil {
			t.Fatal(err)
		}
		return b[3] != 0
	}
	stale := 0
	for seed := range 20 {
		if !trial(seed, true) {
			t.Errorf("seed %d: a copy that waits reads old values", seed)
		}
		if !trial(seed, false) {
			stale++
		}
	}
	if stale == 0 {
		t.Error("a copy that does not wait read new values under 20 seeds")
	}
}

// A failure stays until the device is closed, and a new device knows nothing of it.
func TestFailureStays(t *testing.T) {
	c := open(t, emu.Plain, "plant", "")
	bad := rowsArgs{y: 4096, x: 4096, stride: 4, T: 1, K: 4}
	launch(c.q, &rowsOp, bad)
	err := c.q.Sync()
	if err == nil || !strings.Contains(err.Error(), "rows") {
		t.Fatalf("a kernel that reads nowhere gives %v", err)
	}
	t.Log(err)
	if _, err := c.dev.Alloc(64); err == nil {
		t.Error("memory is to be had after a failure")
	}
	c.dev.Close()
	c = open(t, emu.Plain)
	if err := rows(t, c, 3, 64, rand.New(rand.NewPCG(1, 1))); err != nil {
		t.Errorf("after a failure of another device: %v", err)
	}
}

// A graph runs with the arguments it was captured with, in an order that its events allow.
func TestGraph(t *testing.T) {
	c := open(t, emu.Plain)
	const T, K = 3, 64
	values := make([]float32, T*K)
	for i := range values {
		values[i] = 1
	}
	x := place(t, c, values)
	y, _ := c.dev.Alloc(4 * T)
	for round := range 3 {
		c.set(t, "seed", strconv.Itoa(round))
		c.q.Repeat(7, func() {
			launch(c.q, &rowsOp, rowsArgs{y: y, x: x, stride: K, stride32: K, T: T, K: K})
			c.q.Copy(x, y, 4*T)
		})
		got, err := fetch[float32](t, c, kernels.Ptr(y), T)
		if err != nil {
			t.Fatal(err)
		}
		want := []float32{64, 61 + 3*64, 61 + 253 + 64 + 64}[round]
		if got[0] != want || got[2] != K {
			t.Errorf("run %d: sums %v, want %g first", round, got, want)
		}
	}
}
