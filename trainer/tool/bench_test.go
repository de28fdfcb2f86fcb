package tool

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"sync"
	"testing"
	"time"
)

// BenchmarkCall is the time of a call that does nothing, with numpy and sympy imported where they are installed. Processor
// time is the program's own process; the servers' share is in /op.
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
			var processor float64
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
						processor += r.CPU
						mu.Unlock()
						time.Sleep(flight.pause)
					}
				})
			}
			b.ResetTimer()
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			workers.Wait()
			slices.Sort(took)
			b.ReportMetric(1e3*took[len(took)/2].Seconds(), "ms/median")
			b.ReportMetric(1e3*took[len(took)*99/100].Seconds(), "ms/p99")
			b.ReportMetric(1e3*processor/float64(len(took)), "cpu-ms/call")
			b.ReportMetric(float64(len(took))/b.Elapsed().Seconds(), "calls/s")
		})
	}
}

// BenchmarkBareFork is the yardstick: os.fork and exit in an interpreter that has the same modules, nothing isolated.
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
for _ in range(n):
    begin = time.perf_counter()
    if os.fork() == 0: exec(compile("x = 1", "m", "exec"), {}); os._exit(0)
    os.wait()
    took.append(time.perf_counter() - begin)
t = os.times()
print(sorted(took)[n // 2] * 1e3, (t.children_user + t.children_system) / n * 1e3)
`
	out, err := exec.Command(path, "-I", "-c", code, "200").CombinedOutput()
	b.Logf("ms/median, child's cpu-ms: %s (%v)", out, err)
}
