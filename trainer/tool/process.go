package tool

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A process is locked in and waits for its program.
type process struct {
	server *server
	id     uint64
	code   *os.File // the program goes in
	out    *os.File // descriptor 1 of the program
	errs   *os.File // descriptor 2
	held   chan *os.File
	pidfd  *os.File
	exit   chan event // how it ended, one value
}

// run hands over the program, waits for its end or ends it, and collects what it wrote.
func (p *process) run(ctx context.Context, code string, cfg Config) Result {
	defer p.close()
	begin := time.Now()
	out, errs := clip{limit: cfg.Output}, clip{limit: cfg.Output / 4}
	over := make(chan struct{}, 2)
	var readers sync.WaitGroup
	readers.Go(func() { out.copyFrom(p.out, maxWritten, over) })
	readers.Go(func() { errs.copyFrom(p.errs, maxWritten, over) })
	_ = p.code.SetWriteDeadline(begin.Add(cfg.Wall))
	_, _ = io.WriteString(p.code, code) // a process that died before it had read tells so by its end
	p.code.Close()

	end, killed, err := p.wait(ctx, cfg.Wall, over)
	readers.Wait()
	if err != nil {
		return downResult(err)
	}
	r := Result{Output: out.text(), Error: errs.text(), Seconds: time.Since(begin).Seconds(), CPU: end.CPU}
	r.ended(syscall.WaitStatus(end.Status), killed, cfg)
	return r
}

// wait kills the process at a limit, and returns when the server has told its end.
func (p *process) wait(ctx context.Context, wall time.Duration, over <-chan struct{}) (end event, killed Reason, err error) {
	timer := time.NewTimer(wall)
	defer timer.Stop()
	cancelled, down := ctx.Done(), p.server.gone
	for {
		var why Reason
		select {
		case end = <-p.exit:
			return end, killed, nil
		case <-timer.C:
			why = TimedOut
		case <-over:
			why = OutputLimit
		case <-cancelled:
			why, cancelled = Cancelled, nil
		case <-down:
			return end, killed, fmt.Errorf("run a program: %w", p.server.err)
		}
		if killed == "" {
			killed = why
		}
		p.kill()
	}
}

func (p *process) kill() {
	_ = unix.PidfdSendSignal(int(p.pidfd.Fd()), unix.SIGKILL, nil, 0) // it may have ended by itself
}

// abandon ends a process that gets no program.
func (p *process) abandon() {
	p.kill()
	p.close()
}

func (p *process) close() {
	for _, f := range []*os.File{p.code, p.out, p.errs, p.pidfd} {
		if f != nil {
			f.Close()
		}
	}
}
