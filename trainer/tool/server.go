package tool

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	//go:embed kernel.py
	kernelSource string
	//go:embed jail.py
	jailSource string
	//go:embed program.py
	programSource string
	//go:embed server.py
	serverSource string
)

const (
	startTime = 2 * time.Minute  // imports from a cold disk
	spawnTime = 30 * time.Second // for what takes milliseconds
)

// A server is the process that forks a process for each call. It is trusted and never sees a program.
type server struct {
	cmd      *exec.Cmd
	control  *net.UnixConn
	complain tailBuffer
	versions map[string]string // of the packages that it imported

	mu        sync.Mutex
	next      uint64
	processes map[uint64]*process
	gone      chan struct{} // closed with err set when it ended
	err       error
	cleanup   func()
}

// An event is what a server tells.
type event struct {
	Event    string            `json:"event"` // ready, spawned, exit; refused by the jail, failed in the server
	Text     string            `json:"text"`
	ID       uint64            `json:"id"`
	Status   int               `json:"status"` // as wait(2) gives it
	CPU      float64           `json:"cpu"`    // seconds
	Versions map[string]string `json:"versions"`
}

// startServer starts a server behind the layers in have and waits until it is ready. A *layerError says that the
// namespaces or the root could not be made.
func startServer(s *Sandbox, have layers) (*server, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "control"), os.NewFile(uintptr(pair[1]), "control")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, fmt.Errorf("make the control socket: %w", err)
	}
	v := &server{control: conn.(*net.UnixConn), processes: map[uint64]*process{}, gone: make(chan struct{}), cleanup: func() {}}
	if err := v.launch(s, have, theirs); err != nil {
		conn.Close()
		v.cleanup()
		return nil, err
	}
	theirs.Close()
	if err := v.awaitReady(); err != nil {
		_ = v.cmd.Process.Kill()
		_ = v.cmd.Wait()
		conn.Close()
		v.cleanup()
		return nil, err
	}
	go v.listen() // stop waits for it
	return v, nil
}

const boot = `import json;c=json.load(open(3));exec(compile(c["source"],"sandbox","exec"),{"config":c,"__name__":"sandbox"})`

// launch starts the interpreter on jail.py, which becomes the server, or without namespaces on server.py itself. It reads
// its configuration from descriptor 3, which is written only after it has been put into the cgroup.
func (v *server) launch(s *Sandbox, have layers, theirs *os.File) error {
	config, err := v.configure(s, have)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	defer write.Close()
	proc, err := os.OpenFile("/proc", unix.O_PATH|unix.O_DIRECTORY, 0)
	if err != nil {
		return err
	}
	defer proc.Close()
	v.cmd = exec.Command(s.py.Executable, "-I", "-S", "-c", boot)
	v.cmd.Dir, v.cmd.Env = "/", []string{}
	v.cmd.Stderr = &v.complain
	v.cmd.ExtraFiles = []*os.File{read, theirs}
	if have.namespaces {
		v.cmd.SysProcAttr = namespaced()
	} else {
		v.cmd.Args = serverArguments(s.py.Executable)
		v.cmd.Env = serverEnvironment()
		v.cmd.ExtraFiles = append(v.cmd.ExtraFiles, proc)
		v.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	}
	if err := v.cmd.Start(); err != nil {
		v.cmd = nil
		return nameNamespace(s.py.Executable, err)
	}
	if s.group != nil {
		if err := s.group.enter(v.cmd.Process.Pid); err != nil {
			return err
		}
	}
	read.Close()
	_ = write.SetWriteDeadline(time.Now().Add(startTime))
	_, _ = write.Write(config) // one that died instead tells so by its end
	return nil
}

