package tool

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// A cgroup bounds what all calls of one sandbox take together, kernel memory included. Each call alone is bounded by
// resource limits, which need no privilege.
type cgroup struct {
	dirs []string
}

const cgroupPrefix = "tandem-sandbox-"

// newCgroup makes a group below this process's own, in both versions' hierarchies. Memory is in bytes.
func newCgroup(memory int64, tasks int) (*cgroup, error) {
	memoryDir, old, err := controllerDir("memory")
	if err != nil {
		return nil, err
	}
	tasksDir, _, err := controllerDir("pids")
	if err != nil {
		return nil, err
	}
	removeStale(memoryDir)
	if tasksDir != memoryDir {
		removeStale(tasksDir)
	}
	g := &cgroup{}
	limit := "memory.max"
	if old {
		limit = "memory.limit_in_bytes"
	}
	err = g.add(memoryDir, limit, memory)
	if err == nil {
		err = g.add(tasksDir, "pids.max", int64(tasks))
	}
	if err != nil {
		return nil, errors.Join(err, g.remove())
	}
	return g, nil
}

// controllerDir finds the mounted directory of this process's group that has the controller; old is cgroup v1.
func controllerDir(controller string) (dir string, old bool, err error) {
	groups, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return "", false, err
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return "", false, err
	}
	for line := range strings.Lines(string(groups)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 || parts[1] != "" && !hasItem(parts[1], controller) {
			continue
		}
		old = parts[1] != ""
		point := cgroupMount(string(mounts), controller, old)
		dir = filepath.Join(point, parts[2])
		if point != "" && (old || offers(dir, controller)) {
			return dir, old, nil
		}
	}
	return "", false, fmt.Errorf("no cgroup with the %s controller is mounted and delegated", controller)
}

// cgroupMount finds where a hierarchy is mounted whole.
func cgroupMount(mountinfo, controller string, old bool) string {
	for line := range strings.Lines(mountinfo) {
		before, after, _ := strings.Cut(strings.TrimSpace(line), " - ")
		fields, kind := strings.Fields(before), strings.Fields(after)
		if len(fields) < 5 || len(kind) < 3 || fields[3] != "/" {
			continue
		}
		if old && kind[0] == "cgroup" && hasItem(kind[2], controller) || !old && kind[0] == "cgroup2" {
			return fields[4]
		}
	}
	return ""
}

func hasItem(list, item string) bool {
	return strings.Contains(","+list+",", ","+item+",")
}

// offers reports whether a group of version 2 hands the controller to the groups below it.
func offers(dir, controller string) bool {
	b, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	return err == nil && hasItem(strings.Join(strings.Fields(string(b)), ","), controller)
}

func (g *cgroup) add(parent, file string, limit int64) error {
	dir := filepath.Join(parent, fmt.Sprintf("%s%d-%d", cgroupPrefix, os.Getpid(), time.Now().UnixNano()))
	if len(g.dirs) > 0 && filepath.Dir(g.dirs[0]) == parent {
		dir = g.dirs[0]
	} else if err := os.Mkdir(dir, 0o755); err != nil {
		return fmt.Errorf("make a cgroup: %w", err)
	} else {
		g.dirs = append(g.dirs, dir)
	}
	return os.WriteFile(filepath.Join(dir, file), strconv.AppendInt(nil, limit, 10), 0)
}

func (g *cgroup) enter(pid int) error {
	for _, dir := range g.dirs {
		if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			return fmt.Errorf("enter cgroup: %w", err)
		}
	}
	return nil
}

// remove waits for the kernel to have let go of the last process.
func (g *cgroup) remove() error {
	if g == nil {
		return nil
	}
	var failures []error
	for _, dir := range g.dirs {
		err := syscall.Rmdir(dir)
		for i := 0; errors.Is(err, syscall.EBUSY) && i < 200; i++ {
			time.Sleep(5 * time.Millisecond)
			err = syscall.Rmdir(dir)
		}
		if err != nil {
			failures = append(failures, fmt.Errorf("remove cgroup %s: %w", dir, err))
		}
	}
	return errors.Join(failures...)
}

// removeStale removes what runners that were killed left behind.
func removeStale(parent string) {
	left, _ := filepath.Glob(filepath.Join(parent, cgroupPrefix+"*"))
	for _, dir := range left {
		owner, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(dir), cgroupPrefix), "-")
		if pid, err := strconv.Atoi(owner); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = syscall.Rmdir(dir)
		}
	}
}
