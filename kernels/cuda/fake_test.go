package cuda_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"tandem/kernels"
	"tandem/kernels/cuda"
)

// images are for every card; the driver of these tests takes their text for the names of what is in them.
func images() cuda.Images {
	m := cuda.Images{CUDA: "13.0"}
	for _, name := range []string{"fake.sm_90a.cubin", "fake.sm_100a.cubin", "fake.compute_90.ptx"} {
		m.List = append(m.List, cuda.Image{Name: name, Entries: []string{"add", "empty", "fault"}, Data: []byte("add empty fault")})
	}
	return m
}

// folderVariable and reportVariable name the folder of compiled drivers, and where these report.
const (
	folderVariable = "FAKE_DRIVER_FOLDER"
	reportVariable = "FAKE_DRIVER_REPORT"
)

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tandem-driver-")
	if err != nil {
		log.Fatal(err)
	}
	os.Setenv(folderVariable, dir)
	os.Setenv(reportVariable, filepath.Join(dir, "report"))
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// compile makes a driver of testdata/driver.c with macros such as MAJOR=8, once for all tests that want the same.
func compile(t testing.TB, macros ...string) string {
	t.Helper()
	name := fmt.Sprintf("libcuda-%x.so", sha256.Sum256([]byte(strings.Join(macros, " "))))
	file := filepath.Join(os.Getenv(folderVariable), name)
	if _, err := os.Stat(file); err == nil {
		return file
	}
	args := []string{"-shared", "-fPIC", "-O1", "-o", file}
	for _, m := range macros {
		args = append(args, "-D"+m)
	}
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if out, err := exec.Command(cc, append(args, "testdata/driver.c")...).CombinedOutput(); err != nil {
		if errors.Is(err, exec.ErrNotFound) {
			t.Skip("there is no C compiler")
		}
		t.Fatalf("compile the driver: %v\n%s", err, out)
	}
	return file
}

// A card is an open device whose driver tells at the end what was not given back.
type card struct {
	*cuda.Device
	t testing.TB
}

func open(t testing.TB, cfg cuda.Config, macros ...string) card {
	t.Helper()
	cfg.Driver = compile(t, macros...)
	if cfg.Images.List == nil {
		cfg.Images = images()
	}
	dev, err := cuda.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	c := card{dev, t}
	t.Cleanup(c.close)
	return c
}

func (c card) close() {
	c.t.Helper()
	if err := c.Close(); err != nil {
		c.t.Errorf("close: %v", err)
	}
	b, err := os.ReadFile(os.Getenv(reportVariable))
	if want := "contexts 0 modules 0 streams 0 events 0 graphs 0 arenas 0 hosts 0 taken 0\n"; err != nil || string(b) != want {
		c.t.Errorf("left on the card: %s %v", b, err)
	}
}

func (c card) queue() *cuda.Queue {
	c.t.Helper()
	q, err := c.NewQueue()
	if err != nil {
		c.t.Fatal(err)
	}
	return q.(*cuda.Queue)
}

// ints is pinned memory for n numbers.
func (c card) ints(n int) (kernels.Ptr, []int32) {
	c.t.Helper()
	p, b, err := c.Pinned(4 * n)
	if err != nil {
		c.t.Fatal(err)
	}
	return p, unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), n)
}

type addArgs struct {
	Dst, Src kernels.Ptr
	N        int64
}

// op is an operation whose kernel is name, with as much shared memory as it may have.
func op(name string) *kernels.Op {
	return &kernels.Op{
		Name: name,
		Size: unsafe.Sizeof(addArgs{}),
		CUDA: func(gpu kernels.GPU, args unsafe.Pointer) kernels.Grid {
			if (*addArgs)(args).N < 0 {
				return kernels.Grid{}
			}
			return kernels.Grid{X: 2, Threads: 128, Shared: gpu.Shared}
		},
	}
}

func launch(q kernels.Queue, o *kernels.Op, a addArgs) {
	q.Launch(kernels.Launch{Op: o, Items: 1, Args: unsafe.Slice((*byte)(unsafe.Pointer(&a)), unsafe.Sizeof(a))})
}

// says fails unless an error has all the texts.
func says(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that says %q", texts)
	}
	for _, s := range texts {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("the error does not say %q: %v", s, err)
		}
	}
}

// elsewhere calls f on a thread that never had a context.
func elsewhere(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // and the thread ends with the goroutine
		f()
	}()
	<-done
}