// configure makes what jail.py and server.py are told.
func (v *server) configure(s *Sandbox, have layers) ([]byte, error) {
	mounts, err := s.py.mounts()
	if err != nil {
		return nil, fmt.Errorf("find the interpreter's files: %w", err)
	}
	config := map[string]any{
		"source": kernelSource + programSource + serverSource, "calls": pythonCalls(), "last_capability": lastCapability(),
		"namespaces": have.namespaces, "landlock": have.landlock, "filter": "", "server_filter": "",
		"clone_flags": cloneFlags(have),
		"path":        s.py.paths(), "readable": []string{"/"}, "scratch_path": "",
		"packages": s.py.installed(s.cfg.Packages), "warm": warmModules(), "seen": seenEnvironment(),
		"memory": s.cfg.Memory, "cpu_seconds": cpuSeconds(s.cfg.CPU), "scratch": s.cfg.Scratch,
		"files": maxFiles, "tasks": maxTasks, "inodes": maxInodes,
		"inside": insideID,
	}
	if have.seccomp {
		config["server_filter"] = encodeFilter(serverFilter(have.namespaces, cloneFlags(have)))
		config["filter"] = encodeFilter(programFilter())
	}
	if have.namespaces {
		return json.Marshal(map[string]any{
			"source": kernelSource + jailSource, "calls": pythonCalls(), "last_capability": lastCapability(),
			"mounts": mounts, "two_ids": len(namespaced().UidMappings) == 2, "inside": insideID, "python": jailPython,
			"arguments": serverArguments(jailPython), "environment": serverEnvironmentMap(), "server": config,
		})
	}
	dir, err := os.MkdirTemp("", "tandem-scratch-")
	if err != nil {
		return nil, fmt.Errorf("make a scratch directory: %w", err)
	}
	v.cleanup = func() {
		// Processes whose server ended die with it, but not before it: one may still make its directory.
		for i := 0; os.RemoveAll(dir) != nil && i < 100; i++ {
			time.Sleep(10 * time.Millisecond)
		}
	}
	config["scratch_path"], config["path"], config["readable"] = dir+"/", s.py.hostPaths(), s.py.hostReadable()
	return json.Marshal(config)
}

// cloneFlags makes a process for a call. Network, UTS and cgroup namespaces are the jail's: the network has no way to make
// an address, the other two cannot be changed, and a network for each call would double its cost.
func cloneFlags(have layers) uint64 {
	flags := uint64(unix.CLONE_PIDFD) | uint64(unix.SIGCHLD)
	if have.namespaces {
		flags |= unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWIPC
	}
	return flags
}

// awaitReady waits for the server's first word.
func (v *server) awaitReady() error {
	_ = v.control.SetReadDeadline(time.Now().Add(startTime))
	e, _, err := v.receive()
	_ = v.control.SetReadDeadline(time.Time{})
	switch {
	case err != nil:
		return fmt.Errorf("start the interpreter: %w: %s", err, v.complain.String())
	case e.Event == "refused":
		return &layerError{Layer{Name: "read-only root", Required: true, Detail: e.Text, Lost: lostRoot}}
	case e.Event != "ready":
		return errors.New(e.Text)
	}
	v.versions = e.Versions
	return nil
}

// receive reads one event, and the descriptor that came with it.
func (v *server) receive() (event, *os.File, error) {
	var e event
	text, extra := make([]byte, 1<<16), make([]byte, unix.CmsgSpace(4))
	n, m, _, _, err := v.control.ReadMsgUnix(text, extra)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return e, nil, err
	}
	var file *os.File
	if messages, err := unix.ParseSocketControlMessage(extra[:m]); err == nil && len(messages) == 1 {
		if got, err := unix.ParseUnixRights(&messages[0]); err == nil && len(got) == 1 {
			unix.CloseOnExec(got[0])
			file = os.NewFile(uintptr(got[0]), "process")
		}
	}
	return e, file, json.Unmarshal(text[:n], &e)
}

