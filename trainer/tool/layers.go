package tool

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Layer is one part of the isolation, or of what programs find, as a machine has it or lacks it.
type Layer struct {
	Name     string
	OK       bool
	Required bool   // New refuses without it, unless Config.Unsafe
	Detail   string // what was found, or what failed
	Lost     string // what goes with it when it is missing
}

const (
	lostRoot      = "programs see the host's files as far as landlock and their user let them"
	lostNamespace = "programs see the host's processes, network and files, as far as the other layers and their user let them"
	lostFilter    = "programs may make every system call, start processes and open sockets"
	lostLandlock  = "files are kept by the mount namespace alone"
	lostCgroup    = "each call has its limits, all calls together have none"
)

// layers is what the machine offers, as far as it can be asked without trying.
type layers struct {
	namespaces bool // assumed until they fail
	seccomp    bool
	landlock   int // version of its interface, 0 is none
}

func kernelLayers() layers {
	action := uint32(unix.SECCOMP_RET_KILL_PROCESS)
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_GET_ACTION_AVAIL, 0, uintptr(unsafe.Pointer(&action)))
	abi, _, landlockErrno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	have := layers{namespaces: true, seccomp: errno == 0}
	if landlockErrno == 0 {
		have.landlock = int(abi)
	}
	return have
}

func (l layers) missing() []Layer {
	var list []Layer
	for _, layer := range []Layer{l.filterLayer(), l.landlockLayer()} {
		if !layer.OK {
			list = append(list, layer)
		}
	}
	if !l.namespaces {
		list = append(list, Layer{Name: "namespaces", Required: true, Detail: "not to be used", Lost: lostNamespace})
	}
	return list
}

func (l layers) filterLayer() Layer {
	layer := Layer{Name: "seccomp filter", OK: l.seccomp, Required: true, Detail: "available", Lost: lostFilter}
	if !l.seccomp {
		layer.Detail = "the kernel takes no filter"
	}
	return layer
}

func (l layers) landlockLayer() Layer {
	layer := Layer{Name: "landlock", OK: l.landlock > 0, Required: true, Detail: fmt.Sprintf("version %d", l.landlock), Lost: lostLandlock}
	if !layer.OK {
		layer.Detail = "the kernel has none, or did not start it (lsm=landlock,... on its command line)"
	}
	return layer
}

// A layerError says which layer could not be had.
type layerError struct{ layer Layer }

func (e *layerError) Error() string { return e.layer.Name + ": " + e.layer.Detail }

func refusal(missing []Layer) error {
	var names []string
	for _, layer := range missing {
		names = append(names, layer.Name+" ("+layer.Detail+")")
	}
	return fmt.Errorf("this machine cannot isolate programs, it lacks: %s; --unsafe-sandbox goes on without", strings.Join(names, "; "))
}

const allNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// A namespace with the flag that makes it.
type namespace struct {
	name string
	flag uintptr
}

func namespaces() []namespace {
	return []namespace{{"user", 0}, {"mount", unix.CLONE_NEWNS}, {"pid", unix.CLONE_NEWPID}, {"network", unix.CLONE_NEWNET},
		{"ipc", unix.CLONE_NEWIPC}, {"uts", unix.CLONE_NEWUTS}, {"cgroup", unix.CLONE_NEWCGROUP}}
}

// nameNamespace finds which namespace it was that could not be made.
func nameNamespace(executable string, failure error) error {
	for _, n := range namespaces() {
		if layer := tryNamespace(executable, n); !layer.OK {
			return &layerError{layer}
		}
	}
	return &layerError{Layer{Name: "namespaces", Required: true, Detail: failure.Error(), Lost: lostNamespace}}
}

// tryNamespace starts an interpreter that does nothing, in a user namespace and one other.
func tryNamespace(executable string, n namespace) Layer {
	cmd := exec.Command(executable, "-I", "-S", "-c", "")
	cmd.Env, cmd.SysProcAttr = []string{}, namespaced()
	cmd.SysProcAttr.Cloneflags = unix.CLONE_NEWUSER | n.flag
	layer := Layer{Name: n.name + " namespace", OK: true, Required: true, Detail: "available", Lost: lostNamespace}
	if err := cmd.Run(); err != nil {
		layer.OK, layer.Detail = false, err.Error()
		if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) {
			layer.Detail += " (see user.max_user_namespaces, kernel.apparmor_restrict_unprivileged_userns, or the container's seccomp profile)"
		}
	}
	return layer
}

// Probe tries each layer of the sandbox on this machine, then all together, and names the interpreter and the packages that
// programs find.
func Probe() []Layer {
	cfg := Config{}.withDefaults()
	py, err := findPython(cfg.Python, cfg.Packages)
	if err != nil {
		return []Layer{{Name: "interpreter", Required: true, Detail: err.Error(), Lost: "nothing can be run"}}
	}
	var list []Layer
	for _, n := range namespaces() {
		list = append(list, tryNamespace(py.Executable, n))
	}
	have := kernelLayers()
	list = append(list, have.filterLayer(), have.landlockLayer(), probeCgroup())
	list = append(list, Layer{Name: "interpreter", OK: true, Required: true, Detail: fmt.Sprintf("%s %v", py.Executable, py.Version)})
	s, err := New(cfg)
	if err != nil {
		return append(list, Layer{Name: "sandbox", Required: true, Detail: err.Error(), Lost: "nothing is run without --unsafe-sandbox"})
	}
	for _, name := range cfg.Packages {
		version, found := s.servers[0].versions[name]
		if !found {
			version = "not installed beside " + py.Executable
		}
		list = append(list, Layer{Name: name, OK: found, Detail: version, Lost: "programs cannot import it"})
	}
	list = append(list, tryCall(s))
	if err := s.Close(); err != nil {
		list = append(list, Layer{Name: "sandbox", Detail: err.Error()})
	}
	return list
}

func tryCall(s *Sandbox) Layer {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r := s.Run(ctx, "6 * 7")
	ok := r.Reason == OK && r.Output == "42\n"
	return Layer{Name: "sandbox", OK: ok, Required: true, Detail: fmt.Sprintf("6 * 7 = %q %s in %.1f ms", r.Output, r.Error, 1000*r.Seconds)}
}

func probeCgroup() Layer {
	layer := Layer{Name: "cgroup limits", OK: true, Detail: "available", Lost: lostCgroup}
	group, err := newCgroup(1<<30, 64)
	if err == nil {
		err = group.remove()
	}
	if err != nil {
		layer.OK, layer.Detail = false, err.Error()
	}
	return layer
}
