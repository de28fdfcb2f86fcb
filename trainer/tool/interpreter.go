package tool

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"time"
)

//go:embed describe.py
var describeSource string

// A python is an interpreter of this machine: where its own files are, and those of the packages that programs may use.
type python struct {
	Executable string              `json:"executable"`
	Version    [3]int              `json:"version"`
	Name       string              `json:"name"` // python3.11
	Lib        string              `json:"lib"`  // lib or lib64
	Stdlib     string              `json:"stdlib"`
	Dynload    string              `json:"dynload"`
	Packages   map[string][]string `json:"packages"` // module: its directory, and what it brings beside it
	Missing    []string            `json:"missing"`  // asked for, not installed
	Lacking    string              `json:"lacking"`  // a module of the standard library that the sandbox itself needs
	libraries  libraries
}

// findPython asks the interpreter at path (python3 on PATH when empty), which may be a wrapper or live in a virtual
// environment, where it really is.
func findPython(path string, packages []string) (*python, error) {
	if path == "" {
		path = "python3"
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, path, append([]string{"-I", "-c", describeSource}, packages...)...)
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("ask %s where it lives: %w %s", path, err, bytes.TrimSpace(complaint.Bytes()))
	}
	var p python
	if err := json.Unmarshal(out, &p); err != nil {
		return nil, fmt.Errorf("ask %s where it lives: %w", path, err)
	}
	if p.Lacking != "" {
		return nil, fmt.Errorf("interpreter %s has no module %s, which the sandbox needs", p.Executable, p.Lacking)
	}
	if slices.Compare(p.Version[:], []int{3, 9, 0}) < 0 {
		return nil, fmt.Errorf("interpreter %s is version %v, the sandbox needs 3.9", p.Executable, p.Version)
	}
	p.libraries, err = findLibraries(p.Executable, p.extensionDirs())
	if err != nil {
		return nil, fmt.Errorf("find the libraries of %s: %w", p.Executable, err)
	}
	return &p, nil
}

// extensionDirs lists where compiled modules may be.
func (p *python) extensionDirs() []string {
	dirs := []string{p.Stdlib}
	if p.Dynload != "" {
		dirs = append(dirs, p.Dynload)
	}
	for _, paths := range p.Packages {
		dirs = append(dirs, paths...)
	}
	return dirs
}

// Where the interpreter's files are in the root that programs see. No name there tells anything of the host.
const (
	jailPrefix  = "/py"
	jailPython  = jailPrefix + "/bin/python3"
	jailSite    = jailPrefix + "/site"
	jailLibrary = "/lib"
)

// A mount is one entry of the root that programs see.
type mount struct {
	Source string `json:"source"` // on the host, free of symbolic links
	Target string `json:"target"`
	Kind   string `json:"kind"` // directory, file, device or mask
}

// mounts lists that root: the interpreter, its standard library without what is installed beside it, the packages on
// offer, the shared libraries that all these name, and three devices.
func (p *python) mounts() ([]mount, error) {
	stdlib := filepath.Join(jailPrefix, p.Lib, p.Name)
	list := []mount{
		{p.Executable, jailPython, "file"},
		{p.Stdlib, stdlib, "directory"},
	}
	for _, name := range []string{"site-packages", "dist-packages"} {
		if isDir(filepath.Join(p.Stdlib, name)) {
			list = append(list, mount{"", filepath.Join(stdlib, name), "mask"})
		}
	}
	if p.Dynload != "" && p.Dynload != filepath.Join(p.Stdlib, "lib-dynload") {
		list = append(list, mount{p.Dynload, jailPrefix + "/lib-dynload", "directory"})
	}
	for _, name := range sortedKeys(p.Packages) {
		for _, path := range p.Packages[name] {
			list = append(list, mount{path, filepath.Join(jailSite, filepath.Base(path)), kindOf(path)})
		}
	}
	for _, name := range sortedKeys(p.libraries.files) {
		list = append(list, mount{p.libraries.files[name], filepath.Join(jailLibrary, name), "file"})
	}
	if p.libraries.loader != "" {
		list = append(list, mount{p.libraries.loader, p.libraries.loader, "file"})
	}
	for _, device := range []string{"/dev/null", "/dev/zero", "/dev/urandom"} {
		list = append(list, mount{device, device, "device"})
	}
	return list, resolveSources(list)
}

func resolveSources(list []mount) error {
	var failures []error
	for i := range list {
		if list[i].Source == "" {
			continue
		}
		real, err := filepath.EvalSymlinks(list[i].Source)
		failures = append(failures, err)
		list[i].Source = real
	}
	return errors.Join(failures...)
}

// paths is the module search path in the jail.
func (p *python) paths() []string {
	stdlib := filepath.Join(jailPrefix, p.Lib, p.Name)
	return []string{"/tmp", stdlib, filepath.Join(stdlib, "lib-dynload"), jailPrefix + "/lib-dynload", jailSite}
}

// hostPaths is the module search path where there is no jail.
func (p *python) hostPaths() []string {
	list := []string{"", p.Stdlib, p.Dynload}
	for _, name := range sortedKeys(p.Packages) {
		if dir := filepath.Dir(p.Packages[name][0]); !slices.Contains(list, dir) {
			list = append(list, dir)
		}
	}
	return list
}

// hostReadable lists what a program reads where there is no jail and landlock alone keeps it from the rest.
func (p *python) hostReadable() []string {
	list := append(p.extensionDirs(), p.Executable)
	for _, name := range sortedKeys(p.libraries.files) {
		list = append(list, p.libraries.files[name])
	}
	return list
}

// installed names the packages on offer that are there, in the order asked for.
func (p *python) installed(asked []string) []string {
	list := []string{}
	for _, name := range asked {
		if len(p.Packages[name]) > 0 {
			list = append(list, name)
		}
	}
	return list
}

func isDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

func kindOf(path string) string {
	if isDir(path) {
		return "directory"
	}
	return "file"
}
