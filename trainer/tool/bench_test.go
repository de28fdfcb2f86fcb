package tool

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// BenchmarkCall is the time of a call that does nothing, with numpy and sympy imported where they are installed. Processor
// time is all that a call costs: its process, the server's share and the runner's.
func BenchmarkCall(b *testing.B) {
	for _, flight := range []struct {
		name  string
		calls int
		pause time.Duration
	}{{"alone", 1, 20 * time.Millisecond}, {"16 in flight", 16, 400 * time.Millisecond}, {"saturated", 16, 0}} {
		b.Run(flight.name, func(b *testing.B) {
			s := testSandbox(b, Config{Wall: time.Minute})
			var mu sync.Mutex
			var took []time.Duration
			work := make(chan struct{})
			var workers sync.WaitGroup
			for range flight.calls {
				workers.Go(func() {
					for range work {
						begin := time.Now()
						r := s.Run(context.Background(), "print(1)")
						if r.Output != "1\n" {
							b.Errorf("%+v", r)
						}
						mu.Lock()
						took = append(took, time.Since(begin))
						mu.Unlock()
						time.Sleep(flight.pause)
					}
				})
			}
			before := processorTime(b, s)
			b.ResetTimer()
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			workers.Wait()
			slices.Sort(took)
			b.ReportMetric(1e3*took[len(took)/2].Seconds(), "ms/median")
			b.ReportMetric(1e3*took[len(took)*99/100].Seconds(), "ms/p99")
			b.ReportMetric(1e3*(processorTime(b, s)-before)/float64(len(took)), "cpu-ms/call")
			b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// processorTime is that of the runner, its servers and their processes that ended, in seconds.
func processorTime(b *testing.B, s *Sandbox) float64 {
	b.Helper()
	var own syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &own); err != nil {
		b.Fatal(err)
	}
	total := float64(own.Utime.Nano()+own.Stime.Nano()) / 1e9
	for _, server := range s.servers {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", server.cmd.Process.Pid))
		if err != nil {
			b.Fatal(err)
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		for _, field := range fields[11:15] { // user and system time, own and of reaped children, in hundredths
			ticks, _ := strconv.ParseFloat(field, 64)
			total += ticks / 100
		}
	}
	return total
}

// BenchmarkBareFork is the yardstick: os.fork, an empty program and exit in an interpreter that has the same modules, with
// nothing isolated and nothing read.
func BenchmarkBareFork(b *testing.B) {
	path := os.Getenv("TANDEM_PYTHON")
	if path == "" {
		path = "python3"
	}
	code := `
import gc, os, sys, time
try: import numpy, numpy.random, sympy
except ImportError: pass
gc.collect(); gc.freeze()
n = int(sys.argv[1])
took = []
before = sum(os.times()[:4])
for _ in range(n):
    begin = time.perf_counter()
    if os.fork() == 0: exec(compile("x = 1", "m", "exec"), {}); os._exit(0)
    os.wait()
    took.append(time.perf_counter() - begin)
t = os.times()
print(sorted(took)[n // 2] * 1e3, (sum(os.times()[:4]) - before) / n * 1e3)
`
	out, err := exec.Command(path, "-I", "-c", code, strconv.Itoa(b.N)).Output()
	if err != nil {
		b.Skip(err)
	}
	var median, processor float64
	if _, err := fmt.Sscan(string(out), &median, &processor); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(median, "ms/median")
	b.ReportMetric(processor, "cpu-ms/call")
}
