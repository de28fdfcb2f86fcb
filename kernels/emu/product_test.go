package emu_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/cuda"
	"tandem/kernels/emu"
)

// A card is an emulated device with what steers it.
type card struct {
	lib *emu.Library
	dev *cuda.Device
	q   kernels.Queue
}

func open(t testing.TB, library string, settings ...string) *card {
	t.Helper()
	file := emu.Find(library)
	if file == "" {
		t.Skipf("there is no %s, which make emu builds", library)
	}
	lib, err := emu.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defaults := []string{"plant", "", "seed", "1", "mma", "exact", "schedule", "random", "delay", "on", "races", "on", "threads", "0"}
	settings = append(defaults, settings...)
	for i := 0; i < len(settings); i += 2 {
		if err := lib.Set(settings[i], settings[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	dev, err := cuda.Open(cuda.Config{Driver: file})
	if err != nil {
		t.Fatal(err)
	}
	q, err := dev.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return &card{lib, dev, q}
}

func (c *card) set(t testing.TB, name, value string) {
	t.Helper()
	if err := c.lib.Set(name, value); err != nil {
		t.Fatal(err)
	}
}

// place puts values into memory of their own on the card, so that what lies after their end is not theirs.
func place[T any](t testing.TB, c *card, values []T) kernels.Ptr {
	t.Helper()
	n := len(values) * int(unsafe.Sizeof(values[0]))
	p, err := c.dev.Alloc(n)
	if err != nil {
		t.Fatal(err)
	}
	pinned, b, err := c.dev.Pinned(n)
	if err != nil {
		t.Fatal(err)
	}
	copy(b, unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), n))
	c.q.Copy(p, pinned, n)
	return p
}

// fetch copies n values back. The error is the queue's.
func fetch[T any](t testing.TB, c *card, p kernels.Ptr, n int) ([]T, error) {
	t.Helper()
	size := n * int(unsafe.Sizeof(*new(T)))
	pinned, b, err := c.dev.Pinned(size)
	if err != nil {
		return nil, err
	}
	c.q.Copy(pinned, p, size)
	if err := c.q.Sync(); err != nil {
		return nil, err
	}
	out := make([]T, n)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&out[0])), size), b)
	return out, nil
}

func bf16(x float32) uint16 {
	return uint16((math.Float32bits(x) + 0x7fff + math.Float32bits(x)>>16&1) >> 16)
}
func wide(x uint16) float32 { return math.Float32frombits(uint32(x) << 16) }

func randoms(r *rand.Rand, n int) []uint16 {
	x := make([]uint16, n)
	for i := range x {
		x[i] = bf16(float32(r.NormFloat64()))
	}
	return x
}

type productArgs struct {
	y, x, w kernels.Ptr
	T, N, K int32
	_       int32
}

var productOp = kernels.Op{Name: "product", Size: unsafe.Sizeof(productArgs{}), CUDA: func(_ kernels.GPU, args unsafe.Pointer) kernels.Grid {
	a := (*productArgs)(args)
	return kernels.Grid{X: int(a.T+63) / 64, Y: int(a.N+63) / 64, Threads: 128, Shared: 3 * 2 * 64 * 32 * 2}
}}

func launch[A any](q kernels.Queue, op *kernels.Op, args A) {
	q.Launch(kernels.Launch{Op: op, Items: 1, Args: unsafe.Slice((*byte)(unsafe.Pointer(&args)), unsafe.Sizeof(args))})
}

// product runs the kernel and compares every output with a float64 sum.
func product(t testing.TB, c *card, T, N, K int, r *rand.Rand) error {
	t.Helper()
	x, w := randoms(r, T*K), randoms(r, N*K)
	a := productArgs{x: place(t, c, x), w: place(t, c, w), T: int32(T), N: int32(N), K: int32(K)}
	y, err := c.dev.Alloc(4 * T * N)
	if err != nil {
		return err
	}
	a.y = y
	launch(c.q, &productOp, a)
	got, err := fetch[float32](t, c, y, T*N)
	if err != nil {
		return err
	}
	for i := range T {
		for j := range N {
			want, size := 0.0, 0.0
			for k := range K {
				p := float64(wide(x[i*K+k])) * float64(wide(w[j*K+k]))
				want += p
				size += math.Abs(p)
			}
			if g := float64(got[i*N+j]); !(math.Abs(g-want) <= size*float64(K)*0x1p-23) {
				return fmt.Errorf("y[%d, %d] is %g, want %g", i, j, g, want)
			}
		}
	}
	return nil
}

func long() bool { return os.Getenv("TANDEM_LONG") == "1" }

func schedules() int {
	if long() {
		return 1000
	}
	return 5
}

func TestProduct(t *testing.T) {
	for _, library := range []string{emu.Plain, emu.Checked} {
		for _, mma := range []string{"exact", "fast"} {
			c := open(t, library, "mma", mma)
			c.lib.Stats()
			for i, s := range [][3]int{{64, 64, 64}, {1, 8, 8}, {65, 72, 136}, {130, 63, 24}} {
				seed := rand.Uint64()
				c.set(t, "seed", strconv.FormatUint(seed, 10))
				if err := product(t, c, s[0], s[1], s[2], rand.New(rand.NewPCG(seed, uint64(i)))); err != nil {
					t.Fatalf("%s, mma %s, shape %v, seed %d: %v\n%s", library, mma, s, seed, err, c.lib.Report())
				}
			}
			c.dev.Close()
		}
	}
}

// Whatever the order of threads and blocks, a right kernel gives the right bits and no report.
func TestProductSchedules(t *testing.T) {
	c := open(t, emu.Checked)
	for i := range schedules() {
		seed := rand.Uint64()
		c.set(t, "seed", strconv.FormatUint(seed, 10))
		c.set(t, "schedule", []string{"random", "ahead"}[i%2])
		T, N, K := 1+rand.IntN(130), 1+rand.IntN(130), 8*(1+rand.IntN(16))
		if err := product(t, c, T, N, K, rand.New(rand.NewPCG(seed, 0))); err != nil {
			t.Fatalf("shape %d %d %d, seed %d: %v\n%s", T, N, K, seed, err, c.lib.Report())
		}
	}
}

// What a launch moved: known by hand for a product of whole tiles. A block reads its 64 rows of x and of w once; the fewest
// bytes are those of x and w once each.
func TestStats(t *testing.T) {
	c := open(t, emu.Checked)
	c.lib.Stats()
	const T, N, K = 128, 192, 64
	if err := product(t, c, T, N, K, rand.New(rand.NewPCG(1, 2))); err != nil {
		t.Fatal(err)
	}
	tiles := (T / 64) * (N / 64)
	want := emu.Stats{
		Launches: 1, Blocks: tiles, Phases: tiles * 4 * (K / 16) * 4 * 4,
		Read: tiles * 2 * 64 * K * 2, ReadLeast: (T + N) * K * 2, Written: T * N * 4, WrittenLeast: T * N * 4,
	}
	if got := c.lib.Stats()["product"]; got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
}
