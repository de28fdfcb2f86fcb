// Package tool runs the Python programs that a model writes, and keeps each from everything else.
//
// A call is one program, fresh: nothing stays from one call to the next. What it wrote, how it ended and how long it took
// come back as a Result; a last expression's value is shown as an interactive interpreter would show it.
//
// The kernel isolates, not a list of words. A server process, with the interpreter started and its packages imported, is
// put into user, mount, process, network, IPC, UTS and cgroup namespaces and a root that holds the interpreter's own files
// and nothing else. For each call it forks a process into user, mount, process and IPC namespaces of its own, with a scratch
// directory in memory, which gives up its capabilities, enters landlock and a system call filter that is an allow list, and
// only then reads the program. The program is process 1 and alone: it may start threads, but neither processes nor other
// programs, so one limit on its address space is a limit on its memory, and killing one process ends the call. It has three
// descriptors, of which two lead out: what it writes is its output, and how it ended the kernel tells the server. There is
// no channel to forge.
//
// Which parts do the work: Linux itself, asked by three short Python files (jail.py, server.py, program.py) through ctypes.
// Bubblewrap makes one such jail well, but a fork server needs one more for each call inside it, and run by root it keeps
// user 0. A helper re-executed from this binary would ask a hook of every main and every test that uses a sandbox.
// A call has to be forked from a process that has numpy and sympy in memory, so the code that forks is Python in any case.
//
// Same program, same result: hash seed, time zone, locale, random seeds and thread counts are fixed. What a program draws from the
// system (os.urandom, an unseeded numpy generator), the time of day and the addresses of objects are not.
package tool

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"
)

// Config says what to run programs with and what each may take. The zero value of a field is its default.
type Config struct {
	Python   string        // interpreter, or a wrapper or virtual environment of one; python3 on PATH
	Packages []string      // modules on offer where installed, with what they require; numpy, sympy
	Wall     time.Duration // time from handing over the program; 20 s
	CPU      time.Duration // processor time of all its threads, in whole seconds rounded up; Wall
	Memory   int64         // bytes of address space beyond what the interpreter has at the start; 1 GiB
	Scratch  int64         // bytes of the scratch directory and of a file; 64 MiB
	Output   int           // bytes of output that come back, and a quarter of it of errors; 7680
	Parallel int           // calls at a time, others wait; 16 or two for each processor
	Unsafe   bool          // go on without the layers that the machine lacks; see Sandbox.Missing
}

func (c Config) withDefaults() Config {
	setDefault(&c.Wall, 20*time.Second)
	setDefault(&c.CPU, c.Wall)
	setDefault(&c.Memory, 1<<30)
	setDefault(&c.Scratch, 64<<20)
	setDefault(&c.Output, 7680)
	setDefault(&c.Parallel, max(16, 2*runtime.NumCPU()))
	if c.Packages == nil {
		c.Packages = []string{"numpy", "sympy"}
	}
	return c
}

func setDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

const (
	maxProgram = 1 << 20  // bytes of a program
	maxWritten = 64 << 20 // bytes written before a call is killed: far past any use, near enough to cost little
	maxTasks   = 32       // threads of a program
	maxFiles   = 128      // descriptors of a program
	maxInodes  = 4096     // files in the scratch directory
)

// Sandbox runs programs. It is safe for use by several goroutines.
type Sandbox struct {
	cfg     Config
	py      *python
	missing []Layer
	group   *cgroup
	servers []*server
	ready   chan *process // each filler holds one process ahead
	slots   chan struct{}
	fillers sync.WaitGroup
	closing chan struct{}
	broken  chan struct{} // closed with err set when a server ends by itself
	breaks  sync.Once
	err     error
}

// New starts a sandbox. It fails, naming what is missing, on a machine that cannot isolate programs, unless cfg.Unsafe.
func New(cfg Config) (*Sandbox, error) {
	return newSandbox(cfg, kernelLayers())
}

