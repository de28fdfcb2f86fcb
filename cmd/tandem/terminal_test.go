package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pseudoTerminal opens one of 80 columns.
func pseudoTerminal(t *testing.T) (outer, inner *os.File) {
	t.Helper()
	outer, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("there is no pseudo-terminal here: %v", err)
	}
	t.Cleanup(func() { outer.Close() })
	if err := unix.IoctlSetPointerInt(int(outer.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(outer.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if inner, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetWinsize(int(inner.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 50, Col: 80}); err != nil {
		t.Fatal(err)
	}
	return outer, inner
}

// onTerminal runs tandem on a terminal, types at its keyboard, and gives everything that it wrote.
func onTerminal(t *testing.T, keys func(type_ func(string)), args ...string) (wrote string, code int) {
	t.Helper()
	outer, inner := pseudoTerminal(t)
	cmd := exec.Command(shared.binary, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = inner, inner, inner
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	inner.Close()
	var all strings.Builder
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&all, outer) // ends with an error when the other side closes
	}()
	if keys != nil {
		keys(func(s string) {
			if _, err := outer.WriteString(s); err != nil {
				t.Error(err)
			}
		})
	}
	kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	_ = cmd.Wait() // the state tells
	<-read
	return all.String(), cmd.ProcessState.ExitCode()
}

// A screen is what a person sees of what was written: rows of 80 columns, without an end.
type screen struct {
	rows     [][]rune
	row, col int
	wrapped  map[int]bool // rows that a line ran over into
}

const columns = 80

func (s *screen) write(text string) {
	s.wrapped = make(map[int]bool)
	text = regexp.MustCompile("\x1b\\[2K").ReplaceAllString(text, "\x00")
	for _, r := range text {
		for len(s.rows) <= s.row {
			s.rows = append(s.rows, []rune(strings.Repeat(" ", columns)))
		}
		switch r {
		case '\r':
			s.col = 0
		case '\n':
			s.row++
		case 0:
			s.rows[s.row] = []rune(strings.Repeat(" ", columns))
		default:
			if s.col == columns {
				s.col = 0
				s.row++
				s.wrapped[s.row] = true
				s.write1(r)
				continue
			}
			s.write1(r)
		}
	}
}

func (s *screen) write1(r rune) {
	for len(s.rows) <= s.row {
		s.rows = append(s.rows, []rune(strings.Repeat(" ", columns)))
	}
	s.rows[s.row][s.col] = r
	s.col++
}

// lines are the rows as text, those that ran over put together.
func (s *screen) lines() []string {
	var out []string
	for i, row := range s.rows {
		if s.wrapped[i] {
			out[len(out)-1] += string(row)
		} else {
			out = append(out, string(row))
		}
	}
	for i := range out {
		out[i] = strings.TrimRight(out[i], " ")
	}
	return out
}

func TestTrainOnATerminal(t *testing.T) {
	t.Parallel()
	_, args := small(t, "evaluation.every=2", "name=with a name that is long enough to be in the way")
	wrote, code := onTerminal(t, nil, args...)
	if code != 0 {
		t.Fatalf("exit status %d: %s", code, wrote)
	}
	// The bar: a share, a count, times; and the part of a step.
	if !regexp.MustCompile(`warm-up[^\r]* \d+% \|█+ *\| \(\d+/12\) \[\d+s:\d+s\]`).MatchString(wrote) {
		t.Errorf("no bar of the warm-up in %q", wrote)
	}
	if !regexp.MustCompile(`GRPO, (rollout|update) \d+/\d+ +\d+% \|`).MatchString(wrote) {
		t.Errorf("no bar with a part of a step in %q", wrote)
	}
	for _, bar := range regexp.MustCompile(`\r([^\r\n]*%[^\r\n]*\|[^\r\n]*)`).FindAllStringSubmatch(wrote, -1) {
		if n := len([]rune(bar[1])); n >= columns {
			t.Errorf("a bar of %d columns: %q", n, bar[1])
		}
	}
	// What stays on the screen has no trace of it, and every line is whole.
	var s screen
	s.write(wrote)
	steps := 0
	for _, line := range s.lines() {
		if strings.Contains(line, "% |") {
			t.Errorf("a bar is left on the screen: %q", line)
		}
		if strings.HasPrefix(line, "step ") {
			steps++
		}
		if strings.Contains(line, "tokens/s") && !regexp.MustCompile(`^step +\d+/\d+  (loss|reward) .*\d tokens/s$`).MatchString(line) {
			t.Errorf("a step's line is mixed with something: %q", line)
		}
		if strings.Contains(line, "held out, ") && !regexp.MustCompile(`^held out, 6 problems, .*\(\d+\.\d s\)$`).MatchString(line) {
			t.Errorf("an evaluation's line is mixed with something: %q", line)
		}
	}
	if steps != smallSteps {
		t.Errorf("%d lines of steps, want %d:\n%s", steps, smallSteps, strings.Join(s.lines(), "\n"))
	}
}

func TestChatOnATerminal(t *testing.T) {
	t.Parallel()
	wrote, code := onTerminal(t, func(keys func(string)) {
		keys("1+1=?\n")
		keys("\x04") // Ctrl-D: the end of what is typed
	}, "chat", "--model", need(t, shared.tiny), "--max-tokens", "3")
	if code != 0 || strings.Count(wrote, "> ") != 2 {
		t.Errorf("exit status %d: %q, want two prompts", code, wrote)
	}
	wrote, code = onTerminal(t, func(keys func(string)) {
		time.Sleep(300 * time.Millisecond) // whether it waits for a line yet or not
		keys("\x03")                       // Ctrl-C
	}, "chat", "--model", need(t, shared.tiny))
	if code != -1 && code != 130 {
		t.Errorf("after Ctrl-C at the prompt: exit status %d: %q", code, wrote)
	}
}
