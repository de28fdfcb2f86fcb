package tool

import (
	"fmt"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A Reason says why a program ended.
type Reason string

// Reasons. Only Down says something of the sandbox, the others are the program's own doing or its caller's.
const (
	OK          Reason = "ok"            // came to its end, exit status 0
	Failed      Reason = "error"         // an uncaught exception or another exit status
	TimedOut    Reason = "timeout"       // Config.Wall
	CPULimit    Reason = "cpu_limit"     // Config.CPU
	OutOfMemory Reason = "out_of_memory" // an uncaught MemoryError, or killed by the kernel for lack of memory
	OutputLimit Reason = "output_limit"  // wrote more than 64 MiB
	Crashed     Reason = "crashed"       // killed by a signal, such as a segmentation fault
	Cancelled   Reason = "cancelled"     // the caller's context ended
	Down        Reason = "sandbox_down"  // the sandbox does not run; Err says why
)

// A Result is what came of one program. Output and Error are the program's own words and prove nothing, nor does OutOfMemory
// with exit status 1, which is read from them; all else is from the runner and the kernel.
type Result struct {
	Output  string  `json:"output"`  // what it wrote to standard output, printable UTF-8, cut in the middle at Config.Output
	Error   string  `json:"error"`   // what it wrote to standard error, and a line about the limit that ended it
	Exit    int     `json:"exit"`    // exit status; 128 + number when a signal ended it; -1 when it did not run
	Reason  Reason  `json:"reason"`  // why it ended
	Seconds float64 `json:"seconds"` // wall time from handing over the program
	CPU     float64 `json:"-"`       // processor seconds
	Err     error   `json:"-"`       // set with Down only: the caller must stop, and tell the model nothing
}

// Text is the reply to give the model: its output, its errors, and a word where there is neither.
func (r Result) Text() string {
	text := r.Output
	if r.Error != "" {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += r.Error
	}
	if strings.TrimSpace(text) == "" {
		return "(no output)\n"
	}
	return text
}

func downResult(err error) Result {
	return Result{Reason: Down, Exit: -1, Error: "the sandbox is down, the program was not run\n", Err: err}
}

var memoryError = regexp.MustCompile(`^(\w+\.)*_?(Array)?MemoryError\b`)

// ended fills in how the program ended: killed is why the runner killed it, or empty.
func (r *Result) ended(status syscall.WaitStatus, killed Reason, cfg Config) {
	r.Exit = status.ExitStatus()
	if status.Signaled() {
		r.Exit = 128 + int(status.Signal())
	}
	r.Reason = r.reason(status, killed, cfg)
	note := map[Reason]string{
		TimedOut:    fmt.Sprintf("killed: it ran longer than %v", cfg.Wall),
		CPULimit:    fmt.Sprintf("killed: it took more than %v of processor time", cfg.CPU),
		OutputLimit: fmt.Sprintf("killed: it wrote more than %d bytes", maxWritten),
		Crashed:     fmt.Sprintf("killed by signal %d: %v", int(status.Signal()), status.Signal()),
		Cancelled:   "killed: the call was cancelled",
	}
	if r.Reason == OutOfMemory && status.Signaled() {
		note[OutOfMemory] = "killed: out of memory"
	}
	if line := note[r.Reason]; line != "" {
		if r.Error != "" && !strings.HasSuffix(r.Error, "\n") {
			r.Error += "\n"
		}
		r.Error += line + "\n"
	}
}

// A program cannot send SIGKILL to itself, being process 1, so one that neither the runner nor the processor time explains
// is the kernel's, for lack of memory. The kernel watches processor time by samples, and may be a tenth early.
func (r *Result) reason(status syscall.WaitStatus, killed Reason, cfg Config) Reason {
	switch {
	case killed != "" && status.Signaled() && status.Signal() == syscall.SIGKILL:
		return killed
	case status.Signaled() && status.Signal() == syscall.SIGKILL && r.CPU >= 0.75*float64(cpuSeconds(cfg.CPU)):
		return CPULimit
	case status.Signaled() && status.Signal() == syscall.SIGKILL:
		return OutOfMemory
	case status.Signaled():
		return Crashed
	case r.Exit == 0:
		return OK
	case memoryError.MatchString(lastLine(r.Error)):
		return OutOfMemory
	}
	return Failed
}

func lastLine(s string) string {
	s = strings.TrimRight(s, "\n")
	return s[strings.LastIndexByte(s, '\n')+1:]
}

// cpuSeconds is the resource limit for d: the kernel counts whole seconds, and one thread that never waits must meet the
// wall time first when both limits are equal.
func cpuSeconds(d time.Duration) int { return int((d+time.Second-1)/time.Second) + 1 }
