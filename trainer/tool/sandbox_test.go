package tool

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func testPython(t *testing.T) *python {
	t.Helper()
	py, err := findPython(os.Getenv("TANDEM_PYTHON"), nil)
	if err != nil {
		t.Skip("no interpreter: ", err)
	}
	return py
}

func testSandbox(t testing.TB, cfg Config) *Sandbox {
	t.Helper()
	return testSandboxWith(t, cfg, kernelLayers())
}

// testSandboxWith starts a sandbox with no more than those layers, or skips, naming what the machine lacks.
func testSandboxWith(t testing.TB, cfg Config, have layers) *Sandbox {
	t.Helper()
	cfg.Python = os.Getenv("TANDEM_PYTHON")
	s, err := newSandbox(cfg, have)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The cases of area j_sandbox, and what each kind of program must give.
func TestPrograms(t *testing.T) {
	t.Setenv("SECRET_TOKEN", "abc")
	s := testSandbox(t, Config{Wall: 4 * time.Second, Packages: []string{}})
	cases := []struct {
		name, code string
		want       Result // Seconds is an upper bound; Error a part of what is there
	}{
		{"j01 print", "print(6*7)", Result{Output: "42\n"}},
		{"j02 last expression", "x=6\nx*7", Result{Output: "42\n"}},
		{"last expression after print", "print(1)\n'a'", Result{Output: "1\n'a'\n"}},
		{"last expression is None", "print(1)\n[].append(2)", Result{Output: "1\n"}},
		{"expression before the last", "5\nx = 1", Result{}},
		{"nothing", "", Result{}},
		{"j03 endless", "while True: pass", Result{Reason: TimedOut, Exit: 137, Error: "killed: it ran longer than 4s\n"}},
		{"j07 ignores signals", "import signal,time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\ntime.sleep(300)", Result{Reason: TimedOut, Exit: 137}},
		{"output before the limit is kept", "print('partial')\nwhile True: pass", Result{Output: "partial\n", Reason: TimedOut, Exit: 137}},
		{"j13 bytes", `import sys; r = sys.stdout.buffer.write(b'ok \xff\xfe\n')`, Result{Output: "ok \ufffd\ufffd\n"}},
		{"control characters", `print('a\0b\x1b[31mc\td')`, Result{Output: "a\ufffdb\ufffd[31mc\td\n"}},
		{"j15 environment", "import os\nprint(os.environ.get('SECRET_TOKEN'))", Result{Output: "None\n"}},
		{"j21 exit status", "import sys\nsys.exit(3)", Result{Exit: 3, Reason: Failed}},
		{"exit with words", "import sys\nsys.exit('gave up')", Result{Exit: 1, Reason: Failed, Error: "gave up\n"}},
		{"exit 0", "exit_code = 0\nraise SystemExit", Result{}},
		{"exit without flush", "import os\nprint('x')\nos._exit(7)", Result{Output: "x\n", Exit: 7, Reason: Failed}},
		{"j22 exception", "x = 0\n1/x", Result{Exit: 1, Reason: Failed, Error: "Traceback (most recent call last):\n  File \"main.py\", line 2, in <module>\n    1/x\n"}},
		{"syntax error", "print(1\n", Result{Exit: 1, Reason: Failed, Error: "  File \"main.py\", line 1\n    print(1\n"}},
		{"NUL in the program", "print(1)\x00", Result{Exit: 1, Reason: Failed, Error: "null bytes"}},
		{"not UTF-8", "print('\xff')", Result{Output: "\ufffd\n"}},
		{"j23 long numbers", "print(10**5000)", Result{Output: "1" + strings.Repeat("0", 5000) + "\n"}},
		{"j24 long work in C", "print(9**9**9)", Result{Reason: TimedOut, Exit: 137}},
		{"j25 crash", "print(1)\nimport ctypes\nctypes.string_at(0)", Result{Output: "1\n", Reason: Crashed, Exit: 139, Error: "killed by signal 11: segmentation fault\n"}},
		{"abort", "import os\nos.abort()", Result{Reason: Crashed, Exit: 139}},
		{"memory", "x = bytearray(1 << 40)", Result{Exit: 1, Reason: OutOfMemory, Error: "MemoryError\n"}},
		{"stdin", "input()", Result{Exit: 1, Reason: Failed, Error: "EOFError: EOF when reading a line\n"}},
		{"multi-line strings", "s = '''a\n  b\n'''\nprint(repr(s))", Result{Output: "'a\\n  b\\n'\n"}},
		{"main module", "import __main__\nclass A: pass\nprint(__name__, __main__.A is A)\nimport pickle\npickle.loads(pickle.dumps(A())).__class__.__name__", Result{Output: "__main__ True\n'A'\n"}},
		{"scratch files", "open('f.txt','w').write('x')\nimport os\nprint(os.getcwd(), os.listdir('.'))", Result{Output: "/tmp ['f.txt']\n"}},
		{"own modules", "open('mine.py','w').write('y=5')\nimport mine\nmine.y", Result{Output: "5\n"}},
		{"threads are waited for", "import threading,time\nt=threading.Thread(target=lambda:(time.sleep(0.1),print('late')))\nt.start()", Result{Output: "late\n"}},
		{"exit functions", "import atexit\nx=atexit.register(print,'bye')", Result{Output: "bye\n"}},
		{"thread pool", "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(4) as p: print(list(p.map(abs,[-1,-2])))", Result{Output: "[1, 2]\n"}},
		{"asyncio", "import asyncio\nasync def f():\n  await asyncio.sleep(0.01)\n  return 5\nasyncio.run(f())", Result{Output: "5\n"}},
		{"alarm", "import signal,time\ndef h(*a): raise TimeoutError('slow')\nsignal.signal(signal.SIGALRM,h)\nsignal.alarm(1)\ntry: time.sleep(3)\nexcept TimeoutError as e: print(e)", Result{Output: "slow\n"}},
		{"copy with attributes", "import shutil\nopen('a','w').write('x')\nshutil.copy2('a','b')", Result{Output: "'b'\n"}},
		{"temporary files", "import tempfile\nwith tempfile.TemporaryDirectory() as d, tempfile.TemporaryFile() as f: x=f.write(b'1')", Result{}},
		{"standard library", "import hashlib,sqlite3,zlib,bz2,lzma,csv,decimal,uuid,secrets\nprint(sqlite3.connect(':memory:').execute('select 1').fetchone(), hashlib.sha256(b'').hexdigest()[:4])", Result{Output: "(1,) e3b0\n"}},
		{"user and host", "import os,socket\nprint(os.getuid(), os.getpid(), socket.gethostname())", Result{Output: "1000 1 sandbox\n"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.want.Reason == "" {
				c.want.Reason = OK
			}
			r := s.Run(context.Background(), c.code)
			if r.Output != c.want.Output || r.Exit != c.want.Exit || r.Reason != c.want.Reason || !strings.Contains(r.Error, c.want.Error) || r.Err != nil {
				t.Errorf("got %+v\nwant %+v", r, c.want)
			}
			if c.want.Reason == OK && r.Error != "" {
				t.Errorf("error %q", r.Error)
			}
		})
	}
}

func TestOutputIsCut(t *testing.T) {
	s := testSandbox(t, Config{Wall: 10 * time.Second, Packages: []string{}})
	r := s.Run(context.Background(), "print('a'*50000)\nprint('é'*50000)\nimport sys\nprint('b'*50000, file=sys.stderr)")
	if utf8.RuneCountInString(r.Text()) > 10000 || !strings.Contains(r.Output, "bytes cut") || !strings.Contains(r.Error, "bytes cut") {
		t.Errorf("j12: %d characters, marked %v %v", utf8.RuneCountInString(r.Text()), strings.Contains(r.Output, "bytes cut"), strings.Contains(r.Error, "bytes cut"))
	}
	if !strings.HasPrefix(r.Output, "aaa") || !strings.HasSuffix(r.Output, "éé\n") || strings.Contains(r.Output, "\ufffd") {
		t.Errorf("head %q, tail %q", r.Output[:10], r.Output[len(r.Output)-10:])
	}
}

// Each call starts from the same state: j28, and P3's same program, same result.
func TestCallsAreFreshAndEqual(t *testing.T) {
	s := testSandbox(t, Config{})
	ctx := context.Background()
	if r := s.Run(ctx, "y=5"); r.Reason != OK {
		t.Fatalf("%+v", r)
	}
	if r := s.Run(ctx, "print(y)"); !strings.Contains(r.Error, "NameError") {
		t.Errorf("a name of the call before: %+v", r)
	}
	code := `import random, time, os, locale, sys
print(random.random(), hash("a"), time.tzname, locale.getlocale(), sys.flags.hash_randomization)
print(sorted(os.environ.items()), os.listdir("/"), sys.path, sys.argv, sys.executable)
try:
    import numpy
    print(numpy.random.rand(3), numpy.linalg.svd(numpy.arange(9.).reshape(3, 3))[1])
    import sympy
    print(sympy.factor("x**4 - 1"), sympy.Integral("exp(-x**2)", ("x", 0, sympy.oo)).doit())
except ImportError:
    pass
`
	first := s.Run(ctx, code)
	other := testSandbox(t, Config{})
	for i, r := range []Result{s.Run(ctx, code), other.Run(ctx, code)} {
		if r.Output != first.Output || r.Reason != OK {
			t.Errorf("run %d: %+v\nfirst %+v", i, r, first)
		}
	}
}

func TestPackages(t *testing.T) {
	s := testSandbox(t, Config{Wall: time.Minute})
	if len(s.py.Missing) > 0 {
		t.Skipf("not installed beside %s: %v", s.py.Executable, s.py.Missing)
	}
	code := "import numpy as np, sympy as sp, mpmath\nx = sp.symbols('x')\nprint(sp.solve(x**2-2), int(np.arange(10).sum()), np.random.default_rng(0).integers(9), mpmath.mp.dps, (np.eye(300) @ np.ones(300)).sum())"
	if r := s.Run(context.Background(), code); r.Output != "[-sqrt(2), sqrt(2)] 45 7 15 300.0\n" {
		t.Errorf("%+v", r)
	}
	code = "import numpy as np\nx = np.ones(1 << 38)"
	if r := s.Run(context.Background(), code); r.Reason != OutOfMemory {
		t.Errorf("%+v", r)
	}
}

func TestLimits(t *testing.T) {
	s := testSandbox(t, Config{Wall: 30 * time.Second, CPU: time.Second, Packages: []string{}})
	r := s.Run(context.Background(), "while True: pass")
	if r.Reason != CPULimit || r.CPU < 1 || r.CPU > 3 || r.Exit != 137 {
		t.Errorf("processor time: %+v", r)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	if r := s.Run(ctx, "import time\ntime.sleep(20)"); r.Reason != Cancelled || r.Seconds > 10 {
		t.Errorf("cancelled: %+v", r)
	}
	if r := s.Run(context.Background(), strings.Repeat("#", maxProgram+1)); r.Reason != Failed || !strings.Contains(r.Error, "bytes") {
		t.Errorf("long program: %+v", r)
	}
	if r := s.Run(context.Background(), "x = 1\n#"+strings.Repeat("a", 900_000)+"\nprint(x)"); r.Output != "1\n" {
		t.Errorf("program past the size of a pipe: %+v", r)
	}
}

// A sandbox that is down says so with every call (j27), and names what happened.
func TestDown(t *testing.T) {
	s := testSandbox(t, Config{Packages: []string{}})
	results := make(chan Result)
	go func() { results <- s.Run(context.Background(), "import time\ntime.sleep(19)") }()
	time.Sleep(300 * time.Millisecond)
	if err := s.servers[0].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		r := Result{}
		if i == 0 {
			r = <-results
		} else {
			r = s.Run(context.Background(), "print(1)")
		}
		if r.Reason != Down || r.Err == nil || r.Error == "" || r.Output != "" || !strings.Contains(r.Err.Error(), "killed") {
			t.Errorf("call %d: %+v", i, r)
		}
	}
}

func TestRefusesWithoutALayer(t *testing.T) {
	testSandbox(t, Config{Packages: []string{}}) // skips where the machine itself lacks one
	all := kernelLayers()
	cases := []struct {
		name string
		have layers
		want string
	}{
		{"no landlock", layers{namespaces: true, seccomp: true}, "landlock"},
		{"no filter", layers{namespaces: true, landlock: all.landlock}, "seccomp filter"},
		{"no namespaces", layers{seccomp: true, landlock: all.landlock}, "namespaces"},
		{"none", layers{}, "namespaces"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			cfg := Config{Python: os.Getenv("TANDEM_PYTHON"), Packages: []string{}, Wall: 3 * time.Second}
			if s, err := newSandbox(cfg, c.have); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "--unsafe-sandbox") {
				t.Errorf("got %v, %v", s, err)
			}
			cfg.Unsafe = true
			s := testSandboxWith(t, cfg, c.have)
			if len(s.Missing()) == 0 || s.Missing()[0].Lost == "" {
				t.Errorf("nothing given up: %+v", s.Missing())
			}
			for _, code := range []string{"print(6*7)", "open('f','w').write('x')\nimport csv\n6*7"} {
				if r := s.Run(context.Background(), code); r.Output != "42\n" || r.Reason != OK {
					t.Errorf("%+v", r)
				}
			}
			if c.have.landlock > 0 {
				h := newHost(t)
				r := s.Run(context.Background(), "open("+jsonString(h.canary)+").read()")
				if r.Reason != Failed || !strings.Contains(r.Error, "PermissionError") && c.have.namespaces == false {
					t.Errorf("a file of the host: %+v", r)
				}
				h.unharmed(t)
			}
			if r := s.Run(context.Background(), "while True: pass"); r.Reason != TimedOut {
				t.Errorf("%+v", r)
			}
		})
	}
}

func jsonString(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

func TestProbe(t *testing.T) {
	layers := Probe()
	var names bytes.Buffer
	for _, l := range layers {
		names.WriteString(l.Name + ";")
		if !l.OK && (l.Detail == "" || l.Lost == "") {
			t.Errorf("a missing layer says nothing: %+v", l)
		}
	}
	for _, want := range []string{"user namespace", "network namespace", "seccomp filter", "landlock", "cgroup limits", "interpreter", "sandbox"} {
		if !strings.Contains(names.String(), want) {
			t.Errorf("no layer %q in %s", want, names.String())
		}
	}
}

func TestText(t *testing.T) {
	cases := []struct {
		r    Result
		want string
	}{
		{Result{}, "(no output)\n"},
		{Result{Output: "a"}, "a"},
		{Result{Output: "a", Error: "b"}, "a\nb"},
		{Result{Error: "b"}, "b"},
	}
	for _, c := range cases {
		if got := c.r.Text(); got != c.want {
			t.Errorf("%+v: %q, want %q", c.r, got, c.want)
		}
	}
}
