package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// The tests run the program as a user does: the binary itself, with files and exit statuses.

// A bench is what the tests share: the binary and a place for models and runs that several of them look at.
type bench struct {
	dir    string
	binary string

	tiny    func() (string, error) // a bfloat16 model with the demonstrations' tokenizer
	bare    func() (string, error) // without a tokenizer
	trained func() (string, error) // an uninterrupted run of the small recipe

	smallSettings func() ([]string, error) // of the small recipe
}

var shared = newBench()

func newBench() *bench {
	b := &bench{}
	b.smallSettings = sync.OnceValues(b.writeSmall)
	b.tiny = sync.OnceValues(func() (string, error) {
		return b.model("tiny", "--seed", "3", "--tokenizer", filepath.Join(repo(), "trainer", "recipes", "demo-tokenizer"))
	})
	b.bare = sync.OnceValues(func() (string, error) { return b.model("bare", "--seed", "4") })
	b.trained = sync.OnceValues(func() (string, error) {
		dir := filepath.Join(b.dir, "trained")
		args, err := b.smallRecipe(dir)
		if err != nil {
			return dir, err
		}
		return dir, b.must(args...)
	})
	return b
}

func (b *bench) model(name string, args ...string) (string, error) {
	dir := filepath.Join(b.dir, name)
	return dir, b.must(append([]string{"init-model", "tiny", dir}, args...)...)
}

func (b *bench) must(args ...string) error {
	r := b.start(args...).wait()
	if r.code != 0 {
		return fmt.Errorf("%v: exit status %d: %s", args, r.code, r.stderr)
	}
	return nil
}

func repo() string {
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		panic(err)
	}
	return dir
}

func TestMain(m *testing.M) {
	code, err := shared.test(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

func (b *bench) test(m *testing.M) (code int, err error) {
	if b.dir, err = os.MkdirTemp("", "tandem-test-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(b.dir)
	b.binary = filepath.Join(b.dir, "tandem")
	build := exec.Command("go", "build", "-o", b.binary, ".")
	build.Env = os.Environ()
	if os.Getenv("CGO_LDFLAGS") == "" {
		build.Env = append(build.Env, "CGO_LDFLAGS=-L"+filepath.Join(repo(), "build", "native"))
	}
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build tandem: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// A process is a running tandem.
type process struct {
	cmd            *exec.Cmd
	cancel         context.CancelFunc
	stdout, stderr bytes.Buffer
	failed         error // to start
	ended          chan struct{}
}

// A result is what a user sees of a process that ended.
type result struct {
	stdout, stderr string
	code           int // -1: by a signal
}

func (r result) String() string {
	return fmt.Sprintf("exit status %d\nstdout: %s\nstderr: %s", r.code, r.stdout, r.stderr)
}

// complaints are what stderr has beside the lines of progress, of which a slow machine shows some.
func (r result) complaints() string {
	var out strings.Builder
	for line := range strings.Lines(r.stderr) {
		if !progressLine.MatchString(line) {
			out.WriteString(line)
		}
	}
	return out.String()
}

var progressLine = regexp.MustCompile(`^[\w-]+: \d+ of \d+ (steps|replies), .*\n$`)

// patience is for a process of seconds on a machine that does much else.
const patience = 5 * time.Minute

func (b *bench) start(args ...string) *process { return b.startWith("", args...) }

func (b *bench) startWith(stdin string, args ...string) *process {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	p := &process{cmd: exec.CommandContext(ctx, b.binary, args...), cancel: cancel, ended: make(chan struct{})}
	p.cmd.Stdin, p.cmd.Stdout, p.cmd.Stderr = strings.NewReader(stdin), &p.stdout, &p.stderr
	if p.failed = p.cmd.Start(); p.failed != nil {
		close(p.ended)
		return p
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait() // the state tells
	}()
	return p
}

// wait is for the end.
func (p *process) wait() result {
	<-p.ended
	p.cancel()
	if p.failed != nil {
		return result{stderr: p.failed.Error(), code: -1}
	}
	return result{p.stdout.String(), p.stderr.String(), p.cmd.ProcessState.ExitCode()}
}

func (p *process) running() bool {
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// tandem runs a command that must succeed.
func tandem(t *testing.T, args ...string) result { t.Helper(); return tandemWith(t, "", args...) }

func tandemWith(t *testing.T, stdin string, args ...string) result {
	t.Helper()
	r := shared.startWith(stdin, args...).wait()
	if r.code != 0 {
		t.Fatalf("tandem %s: %v", strings.Join(args, " "), r)
	}
	return r
}

// refused runs a command that must fail with a status and say all of texts, in a message of a few lines.
func refused(t *testing.T, code int, args []string, texts ...string) result {
	t.Helper()
	return refusedWith(t, "", code, args, texts...)
}

func refusedWith(t *testing.T, stdin string, code int, args []string, texts ...string) result {
	t.Helper()
	r := shared.startWith(stdin, args...).wait()
	if r.code != code {
		t.Errorf("tandem %s: want exit status %d, got %v", strings.Join(args, " "), code, r)
	}
	for _, text := range texts {
		if !strings.Contains(r.stderr, text) {
			t.Errorf("tandem %s: it says %q, want %q in it", strings.Join(args, " "), r.stderr, text)
		}
	}
	if strings.Contains(r.stderr, "goroutine ") {
		t.Errorf("tandem %s: it crashed: %s", strings.Join(args, " "), r.stderr)
	}
	return r
}

func need(t *testing.T, make func() (string, error)) string {
	t.Helper()
	dir, err := make()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// rows are lines of JSON.
func rows[T any](t *testing.T, text string) []T {
	t.Helper()
	var out []T
	d := json.NewDecoder(strings.NewReader(text))
	for d.More() {
		var row T
		if err := d.Decode(&row); err != nil {
			t.Fatalf("row %d: %v", len(out), err)
		}
		out = append(out, row)
	}
	return out
}

// until waits for something to come true.
func until(t *testing.T, p *process, what string, is func() bool) {
	t.Helper()
	for begun := time.Now(); !is(); time.Sleep(time.Millisecond) {
		if !p.running() || time.Since(begun) > patience {
			t.Fatalf("it ended, or took too long, before %s: %v", what, p.wait())
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, os.ErrNotExist)
}
