package tool

import (
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// nobodyID is a user and group that owns no file and runs nothing else: systemd leaves 65520 to 65533 unused.
const nobodyID = 65533

// insideID is the user that programs find themselves to be.
const insideID = 1000

// namespaced is how the jail's first process starts. Root lends it two users: 0, to reach an interpreter that only root may
// read, and one that owns nothing, for the programs. Anyone else has only himself to lend; he is not called 0 inside, since
// the kernel lets only those map a 0 further who could give files capabilities.
func namespaced() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{
		Setsid:     true, // what a terminal sends to its group is for the runner to act on
		Cloneflags: allNamespaces,
	}
	if os.Geteuid() == 0 && idMapped("/proc/self/uid_map", nobodyID) && idMapped("/proc/self/gid_map", nobodyID) {
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}, {ContainerID: insideID, HostID: nobodyID, Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}, {ContainerID: insideID, HostID: nobodyID, Size: 1}}
		attr.GidMappingsEnableSetgroups = true
		return attr
	}
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: insideID, HostID: os.Getegid(), Size: 1}}
	attr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SETPCAP} // kept over the start of an interpreter that is not 0
	return attr
}

// idMapped reports whether a map of this user namespace has the id.
func idMapped(file string, id int) bool {
	b, err := os.ReadFile(file)
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 {
			continue
		}
		first, err1 := strconv.Atoi(f[0])
		size, err2 := strconv.Atoi(f[2])
		if err1 == nil && err2 == nil && first <= id && id-first < size {
			return true
		}
	}
	return false
}

// pythonCalls numbers the system calls that the Python files make.
func pythonCalls() map[string]int {
	return map[string]int{
		"clone": unix.SYS_CLONE, "mount": unix.SYS_MOUNT, "umount2": unix.SYS_UMOUNT2, "pivot_root": unix.SYS_PIVOT_ROOT,
		"mount_setattr": unix.SYS_MOUNT_SETATTR, "prctl": unix.SYS_PRCTL, "capset": unix.SYS_CAPSET,
		"seccomp": unix.SYS_SECCOMP, "close_range": unix.SYS_CLOSE_RANGE,
		"landlock_create_ruleset": unix.SYS_LANDLOCK_CREATE_RULESET, "landlock_add_rule": unix.SYS_LANDLOCK_ADD_RULE,
		"landlock_restrict_self": unix.SYS_LANDLOCK_RESTRICT_SELF,
	}
}

func lastCapability() int {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	n, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || convErr != nil {
		return unix.CAP_LAST_CAP
	}
	return n
}

func physicalMemory() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 1 << 40
	}
	return int64(info.Totalram) * int64(info.Unit)
}

func serverArguments(executable string) []string { return []string{executable, "-S", "-s", "-c", boot} }

// The server's environment is read by the interpreter and its libraries when they start; programs see seenEnvironment.
func serverEnvironmentMap() map[string]string {
	return map[string]string{
		"LD_LIBRARY_PATH": jailLibrary, "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "PYTHONDONTWRITEBYTECODE": "1",
		"PYTHONSAFEPATH": "1", "LC_ALL": "C.UTF-8", "TZ": "UTC0", "MALLOC_ARENA_MAX": "1", "OMP_NUM_THREADS": "1",
		"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "NUMEXPR_NUM_THREADS": "1",
	}
}

func serverEnvironment() []string {
	var list []string
	for _, name := range sortedKeys(serverEnvironmentMap()) {
		if name != "LD_LIBRARY_PATH" {
			list = append(list, name+"="+serverEnvironmentMap()[name])
		}
	}
	return list
}

func seenEnvironment() map[string]string {
	return map[string]string{"HOME": "/tmp", "TMPDIR": "/tmp", "LANG": "C.UTF-8", "TZ": "UTC0", "PYTHONHASHSEED": "0",
		"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
}

// warmModules are imported ahead: what programs import most.
func warmModules() []string {
	return []string{"bisect", "collections", "copy", "dataclasses", "datetime", "decimal", "fractions", "functools", "heapq",
		"io", "itertools", "json", "math", "operator", "os", "random", "re", "statistics", "string", "sys", "time", "typing",
		"cmath", "numbers", "concurrent.futures", "tempfile", "struct", "warnings", "contextlib", "encodings.idna"}
}
