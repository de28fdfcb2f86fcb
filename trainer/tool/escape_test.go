package tool

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

var (
	//go:embed testdata/prelude.py
	prelude string
	//go:embed testdata/attempts.py
	attempts string
)

// An attempt is a program that tries to get out, and prints ESCAPED if it did and held if it was refused.
type attempt struct {
	name    string
	code    string
	outside bool     // succeeds in a plain interpreter
	reasons []string // how the call may end
}

func parseAttempts() []attempt {
	var list []attempt
	for _, section := range strings.Split(attempts, "\n### ")[1:] {
		title, code, _ := strings.Cut(section, "\n")
		fields := append(strings.Split(title, "|"), "", "")
		a := attempt{name: strings.TrimSpace(fields[0]), code: code, outside: strings.TrimSpace(fields[1]) == "outside"}
		a.reasons = strings.Split(cmp.Or(strings.TrimSpace(fields[2]), string(OK)), " or ")
		list = append(list, a)
	}
	return list
}

// A host is what the attempts aim at.
type host struct {
	canary   string // a file
	abstract string // an abstract socket
	socket   *net.UnixConn
}

const canaryText = "the weights"

func newHost(t *testing.T) *host {
	t.Helper()
	h := &host{canary: filepath.Join(t.TempDir(), "weights.safetensors"), abstract: fmt.Sprintf("tandem-canary-%d", time.Now().UnixNano())}
	if err := os.WriteFile(h.canary, []byte(canaryText), 0o666); err != nil {
		t.Fatal(err)
	}
	var err error
	h.socket, err = net.ListenUnixgram("unixgram", &net.UnixAddr{Name: "@" + h.abstract, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.socket.Close() })
	return h
}

func (h *host) program(code string, py *python) string {
	var backwards []string
	for _, path := range append(py.extensionDirs(), filepath.Dir(py.Executable)) {
		b := []byte(path)
		for i, j := 0, len(b)-1; i < j; i, j = i+1, j-1 {
			b[i], b[j] = b[j], b[i]
		}
		backwards = append(backwards, fmt.Sprintf("%q", b))
	}
	return fmt.Sprintf("%s\nCANARY = %q\nABSTRACT = %q\nBACKWARDS = [%s]\n%s", prelude, h.canary, h.abstract, strings.Join(backwards, ","), code)
}

func (h *host) unharmed(t *testing.T) {
	t.Helper()
	text, err := os.ReadFile(h.canary)
	if err != nil || string(text) != canaryText {
		t.Errorf("the canary file now holds %q (%v)", text, err)
	}
	_ = h.socket.SetReadDeadline(time.Now())
	if n, _, err := h.socket.ReadFrom(make([]byte, 100)); err == nil {
		t.Errorf("the canary socket got %d bytes", n)
	}
}

func TestEscapes(t *testing.T) {
	list := parseAttempts()
	if len(list) < 60 {
		t.Fatalf("%d attempts, want 60 and more", len(list))
	}
	s := testSandbox(t, Config{Wall: 8 * time.Second, Memory: 256 << 20, Packages: []string{}})
	h := newHost(t)
	results := make([]Result, len(list))
	var calls sync.WaitGroup
	for i, a := range list { // together: they must not touch each other either
		calls.Go(func() { results[i] = s.Run(context.Background(), h.program(a.code, s.py)) })
	}
	calls.Wait()
	for i, a := range list {
		t.Run(a.name, func(t *testing.T) { checkHeld(t, a, results[i]) })
	}
	h.unharmed(t)
	stillWorks(t, s)
}

func checkHeld(t *testing.T, a attempt, r Result) {
	t.Helper()
	if strings.Contains(r.Output, "ESCAPED") || !strings.Contains(r.Output, "held:") && r.Reason != OutputLimit {
		t.Errorf("output %q error %q", r.Output, r.Error)
	}
	if !slices.Contains(a.reasons, string(r.Reason)) || r.Err != nil {
		t.Errorf("ended with %s (%v), want %s: output %q error %q", r.Reason, r.Err, a.reasons, r.Output, r.Error)
	}
}

func stillWorks(t *testing.T, s *Sandbox) {
	t.Helper()
	code := "import os, math, json\nos.listdir('/tmp'), math.pi > 3.1, len('ab')"
	if r := s.Run(context.Background(), code); r.Output != "([], True, 2)\n" || r.Reason != OK {
		t.Errorf("the next call gives %+v", r)
	}
}

// Without the sandbox these attempts succeed: what refuses them is the sandbox, not a mistake in them.
func TestAttemptsAreReal(t *testing.T) {
	py := testPython(t)
	for _, a := range parseAttempts() {
		if !a.outside {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			cmd := exec.Command(py.Executable, "-I", "-c", h.program(a.code, py))
			cmd.Dir = t.TempDir()
			cmd.Env = []string{"SECRET=abc"}
			out, err := cmd.CombinedOutput()
			if !bytes.Contains(out, []byte("ESCAPED")) {
				t.Errorf("in a plain interpreter: %s (%v)", out, err)
			}
		})
	}
}

// An ordinary user has other ways in than root: no second user to give up to, limits of his own.
func TestEscapesAsOrdinaryUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("already an ordinary user: TestEscapes covers it")
	}
	interpreter := "/usr/bin/python3"
	if _, err := os.Stat(interpreter); err != nil {
		t.Skip("no interpreter that every user can read: ", interpreter)
	}
	scratch, err := os.MkdirTemp("/tmp", "tandem-ordinary-")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(scratch)
	if err := os.Chown(scratch, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	// The binary is opened by root: its directory may be closed to others.
	self, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer self.Close()
	cmd := exec.Command("/proc/self/fd/3", "-test.run=^(TestEscapes|TestWitnesses|TestPrograms)$", "-test.v", "-test.parallel=4")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.Env = []string{"TANDEM_PYTHON=" + interpreter, "TMPDIR=" + scratch, "HOME=" + scratch}
	cmd.SysProcAttr = credential(65532)
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(out, []byte("--- PASS: TestEscapes")) {
		t.Errorf("as user 65532: %v\n%s", err, tail(out, 60000))
	}
	if bytes.Contains(out, []byte("--- SKIP: TestEscapes")) {
		t.Skipf("as user 65532: %s", tail(out, 600))
	}
}

// Older landlock has no say in signals: the session and the process namespace must do.
func TestWitnesses(t *testing.T) {
	for _, abi := range []int{5, kernelLayers().landlock} {
		t.Run(fmt.Sprintf("landlock %d", abi), func(t *testing.T) {
			have := kernelLayers()
			have.landlock = min(abi, have.landlock)
			s := testSandboxWith(t, Config{Wall: 20 * time.Second, Packages: []string{}}, have)
			results := make(chan Result, 4)
			for range cap(results) {
				go func() {
					results <- s.Run(context.Background(), "import time, os\nfor _ in range(20): time.sleep(0.05)\nprint(sorted(os.listdir('/tmp')))")
				}()
			}
			time.Sleep(200 * time.Millisecond)
			for _, a := range parseAttempts() {
				if strings.HasPrefix(a.name, "kill") || strings.HasPrefix(a.name, "other processes") {
					checkHeld(t, a, s.Run(context.Background(), prelude+a.code))
				}
			}
			for range cap(results) {
				if r := <-results; r.Output != "[]\n" || r.Reason != OK {
					t.Errorf("a call beside them gives %+v", r)
				}
			}
		})
	}
}

func credential(id uint32) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: id, Gid: id}}
}

func tail(b []byte, n int) []byte { return b[max(0, len(b)-n):] }
