package main

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"tandem/kernels"
	"tandem/kernels/cuda"
	"tandem/kernels/device"
	"tandem/trainer/tool"
)

func newDoctorCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "doctor",
		Short: "Tell what this machine has and what tandem makes of it",
		Args:  cobra.NoArgs,
		RunE:  func(*cobra.Command, []string) error { return doctor() },
	}
}

func doctor() error {
	fmt.Println(version())
	line := func(name, format string, args ...any) { fmt.Printf("%-26s %s\n", name, fmt.Sprintf(format, args...)) }
	line("processors", "%d (%s)", runtime.NumCPU(), cpuModel())
	free, err := device.FreeMemory()
	if err != nil {
		return err
	}
	line("memory", "%.1f GiB free", float64(free)/(1<<30))
	var disk unix.Statfs_t
	if err := unix.Statfs(".", &disk); err == nil {
		line("disk here", "%.1f GiB free", float64(disk.Bavail)*float64(disk.Bsize)/(1<<30))
	}
	line("huge pages", "%s", hugePages())
	healthy := false
	for _, name := range kernels.Vecs() {
		dev, err := kernels.NewCPU(kernels.CPUConfig{Vec: name})
		if err != nil {
			line("loops "+name, "fail: %v", err)
			continue
		}
		healthy = true
		line("loops "+name, "give the plain loops' bits")
		if err := dev.Close(); err != nil {
			return err
		}
	}
	cards(line)
	dev, err := device.Open("auto", 0)
	if err == nil && !healthy {
		err = errors.Join(errors.New("the CPU's loops give other bits than the plain ones"), dev.Close())
	}
	if err != nil {
		return fmt.Errorf("no device works: %w", err)
	}
	line("device", "%s", dev.Name())
	for _, l := range tool.Probe() {
		verdict := "yes"
		if !l.OK {
			verdict = "no"
		}
		line("sandbox: "+l.Name, "%s, %s", verdict, l.Detail)
	}
	return dev.Close()
}

// cards tells of every card, or why there is none that can be used.
func cards(line func(name, format string, args ...any)) {
	list, err := cuda.Cards(device.CUDA().Driver)
	if err != nil {
		line("cuda", "%v", err)
		return
	}
	line("cuda", "driver for CUDA %s, %v in this binary", list[0].Driver, cuda.Embedded())
	for i, c := range list {
		name := fmt.Sprintf("cuda:%d", i)
		cfg := device.CUDA()
		cfg.Index = i
		dev, err := cuda.Open(cfg)
		if err != nil {
			line(name, "%v, which can't be used: %v", c, err)
			continue
		}
		line(name, "%v", c)
		if note := device.Note(dev); note != "" {
			line(name+" forms", "%s", note)
		}
		if free, err := dev.FreeMemory(); err == nil {
			line(name+" memory", "%.1f GiB free", float64(free)/(1<<30))
		}
		if m, err := device.Telemetry(dev); m != nil {
			line(name+" now", "%v", m.Read())
			m.Close()
		} else if err != nil {
			line(name+" now", "not known: %v", err)
		}
		if err := dev.Close(); err != nil {
			line(name, "fail: %v", err)
		}
	}
}

func cpuModel() string {
	b, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for l := range strings.Lines(string(b)) {
		if name, ok := strings.CutPrefix(l, "model name"); ok {
			return strings.TrimSpace(strings.TrimLeft(name, "\t :"))
		}
	}
	return runtime.GOARCH
}

func hugePages() string {
	b, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil {
		return "not known"
	}
	s := string(b)
	if i, j := strings.IndexByte(s, '['), strings.IndexByte(s, ']'); i >= 0 && j > i {
		s = s[i+1 : j]
	}
	if s == "never" {
		return "never: large models will be slower; echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
	}
	return s
}