func newSandbox(cfg Config, have layers) (*Sandbox, error) {
	cfg = cfg.withDefaults()
	py, err := findPython(cfg.Python, cfg.Packages)
	if err != nil {
		return nil, fmt.Errorf("start the sandbox: %w", err)
	}
	s := &Sandbox{
		cfg: cfg, py: py, ready: make(chan *process), slots: make(chan struct{}, cfg.Parallel),
		closing: make(chan struct{}), broken: make(chan struct{}),
	}
	if s.missing, err = s.start(have); err != nil {
		return nil, errors.Join(fmt.Errorf("start the sandbox: %w", err), s.stop())
	}
	for i := range max(runtime.NumCPU(), len(s.servers)) {
		s.fillers.Go(func() { s.fill(s.servers[i%len(s.servers)]) })
	}
	return s, nil
}

// start starts the servers with all layers that the machine has, and returns those it has not.
func (s *Sandbox) start(have layers) ([]Layer, error) {
	missing := have.missing()
	if len(missing) > 0 && !s.cfg.Unsafe {
		return nil, refusal(missing)
	}
	s.group, _ = newCgroup(s.memoryOfAll(), s.cfg.Parallel*maxTasks+64) // without it, each call has its limits still
	for range max(1, min(8, runtime.NumCPU()/4)) {
		server, err := startServer(s, have)
		var lack *layerError
		if errors.As(err, &lack) && have.namespaces {
			missing = append(missing, lack.layer)
			have.namespaces = false
			if !s.cfg.Unsafe {
				return nil, refusal(missing)
			}
			server, err = startServer(s, have)
		}
		if err != nil {
			return nil, err
		}
		s.servers = append(s.servers, server)
	}
	return missing, nil
}

// memoryOfAll is what all calls together may take: what they may take one by one, or half of the machine.
func (s *Sandbox) memoryOfAll() int64 {
	each := s.cfg.Memory + s.cfg.Scratch
	return min(int64(s.cfg.Parallel)*each+(1<<30), physicalMemory()/2)
}

// Missing lists the layers that a sandbox started with Config.Unsafe goes without.
func (s *Sandbox) Missing() []Layer { return s.missing }

// Run runs a program to its end or to a limit. What happens to the program is told in the result, never as a panic; only a
// result with Err set says that the sandbox itself is down, and from then on every call does.
func (s *Sandbox) Run(ctx context.Context, code string) Result {
	if len(code) > maxProgram {
		return Result{Reason: Failed, Exit: 1, Error: fmt.Sprintf("the program has %d bytes, %d are allowed\n", len(code), maxProgram)}
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return Result{Reason: Cancelled, Exit: -1}
	}
	select {
	case p := <-s.ready:
		return p.run(ctx, code, s.cfg)
	case <-ctx.Done():
		return Result{Reason: Cancelled, Exit: -1}
	case <-s.broken:
		return downResult(s.err)
	case <-s.closing:
		return downResult(errors.New("run a program: the sandbox is closed"))
	}
}

// fill keeps one process of a server started ahead, until the sandbox ends.
func (s *Sandbox) fill(server *server) {
	for {
		p, err := server.spawn()
		if err != nil {
			s.fail(err)
			return
		}
		select {
		case s.ready <- p:
		case <-s.closing:
			p.abandon()
			return
		case <-s.broken:
			p.abandon()
			return
		}
	}
}

func (s *Sandbox) fail(err error) {
	s.breaks.Do(func() {
		s.err = fmt.Errorf("sandbox is down: %w", err)
		close(s.broken)
	})
}

// Close ends every program and waits until nothing of the sandbox is left. It is called once.
func (s *Sandbox) Close() error {
	close(s.closing)
	err := s.stop()
	s.fillers.Wait()
	return err
}

func (s *Sandbox) stop() error {
	for _, server := range s.servers {
		server.stop()
	}
	return s.group.remove()
}