// listen hands on what the server tells, until it ends.
func (v *server) listen() {
	var err error
	for err == nil {
		var e event
		var file *os.File
		if e, file, err = v.receive(); err != nil {
			break
		}
		v.mu.Lock()
		p := v.processes[e.ID]
		if e.Event == "exit" {
			delete(v.processes, e.ID)
		}
		v.mu.Unlock()
		switch e.Event {
		case "spawned":
			p.held <- file
		case "exit":
			p.exit <- e
		case "failed":
			err = errors.New(e.Text)
		}
	}
	_ = v.cmd.Process.Kill()
	ended := v.cmd.Wait()
	v.control.Close()
	v.cleanup()
	v.err = fmt.Errorf("the interpreter's server ended (%v): %v %s", ended, err, v.complain.String())
	close(v.gone)
}

// stop ends the server, and with it every process that it started, and waits for that.
func (v *server) stop() {
	_ = v.control.CloseWrite()
	_ = v.control.SetReadDeadline(time.Now())
	<-v.gone
}

// spawn has the server start a process, and waits until it is locked in.
func (v *server) spawn() (*process, error) {
	p := &process{server: v, held: make(chan *os.File, 1), exit: make(chan event, 1)}
	theirs, err := p.pipes()
	defer func() {
		for _, f := range theirs {
			f.Close()
		}
	}()
	if err == nil {
		err = v.ask(p, theirs)
	}
	if err == nil {
		err = p.awaitLocked()
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("start a process: %w", v.cause(err))
	}
	return p, nil
}

// cause is why the server ended, if that is what lies behind err.
func (v *server) cause(err error) error {
	select {
	case <-v.gone:
		return v.err
	case <-time.After(time.Second):
		return err
	}
}

// pipes makes the three pipes of a process and returns its ends, in the order in which server.py takes them.
func (p *process) pipes() (theirs []*os.File, err error) {
	codeRead, code, err1 := os.Pipe()
	out, outWrite, err2 := os.Pipe()
	errs, errsWrite, err3 := os.Pipe()
	p.code, p.out, p.errs = code, out, errs
	for _, f := range []*os.File{codeRead, outWrite, errsWrite} {
		if f != nil {
			theirs = append(theirs, f)
		}
	}
	return theirs, errors.Join(err1, err2, err3)
}

func (v *server) ask(p *process, theirs []*os.File) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.next++
	p.id = v.next
	v.processes[p.id] = p
	rights := unix.UnixRights(int(theirs[0].Fd()), int(theirs[1].Fd()), int(theirs[2].Fd()))
	_, _, err := v.control.WriteMsgUnix(fmt.Appendf(nil, `{"id": %d}`, p.id), rights, nil)
	for _, f := range theirs {
		f.Close()
	}
	return err
}

// awaitLocked waits for the process's one word on descriptor 2 before it reads a program: R, or E and what failed.
func (p *process) awaitLocked() error {
	timer := time.NewTimer(spawnTime)
	defer timer.Stop()
	select {
	case p.pidfd = <-p.held:
	case <-p.server.gone:
		return p.server.err
	case <-timer.C:
		return errors.New("the server does not answer")
	}
	_ = p.errs.SetReadDeadline(time.Now().Add(spawnTime))
	word := make([]byte, 1)
	if _, err := p.errs.Read(word); err != nil {
		return fmt.Errorf("the process ended before it was locked in: %s", p.lastWord(err))
	}
	if word[0] != 'R' {
		text, _ := io.ReadAll(io.LimitReader(p.errs, 4096))
		return fmt.Errorf("the process could not be locked in: %s", text)
	}
	return p.errs.SetReadDeadline(time.Time{})
}

func (p *process) lastWord(err error) string {
	select {
	case e := <-p.exit:
		return fmt.Sprintf("wait status %#x", e.Status)
	case <-time.After(time.Second):
		return err.Error()
	}
}

// A tailBuffer keeps the last few KiB that an interpreter complained.
type tailBuffer struct {
	mu   sync.Mutex
	text []byte
}

func (b *tailBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.text = append(b.text, p...)
	b.text = bytes.Clone(b.text[max(0, len(b.text)-4096):])
	return len(p), nil
}

func (b *tailBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.TrimSpace(string(b.text))
}
