package tool

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// What the kernel says of a program that runs, seen from the host.
func TestProgramSeenFromTheHost(t *testing.T) {
	s := testSandbox(t, Config{Packages: []string{}})
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	done := make(chan Result)
	go func() { done <- s.Run(ctx, "import time\nprint('in')\ntime.sleep(19)") }()
	time.Sleep(500 * time.Millisecond)
	server := s.servers[0].cmd.Process.Pid
	programs := descendants(t, server)
	if len(programs) == 0 {
		t.Fatal("no program runs")
	}
	for _, pid := range append(programs, server) {
		checkStatus(t, pid)
		if os.Geteuid() == 0 {
			checkNamespaces(t, pid, server)
			checkMounts(t, pid)
		}
	}
	cancel()
	if r := <-done; r.Reason != Cancelled || r.Output != "in\n" {
		t.Errorf("%+v", r)
	}
}

func checkStatus(t *testing.T, pid int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	status := map[string]string{}
	for line := range strings.Lines(string(b)) {
		name, value, _ := strings.Cut(line, ":")
		status[name] = strings.Join(strings.Fields(value), " ")
	}
	want := map[string]string{"NoNewPrivs": "1", "Seccomp": "2", "Threads": "1", "Groups": ""}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
		want[set] = "0000000000000000"
	}
	if os.Geteuid() == 0 && idMapped("/proc/self/uid_map", nobodyID) {
		want["Uid"] = strings.TrimSpace(strings.Repeat(fmt.Sprint(nobodyID, " "), 4))
		want["Gid"] = want["Uid"]
	}
	for name, value := range want {
		if got, found := status[name]; !found || got != value {
			t.Errorf("process %d: %s is %q, want %q", pid, name, got, value)
		}
	}
}

func checkNamespaces(t *testing.T, pid, server int) {
	t.Helper()
	of := func(pid any, name string) string {
		link, err := os.Readlink(fmt.Sprintf("/proc/%v/ns/%s", pid, name))
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	for _, name := range []string{"user", "mnt", "pid", "net", "ipc", "uts", "cgroup"} {
		if of(pid, name) == of("self", name) {
			t.Errorf("process %d shares its %s namespace with the host", pid, name)
		}
	}
	for _, name := range []string{"user", "mnt", "pid", "ipc"} {
		if pid != server && of(pid, name) == of(server, name) {
			t.Errorf("process %d shares its %s namespace with the server", pid, name)
		}
	}
}

// Everything is read-only but the scratch directory, nothing lends a user or a device but the three.
func checkMounts(t *testing.T, pid int) {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/mountinfo", pid))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		options := strings.Split(f[5], ",")
		has := func(o string) bool { return slices.Contains(options, o) }
		device := strings.HasPrefix(f[4], "/dev/")
		if f[4] != "/tmp" && !has("ro") || !has("nosuid") || !device && !has("nodev") || (f[4] == "/tmp" || device) && !has("noexec") {
			t.Errorf("process %d: mount %s has options %s", pid, f[4], f[5])
		}
	}
}
