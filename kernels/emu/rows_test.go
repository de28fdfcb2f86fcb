package emu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/emu"
)

type rowsArgs struct {
	y, x     kernels.Ptr
	stride   int64
	T, K     int32
	stride32 int32
	_        int32
}

var rowsOp = kernels.Op{Name: "rows", Size: unsafe.Sizeof(rowsArgs{}), CUDA: func(_ kernels.GPU, args unsafe.Pointer) kernels.Grid {
	return kernels.Grid{X: int((*rowsArgs)(args).T), Y: 1, Threads: 128, Shared: 256}
}}

// rows sums rows on the card and compares.
func rows(t testing.TB, c *card, T, K int, r *rand.Rand) error {
	t.Helper()
	x := make([]float32, T*K)
	for i := range x {
		x[i] = float32(r.NormFloat64())
	}
	a := rowsArgs{x: place(t, c, x), stride: int64(K), stride32: int32(K), T: int32(T), K: int32(K)}
	return sums(t, c, a, x)
}

func sums(t testing.TB, c *card, a rowsArgs, x []float32) error {
	t.Helper()
	y, err := c.dev.Alloc(4 * int(a.T))
	if err != nil {
		return err
	}
	a.y = y
	launch(c.q, &rowsOp, a)
	got, err := fetch[float32](t, c, y, int(a.T))
	if err != nil {
		return err
	}
	K := int(a.K)
	for i, g := range got {
		want, size := 0.0, 0.0
		for _, v := range x[i*K : i*K+K] {
			want += float64(v)
			size += math.Abs(float64(v))
		}
		if !(math.Abs(float64(g)-want) <= size*float64(K)*0x1p-24) {
			return fmt.Errorf("y[%d] is %g, want %g", i, g, want)
		}
	}
	return nil
}

func TestRowsSchedules(t *testing.T) {
	c := open(t, emu.Checked)
	for i := range schedules() {
		seed := rand.Uint64()
		c.set(t, "seed", strconv.FormatUint(seed, 10))
		c.set(t, "schedule", []string{"random", "ahead"}[i%2])
		T, K := 1+rand.IntN(20), 4*(1+rand.IntN(200))
		if err := rows(t, c, T, K, rand.New(rand.NewPCG(seed, 0))); err != nil {
			t.Fatalf("shape %d %d, seed %d: %v\n%s", T, K, seed, err, c.lib.Report())
		}
	}
}

// far sums rows of a tensor of more than 2^31 elements, of which few are ever touched.
func far(t testing.TB, c *card, _ *rand.Rand) error {
	t.Helper()
	const stride, T, K = 1 << 30, 4, 8
	x, err := c.dev.Alloc(4 * (stride*(T-1) + K))
	if err != nil {
		return err
	}
	values := make([]float32, T*K)
	for i := range values {
		values[i] = float32(i)
	}
	from := place(t, c, values)
	for i := range T {
		c.q.Copy(x+kernels.Ptr(4*stride*i), from+kernels.Ptr(4*K*i), 4*K)
	}
	return sums(t, c, rowsArgs{x: x, stride: stride, stride32: stride, T: T, K: K}, values)
}

func TestFar(t *testing.T) {
	for _, library := range []string{emu.Plain, emu.Checked} {
		c := open(t, library, "memory", "32G")
		if err := far(t, c, nil); err != nil {
			t.Errorf("%s: %v\n%s", library, err, c.lib.Report())
		}
		c.dev.Close()
	}
}
