package tool

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// usage is what a sandbox could leave behind on the host.
type usage struct {
	descriptors int // of this process
	mounts      int
	children    int // of this process, and theirs
	scratch     int // entries of the temporary directory that are the sandbox's
	cgroups     int
	goroutines  int
	heap        uint64
}

func measure(t *testing.T) usage {
	t.Helper()
	fds, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		t.Fatal(err)
	}
	scratch, _ := filepath.Glob(filepath.Join(os.TempDir(), "tandem-scratch-*"))
	u := usage{descriptors: len(fds), mounts: bytes.Count(mounts, []byte("\n")), children: len(descendants(t, os.Getpid())),
		scratch: len(scratch), goroutines: runtime.NumGoroutine()}
	if dir, _, err := controllerDir("memory"); err == nil {
		groups, _ := filepath.Glob(filepath.Join(dir, fmt.Sprintf("%s%d-*", cgroupPrefix, os.Getpid())))
		u.cgroups = len(groups)
	}
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	u.heap = m.HeapAlloc
	return u
}

func descendants(t *testing.T, pid int) []int {
	t.Helper()
	parent := map[int][]int{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		b, err := os.ReadFile(file)
		if err != nil {
			continue
		}
		f := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		up, _ := strconv.Atoi(f[1])
		own, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
		parent[up] = append(parent[up], own)
	}
	list := parent[pid]
	for i := 0; i < len(list); i++ {
		list = append(list, parent[list[i]]...)
	}
	return list
}

func serverMemory(t *testing.T, s *Sandbox) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.servers[0].cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(b), "VmRSS:")
	kib, _ := strconv.Atoi(strings.Fields(after)[0])
	return kib
}

// Calls of every kind leave nothing behind: j06 and j08 among them.
func TestCallsLeaveNothingBehind(t *testing.T) {
	calls, packages := 300, []string{}
	if os.Getenv("TANDEM_LONG") != "" {
		calls, packages = 10_000, nil
	}
	t.Setenv("TMPDIR", t.TempDir())
	before := measure(t)
	func() {
		cfg := Config{Python: os.Getenv("TANDEM_PYTHON"), Wall: 300 * time.Millisecond, Packages: packages}
		s, err := New(cfg)
		if err != nil {
			t.Skip(err)
		}
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		runMany(t, s, 100)
		first, memory := measure(t), serverMemory(t, s)
		runMany(t, s, calls)
		last := measure(t)
		if last.descriptors > first.descriptors+8 || last.children > first.children+8 || last.mounts != before.mounts || last.goroutines > first.goroutines+8 || last.heap > first.heap+4<<20 {
			t.Errorf("after %d calls more: %+v, before %+v", calls, last, first)
		}
		if grown := serverMemory(t, s) - memory; grown > 4<<10 {
			t.Errorf("the server grew by %d KiB", grown)
		}
	}()
	after := measure(t)
	after.heap, before.heap = 0, 0
	if after != before {
		t.Errorf("after Close %+v, before New %+v", after, before)
	}
}

// runMany makes n calls, 8 at a time, one in 25 endless.
func runMany(t *testing.T, s *Sandbox, n int) {
	t.Helper()
	kinds := []string{"print(1)", "x = bytearray(1 << 22)", "1/0", "open('f', 'w').write('x' * 100000)",
		"import os\nos.kill(os.getpid(), 15)\nos._exit(5)", "import ctypes\nctypes.string_at(0)",
		"import threading\n[threading.Thread(target=print, args=(i,)).start() for i in range(4)]", "import os\nos.closerange(0, 100)"}
	work := make(chan int)
	var workers sync.WaitGroup
	for range 8 {
		workers.Go(func() {
			for i := range work {
				code := kinds[i%len(kinds)]
				if i%25 == 24 {
					code = "while True: pass"
				}
				if r := s.Run(context.Background(), code); r.Err != nil {
					t.Errorf("call %d: %v", i, r.Err)
				}
			}
		})
	}
	for i := range n {
		work <- i
	}
	close(work)
	workers.Wait()
}

// A runner that is killed takes everything along.
func TestNothingOutlivesTheRunner(t *testing.T) {
	if os.Getenv("TANDEM_RUNNER") != "" {
		s := testSandbox(t, Config{Packages: []string{}})
		go s.Run(context.Background(), "import time\ntime.sleep(15)")
		pids := descendants(t, os.Getpid())
		for end := time.Now().Add(30 * time.Second); len(pids) < 2 && time.Now().Before(end); pids = descendants(t, os.Getpid()) {
			time.Sleep(20 * time.Millisecond) // until the server has begun the call
		}
		fmt.Println("running", pids)
		time.Sleep(time.Minute)
		return
	}
	testSandbox(t, Config{Packages: []string{}})
	cmd := exec.Command(os.Args[0], "-test.run=^TestNothingOutlivesTheRunner$")
	cmd.Env = append(os.Environ(), "TANDEM_RUNNER=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "running") {
		t.Fatalf("%q, %v", line, err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	var pids []int
	for _, f := range strings.Fields(strings.Trim(strings.TrimPrefix(strings.TrimSpace(line), "running"), " []")) {
		pid, _ := strconv.Atoi(f)
		pids = append(pids, pid)
	}
	if len(pids) < 2 {
		t.Fatalf("no processes in %q", line)
	}
	deadline := time.Now().Add(30 * time.Second)
	for _, pid := range pids {
		for syscall.Kill(pid, 0) == nil && time.Now().Before(deadline) {
			time.Sleep(20 * time.Millisecond)
		}
		if syscall.Kill(pid, 0) == nil {
			t.Errorf("process %d outlives its runner", pid)
		}
	}
}
